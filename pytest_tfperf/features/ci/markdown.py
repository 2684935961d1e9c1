"""A session in Markdown: the summary, and the shorter comment on a pull request."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.session_verdicts import SessionResult, SessionVerdict
from pytest_tfperf.core.verdict import BAD_NEWS, MOVED
from pytest_tfperf.errors import FailsHereOnly, TfperfError
from pytest_tfperf.lines import code_block, plain, without_passwords
from pytest_tfperf.reports.figures import bad_figures, figure_fact, figure_rows
from pytest_tfperf.reports.interleaved import sides
from pytest_tfperf.reports.measurement_table import ACT_FIRST, measurement_rows, outcome, result_rank
from pytest_tfperf.reports.message import message
from pytest_tfperf.reports.numbers import change, counted
from pytest_tfperf.reports.session_verdicts import session_headline, text_of

Row = dict[str, str | None]

FAILED: Final = "FAILED"

_MOST_CHARACTERS = 200  # of a test's id, which may have ten thousand, and of other short texts
_MOST_BYTES = 500_000  # in all messages; GitHub drops a summary of more than 1 MiB

_SPECIAL = re.compile(r"[\\`*_\[\]~#]")
_REFERENCE = re.compile(r"@(?=\w)|[#!](?=\d)")  # to a person, who would be notified, or to an issue or merge request


def markdown(
    results: Sequence[Measurement],
    *,
    verdicts: Sequence[SessionVerdict] = (),
    not_measured: Mapping[str, TfperfError] | None = None,
    refused: Mapping[str, TfperfError] | None = None,
    remarks: Iterable[str] = (),
    rerun: RerunCommand = FROM_ROOTDIR,
) -> str:
    """Return the summary, worst results first. Special characters in names are escaped.

    Args:
        results: the session's measurements.
        verdicts: on software and machine as a whole.
        not_measured: test -> error, for tests that could not be measured.
        refused: test -> error, for tests whose baseline was refused.
        remarks: further paragraphs about the whole session.
        rerun: how to measure a test again.
    """
    failed = not_measured or {}
    paragraphs = [*filter(None, map(text_of, verdicts)), *remarks]
    headline = session_headline(results, verdicts, not_measured=failed, refused=refused or {})
    blocks = ["## Throughput", _bold(headline), *map(as_text, paragraphs)]
    ordered = sorted(results, key=_urgency)
    measured = [m for m in ordered if m.other is None]
    compared = [m for m in ordered if m.other is not None]
    tables = (
        _measured(measured),
        figure_rows(measured, all_of_them=True),
        _compared(compared),
        figure_rows(compared, all_of_them=True),
    )
    blocks += [_table(rows) for rows in tables if rows]
    bad = [m for m in ordered if m.is_decided and m.outcome in BAD_NEWS and m.test not in failed]
    messages = [(outcome(m), m.test, plain(message(m, rerun))) for m in bad]
    messages += [(word, test, str(error)) for word, test, error in without_result(failed, refused or {})]
    blocks += _folded(messages)
    return "\n\n".join(blocks) + "\n"


def without_result(
    not_measured: Mapping[str, TfperfError], refused: Mapping[str, TfperfError]
) -> Iterator[tuple[str, str, TfperfError]]:
    """Yield a word in place of an outcome, the test and its error, for each test without a result."""
    for test, error in not_measured.items():
        yield FAILED if isinstance(error, FailsHereOnly) else "NOT MEASURED", test, error
    for test, error in refused.items():
        yield "REFUSED", test, error


def _bold(clauses: Sequence[str]) -> str:
    return f"**{as_text('; '.join(clauses))}.**"


def _one_line(text: str) -> str:
    text = without_passwords(text)
    return " ".join("".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text).split())


def as_text(text: str) -> str:
    """Return the text as one line of Markdown, escaped so that it makes no table, link, HTML or mention of a person.

    >>> as_text("a|b <script> @ada")
    'a&#124;b &lt;script&gt; @&#8203;ada'
    """
    return _as_html(_SPECIAL.sub(r"\\\g<0>", _one_line(text))).replace("|", "&#124;")


def _as_html(text: str) -> str:
    """Return the text in HTML; a zero-width space breaks references to persons and issues."""
    return _REFERENCE.sub(r"\g<0>&#8203;", html.escape(text, quote=False))


def _urgency(result: Measurement) -> tuple[int, float]:
    """A sort key: the worst outcome first, then the largest slowdown."""
    return result_rank(result), _change(result) or 0.0


def _measured(measurements: Sequence[Measurement]) -> list[Row]:
    heading, rows = measurement_rows(measurements)
    columns = ["outcome", "test", "workload", "topology", heading, "95 % CI"]
    columns += ["baseline", "change", "confirmed", "fails at"]
    with_tests = [row | {"test": m.test} for m, row in zip(measurements, rows, strict=True)]
    return [{column: row[column] for column in columns} for row in with_tests]


def _compared(measurements: Sequence[Measurement]) -> list[Row]:
    rows: list[Row] = []
    for m in measurements:
        a, b = sides(m)
        ratio = f"{m.ratio:.3f}" if m.is_valid else None
        rows.append({"outcome": outcome(m), "test": m.test, "a": a, "b": b, "b / a": ratio})
    return rows


def _table(rows: Sequence[Row]) -> str:
    """Return a pipe table; a column without any value is left out."""
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = [names, ["---"] * len(names), *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str | None) -> str:
    return as_text(_short(text or ""))


def _short(text: str) -> str:
    text = without_passwords(text)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 2]}.."


def _folded(messages: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield each message below its outcome and test, as long as there is room."""
    room, left_out = _MOST_BYTES, 0
    for word, test, text in messages:
        block = _details(word, test, text)
        room -= len(block.encode(errors="replace"))
        if room < 0:
            left_out += 1
        else:
            yield block
    if left_out:
        yield f"{left_out} more messages do not fit here; pytest's report has all of them."


