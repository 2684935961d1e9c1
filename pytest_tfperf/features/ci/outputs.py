"""A session's output for CI systems: Markdown, a comment, annotations of source lines, and JUnit properties."""

from __future__ import annotations

import html
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import BAD_NEWS, MOVED, Consequence, Outcome
from pytest_tfperf.errors import FailsHereOnly, TfperfError
from pytest_tfperf.lines import Line, LineKind, code_block, plain, printable, without_passwords
from pytest_tfperf.reports.measurement_table import ACT_FIRST, figure_rows, measurement_rows, outcome, result_rank
from pytest_tfperf.reports.message import message
from pytest_tfperf.reports.numbers import change, counted
from pytest_tfperf.reports.session_verdicts import session_headline, text_of
from pytest_tfperf.reports.verdict import as_fraction, bad_figures, fact, ratio_cells, ratio_fact, ratio_interval, sides
from pytest_tfperf.stores import files

_LEVELS = {Consequence.FAILS: "error", Consequence.WARNS: "warning"}


def outputs(
    settings: Settings, result: SessionResult, markdown_file: Path | None, comment_file: Path | None
) -> Iterator[Line | str]:
    """Write all output that was asked for, and yield lines for the user.

    An output that can't be written gives a line, and does not keep the others from being written.
    """
    page_of_job = os.environ.get("GITHUB_STEP_SUMMARY")
    if page_of_job and result.selection and not settings.collects_only:
        yield from _write(Path(page_of_job), "Markdown summary", markdown(result, settings.rerun), appends=True)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        yield from _github_annotations(settings, result)
    if markdown_file is not None and not settings.collects_only:
        yield from _write(markdown_file, "Markdown summary", markdown(result, settings.rerun))
    if comment_file is not None and result.selection:
        yield from _write(comment_file, "comment for a pull request", comment(result, settings.rerun))


def _write(path: Path, title: str, text: str, *, appends: bool = False) -> Iterator[str]:
    """Write a file, or append to that of a GitHub job, and yield a line about it."""
    content = text.encode(errors="backslashreplace")  # a test's id may hold half of a character
    try:
        if appends:
            with path.open("ab") as file:
                file.write(content)
        else:
            files.replace(path, content)
            yield f"{title}: {path}"
    except OSError as error:
        yield f"{path}: the {title} can't be written: {error.strerror}. Free space, or correct its permissions"


def _github_annotations(settings: Settings, result: SessionResult) -> list[Line]:
    """Return workflow commands: GitHub reads them from the job's output and shows them beside source lines."""
    lines = []
    for m, follows in zip(result.results, result.consequences, strict=True):
        if follows in _LEVELS and m.is_decided and m.test not in result.not_measured:
            text = plain(message(m, settings.rerun))
            title = f"{m.outcome}: {m.test}"
            file, line = _source(settings, result, m.test)
            lines.append(annotation(_LEVELS[follows], text, title=title, file=file, line=line))
    for word, test, error in _without_result(result):
        file, line = _source(settings, result, test)
        level = "error" if word == FAILED else "warning"
        lines.append(annotation(level, str(error), title=f"{word}: {test}", file=file, line=line))
    lines += [
        annotation("error", text_of(verdict), title=f"{verdict.kind} on {verdict.machine}")
        for verdict in result.verdicts
        if verdict.outcome is Outcome.REGRESSED
    ]
    return lines


def _source(settings: Settings, result: SessionResult, test: str) -> tuple[str, int]:
    """Return a test's file, relative to the checkout, and its line."""
    selected = result.selection[test]
    root = os.environ.get("GITHUB_WORKSPACE") or str(settings.root)
    return os.path.relpath(settings.root / selected.file, root), selected.line


_IN_TEXT = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = _IN_TEXT | str.maketrans({":": "%3A", ",": "%2C"})


def annotation(level: str, text: str, *, title: str, file: str = "", line: int = 0) -> Line:
    """Return a workflow command, escaped as GitHub's toolkit does it (actions/toolkit, packages/core/src/command.ts).

    The level is "error", "warning" or "notice". The file is a path from the repository's root, "" if unknown, and its
    lines count from 1.

    >>> annotation("error", "13.0 % slower", title="REGRESSED: a", file="test_a.py", line=3).text
    '::error file=test_a.py,line=3,title=REGRESSED%3A a::13.0 %25 slower'
    """
    # What hides passwords does not know them behind GitHub's escapes.
    text, title = without_passwords(text), without_passwords(title)
    values = {"file": file, "line": str(line) if file and line else "", "title": title}
    properties = ",".join(f"{name}={value.translate(_IN_PROPERTIES)}" for name, value in values.items() if value)
    return Line(f"::{level} {properties}::{text.translate(_IN_TEXT)}", kind=LineKind.CI_COMMAND)


