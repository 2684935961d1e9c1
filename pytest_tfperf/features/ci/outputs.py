"""A session's output for CI systems: a summary in Markdown, annotations of source lines, and JUnit properties."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_tfperf.core.measurement import MeasuredSide, Measurement
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Consequence, Outcome
from pytest_tfperf.features.ci.markdown import FAILED, comment, markdown, without_result
from pytest_tfperf.lines import Line, LineKind, plain, printable, without_passwords
from pytest_tfperf.reports.figures import figure_properties
from pytest_tfperf.reports.measurement_table import outcome
from pytest_tfperf.reports.message import message
from pytest_tfperf.reports.session_verdicts import text_of
from pytest_tfperf.stores import files

_LEVELS = {Consequence.FAILS: "error", Consequence.WARNS: "warning"}


def outputs(
    settings: Settings, record: SessionResult, markdown_file: Path | None, comment_file: Path | None
) -> Iterator[Line | str]:
    """Write all output that was asked for, and yield lines for the user.

    An output that can't be written gives a line, and does not keep the others from being written.
    """
    yield from _github_summary(settings, record)
    yield from _github_annotations(settings, record)
    if markdown_file is not None and not settings.collects_only:
        yield _write(markdown_file, "Markdown summary", _markdown(settings, record))
    if comment_file is not None and record.selection:
        text = comment(record, settings.rerun).encode(errors="backslashreplace")
        yield _write(comment_file, "comment for a pull request", text)


def _write(path: Path, title: str, text: bytes) -> str:
    """Write a file, and return a line about it."""
    try:
        files.replace(path, text)
    except OSError as error:
        return _failure(path, title, error)
    return f"{title}: {path}"


def _failure(path: str | Path, title: str, error: OSError) -> str:
    return f"{path}: the {title} can't be written: {error.strerror}. Free space, or correct its permissions"


def _github_summary(settings: Settings, record: SessionResult) -> list[str]:
    """Append the Markdown summary to the page of a GitHub job, and return lines for the user."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path and record.selection and not settings.collects_only:
        try:
            with Path(path).open("ab") as file:
                file.write(_markdown(settings, record))
        except OSError as error:
            return [_failure(path, "Markdown summary", error)]
    return []


def _github_annotations(settings: Settings, record: SessionResult) -> list[Line]:
    """Return workflow commands: GitHub reads them from the job's output and shows them beside source lines."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return []

    lines = []
    for result, follows in zip(record.results, record.consequences, strict=True):
        if follows in _LEVELS and result.is_decided and result.test not in record.not_measured:
            text = plain(message(result, settings.rerun))
            title = f"{result.outcome}: {result.test}"
            file, line = _source(settings, record, result.test)
            lines.append(annotation(_LEVELS[follows], text, title=title, file=file, line=line))
    for word, test, error in without_result(record.not_measured, record.refused):
        file, line = _source(settings, record, test)
        level = "error" if word == FAILED else "warning"
        lines.append(annotation(level, str(error), title=f"{word}: {test}", file=file, line=line))
    lines += [
        annotation("error", text_of(verdict), title=f"{verdict.kind} on {verdict.machine}")
        for verdict in record.verdicts
        if verdict.outcome is Outcome.REGRESSED
    ]
    return lines


def _markdown(settings: Settings, record: SessionResult) -> bytes:
    text = markdown(
        record.results,
        verdicts=record.verdicts,
        not_measured=record.not_measured,
        refused=record.refused,
        remarks=record.remarks,
        rerun=settings.rerun,
    )
    return text.encode(errors="backslashreplace")  # a test's id may hold half of a character


def _source(settings: Settings, record: SessionResult, test: str) -> tuple[str, int]:
    """Return a test's file, relative to the checkout, and its line."""
    selected = record.selection[test]
    root = os.environ.get("GITHUB_WORKSPACE") or str(settings.root)
    return os.path.relpath(settings.root / selected.file, root), selected.line


_IN_TEXT = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = _IN_TEXT | str.maketrans({":": "%3A", ",": "%2C"})


def annotation(level: str, text: str, *, title: str, file: str = "", line: int = 0) -> Line:
    """Return a workflow command, escaped as GitHub's toolkit does it (actions/toolkit, packages/core/src/command.ts).

    Args:
        level: "error", "warning" or "notice".
        text: the message, of one or several lines.
        title: the heading above the message.
        file: path from the repository's root, "" if unknown.
        line: in the file, from 1; 0 if unknown.

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

    Fractions are signed: a change of -0.13 is 13 % slower. Unknown values are left out.
    """
    all_properties: list[Property] = []
    for number, result in enumerate(results, 1):
        prefix = _PREFIX if number == 1 else f"{_PREFIX}{number}_"
        facts = _measured(result) if result.other is None else _interleaved(result, result.other)
        all_properties += [(prefix + name, _shown(value)) for name, value in facts.items() if value is not None]
    return all_properties


def _measured(m: Measurement) -> dict[str, str | float | None]:
    verdict, t = m.verdict, m.throughput
    row = verdict.baseline if verdict else None
    return {
        "outcome": outcome(m),
        "workload": m.workload.id,
        "topology": m.topology,
        "machine": m.machine,
        "unit": f"{t.unit}/s",
        "examples_per_sec": t.examples_per_sec if m.is_valid else None,
        "baseline": row.value if row else None,
        "change": verdict.change if verdict else None,
        "confirmed_change": verdict.confirmed_change if verdict else None,
        "threshold": -verdict.threshold if verdict and verdict.threshold else None,
        "owner": m.owner or None,
        **figure_properties(m),
    }


def _interleaved(b: Measurement, a: MeasuredSide) -> dict[str, str | float | None]:
    return {
        "outcome": outcome(b),
        "a": a.workload.id,
        "b": b.workload.id,
        "topology": b.topology,
        "machine": b.machine,
        "ratio": b.ratio if b.is_valid else None,
        "owner": b.owner or None,
        **figure_properties(b),
    }


def _shown(value: str | float) -> str | float:
    # No measurement has six digits.
    return printable(value) if isinstance(value, str) else float(f"{value:.6g}")