def _details(word: str, test: str, text: str) -> str:
    """Return a text that a click opens."""
    summary = f"<summary>{word} {_as_html(_short(_one_line(test)))}</summary>"
    return f"<details>{summary}\n\n{code_block(text)}\n\n</details>"


# The comment on a pull request

_MOST_ROWS: Final = 15


def comment(result: SessionResult, rerun: RerunCommand) -> str:
    """Return the comment's Markdown: a few lines if nothing moved."""
    moved = sorted(
        (m for m in result.results if m.is_decided and m.outcome in MOVED and any(_rows(m))),
        key=lambda m: (ACT_FIRST.index(m.outcome), _change(m) or 0.0),
    )
    headline = session_headline(
        result.results, result.verdicts, not_measured=result.not_measured, refused=result.refused
    )
    blocks = [_bold(headline)]
    if moved:
        rows = "\n".join(f"| {' | '.join(row)} |" for m in moved[:_MOST_ROWS] for row in _rows(m))
        blocks.append(f"| outcome | test | change | 95 % CI | by |\n| --- | --- | --- | --- | --- |\n{rows}")
    if len(moved) > _MOST_ROWS:
        blocks.append(f"and {len(moved) - _MOST_ROWS} more: the job's summary has all of them.")
    blocks += [as_text(_short(remark)) for remark in result.remarks]
    for word, test, error in islice(without_result(result.not_measured, result.refused), _MOST_ROWS):
        blocks.append(f"{word}: {as_text(_short(test))}: {as_text(_short(error.headline))}")
    if moved:
        command = _one_line(rerun.of(moved[0].test)).replace("`", "'")  # a code span notifies nobody
        blocks.append(f"Again: `{command}`")
    return "\n\n".join(blocks) + "\n"


def _rows(m: Measurement) -> Iterator[Iterable[str]]:
    """Yield a row if the throughput moved, and a row for each figure that is worse."""
    test = as_text(_short(m.test))
    taken = counted(len(m.pairs), "pair") if m.other else counted(len(m.runs), "run")
    if m.verdict is not None and m.verdict.outcome in MOVED and (moved := _change(m)) is not None:
        low, high = m.verdict.interval or (math.nan, math.nan)
        interval = f"{change(low)} to {change(high)}" if m.verdict.interval and m.is_valid else ""
        why = change(moved) if m.is_valid else m.verdict.why
        yield f"{m.verdict.outcome}", test, why, interval, taken
    for verdict in bad_figures(m):
        yield f"{verdict.outcome}", test, as_text(figure_fact(verdict)), "", taken


def _change(m: Measurement) -> float | None:
    """Return the throughput's confirmed or first change as a fraction; None without a comparison."""
    return m.verdict.deciding_change if m.verdict else None