_PREFIX = "tfperf_"

Property = tuple[str, str | float]


def properties(results: Sequence[Measurement]) -> list[Property]:
    """Return the properties of a test: `tfperf_outcome` is of its first call, `tfperf_2_outcome` of its second.

    Fractions are signed: a change of -0.13 is 13 % slower. Unknown values are left out. Figures have names such as
    "figure.loss" and "figure.loss.outcome"; a figure's own name has no dot, so no name is that of another property. A
    comparison has b's value, and a's in place of the baseline; where their topologies differ, `a_topology` is a's.
    """
    all_properties: list[Property] = []
    for number, result in enumerate(results, 1):
        prefix = _PREFIX if number == 1 else f"{_PREFIX}{number}_"
        facts = _facts(result).items()
        all_properties += [(prefix + name, _shown(value)) for name, value in facts if value is not None]
    return all_properties


def _facts(m: Measurement) -> dict[str, str | float | None]:
    verdict, t, a = m.verdict, m.throughput, m.other
    facts: dict[str, str | float | None] = {"outcome": outcome(m)}
    if a is None:
        facts["workload"] = m.workload.id
    else:
        facts |= {"a": a.workload.id, "a_topology": a.topology or None, "b": m.workload.id}
    facts |= {"topology": m.topology, "machine": m.machine}
    if a is not None:
        facts |= {"ratio": m.ratio if m.is_valid else None, "required_ratio": a.at_least}
    else:
        facts |= {
            "unit": f"{t.unit}/s",
            "examples_per_sec": t.examples_per_sec if m.is_valid else None,
            "baseline": verdict.baseline.value if verdict and verdict.baseline else None,
            "change": verdict.change if verdict else None,
            "confirmed_change": verdict.confirmed_change if verdict else None,
            "threshold": -verdict.threshold if verdict and verdict.threshold else None,
        }
    facts["owner"] = m.owner or None
    for judged in m.figures:
        name = f"figure.{judged.figure.name}"
        facts |= {
            name: judged.value,
            f"{name}.outcome": judged.outcome,
            f"{name}.{'a' if m.other else 'baseline'}": judged.compared_with,
            f"{name}.confirmed_change": as_fraction(judged, judged.confirmed_change),
        }
    return facts


def _shown(value: str | float) -> str | float:
    # No measurement has six digits; adding 0.0 makes 0.0 of -0.0.
    return printable(value) if isinstance(value, str) else float(f"{value:.6g}") + 0.0


# The summary in Markdown

Row = dict[str, str | None]

FAILED: Final = "FAILED"

_MOST_CHARACTERS = 200  # of a test's id, which may have ten thousand, and of other short texts
_MOST_BYTES = 500_000  # in all messages; GitHub drops a summary of more than 1 MiB

_SPECIAL = re.compile(r"[\\`*_\[\]~#]")
_REFERENCE = re.compile(r"@(?=\w)|[#!](?=\d)")  # to a person, who would be notified, or to an issue or merge request


def markdown(result: SessionResult, rerun: RerunCommand = FROM_ROOTDIR) -> str:
    """Return the summary, worst results first. Special characters in names are escaped."""
    ordered = sorted(result.results, key=lambda m: (result_rank(m), _change(m) or 0.0))
    measured = [m for m in ordered if m.other is None]
    compared = [m for m in ordered if m.other is not None]
    tables = (
        _measured(measured),
        figure_rows(measured, all_of_them=True),
        _compared(compared),
        figure_rows(compared, all_of_them=True),
    )
    bad = [m for m in ordered if m.is_decided and m.outcome in BAD_NEWS and m.test not in result.not_measured]
    messages = [(outcome(m), m.test, plain(message(m, rerun))) for m in bad]
    messages += [(word, test, str(error)) for word, test, error in _without_result(result)]
    paragraphs = [*filter(None, map(text_of, result.verdicts)), *result.remarks]
    blocks = ["## Throughput", _headline(result), *map(as_text, paragraphs)]
    return "\n\n".join([*blocks, *(_table(rows) for rows in tables if rows), *_folded(messages)]) + "\n"


def _without_result(result: SessionResult) -> Iterator[tuple[str, str, TfperfError]]:
    """Yield a word in place of an outcome, the test and its error, for each test without a result."""
    for test, error in result.not_measured.items():
        yield FAILED if isinstance(error, FailsHereOnly) else "NOT MEASURED", test, error
    for test, error in result.refused.items():
        yield "REFUSED", test, error


def _headline(result: SessionResult) -> str:
    return f"**{as_text('; '.join(session_headline(result)))}.**"


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


def _measured(measurements: Sequence[Measurement]) -> list[Row]:
    heading, rows = measurement_rows(measurements)
    columns = ["outcome", "test", "workload", "topology", heading, "95 % CI"]
    columns += ["baseline", "change", "confirmed", "fails from"]
    with_tests = [row | {"test": m.test} for m, row in zip(measurements, rows, strict=True)]
    return [{column: row[column] for column in columns} for row in with_tests]


def _compared(measurements: Sequence[Measurement]) -> list[Row]:
    rows: list[Row] = []
    for m in measurements:
        if m.other is not None:
            a, b = sides(m)
            rows.append({"outcome": outcome(m), "test": m.test, "a": a, "b": b, **ratio_cells(m, m.other)})
    return rows


def _table(rows: Sequence[Row]) -> str:
    """Return a pipe table; a column without any value is left out."""
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = [names, ["---"] * len(names), *([as_text(_short(row[name] or "")) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _short(text: str) -> str:
    text = without_passwords(text)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 2]}.."


def _folded(messages: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield each message below its outcome and test, where a click opens it, as long as there is room."""
    room, left_out = _MOST_BYTES, 0
    for word, test, text in messages:
        summary = f"<summary>{word} {_as_html(_short(_one_line(test)))}</summary>"
        block = f"<details>{summary}\n\n{code_block(text)}\n\n</details>"
        room -= len(block.encode(errors="replace"))
        if room < 0:
            left_out += 1
        else:
            yield block
    if left_out:
        yield f"{left_out} more messages do not fit here; pytest's report has all of them."


# The comment on a pull request

_MOST_ROWS: Final = 15


def comment(result: SessionResult, rerun: RerunCommand) -> str:
    """Return the comment's Markdown: a few lines if nothing moved."""
    moved = sorted(
        (m for m in result.results if m.is_decided and m.outcome in MOVED and any(_rows(m))),
        key=lambda m: (ACT_FIRST.index(m.outcome), _change(m) or 0.0),
    )
    blocks = [_headline(result)]
    if moved:
        blocks.append(_table([row for m in moved[:_MOST_ROWS] for row in _rows(m)]))
    if len(moved) > _MOST_ROWS:
        blocks.append(f"and {len(moved) - _MOST_ROWS} more: the job's summary has all of them.")
    blocks += [as_text(_short(remark)) for remark in result.remarks]
    for word, test, error in islice(_without_result(result), _MOST_ROWS):
        blocks.append(f"{word}: {as_text(_short(test))}: {as_text(_short(error.headline))}")
    if moved:
        command = _one_line(rerun.of(moved[0].test)).replace("`", "'")  # a code span notifies nobody
        blocks.append(f"Again: `{command}`")
    return "\n\n".join(blocks) + "\n"


def _rows(m: Measurement) -> Iterator[Row]:
    """Yield a row if the throughput moved, and a row for each figure that is worse."""
    rest: Row = {"by": counted(len(m.pairs), "pair") if m.other else counted(len(m.runs), "run")}
    verdict = m.verdict
    if verdict is not None and verdict.outcome in MOVED and (moved := verdict.deciding_change) is not None:
        low, high = verdict.interval or (math.nan, math.nan)
        interval = f"{change(low)} to {change(high)}" if verdict.interval and m.is_valid else None
        why = change(moved) if m.is_valid else verdict.why
        if m.is_valid and m.other is not None and m.other.at_least is not None:
            why, interval = ratio_fact(m, m.other), ratio_interval(m)
        yield {"outcome": verdict.outcome, "test": m.test, "change": why, "95 % CI": interval} | rest
    for bad in bad_figures(m):
        yield {"outcome": bad.outcome, "test": m.test, "change": fact(m, bad), "95 % CI": None} | rest


def _change(m: Measurement) -> float | None:
    """Return the throughput's confirmed or first change as a fraction; None without a comparison."""
    return m.verdict.deciding_change if m.verdict else None
