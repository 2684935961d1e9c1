"""What CI systems read of a session: a summary in Markdown, annotations of source lines, and JUnit properties."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.consequence import Consequence, consequence, outcome_of
from pytest_tfperf.core.features import hookimpl
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import atomic

if TYPE_CHECKING:
    from pytest_tfperf.core.comparison import Comparison
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_record import SessionRecord

MARKDOWN: Final[Setting[Path | None]] = Setting(
    name="markdown",
    default=None,
    parse=parse.file,
    help="file that gets the session's summary as Markdown",
    is_option=False,
    of_one_session=True,
)
SETTINGS: Final = (MARKDOWN,)

_LEVELS = {Consequence.FAILS: "error", Consequence.WARNS: "warning"}


@hookimpl
def prepare(settings: Settings) -> None:
    """Refuse a path that can't be written."""
    if (path := settings.of(MARKDOWN)) is not None:
        atomic.require_writable(path, MARKDOWN.spelled)


@hookimpl
def properties(results: Sequence[Measurement | Comparison]) -> list[tuple[str, object]]:
    """What JUnit XML says of a test."""
    from pytest_tfperf.features.ci import junit

    return [*junit.properties(results)]


@hookimpl
def session_ended(settings: Settings, record: SessionRecord) -> Iterator[str]:
    """Write all; where one can't be written, the others are."""
    for output in (_github_summary, _markdown_file, _github_annotations):
        try:
            yield from output(settings, record)
        except TfperfError as error:
            yield str(error)


def _github_summary(settings: Settings, record: SessionRecord) -> list[str]:
    """Append the Markdown summary to the page of a GitHub job."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path and record.selection and not settings.collects_only:
        with _explaining(path), Path(path).open("ab") as file:
            file.write(_markdown(settings, record))
    return []


def _markdown_file(settings: Settings, record: SessionRecord) -> list[str]:
    """Write the summary where `tfperf_markdown` says."""
    path = settings.of(MARKDOWN)
    if path is None or settings.collects_only:
        return []
    with _explaining(path):
        atomic.replace(path, _markdown(settings, record))
    return [f"Markdown summary: {path}"]


def _github_annotations(settings: Settings, record: SessionRecord) -> list[str]:
    """Workflow commands: GitHub reads them from the job's output and shows them beside the tests' source lines."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return []
    from pytest_tfperf.features.ci.annotations import annotation
    from pytest_tfperf.reports.comparisons import message_of

    lines = []
    for result in record.results:
        happens = consequence(result, require_baseline=settings.require_baseline, strict=settings.strict)
        if happens in _LEVELS and result.is_decided and result.test not in record.not_measured:
            text = message_of(result, settings.rerun)
            title = f"{outcome_of(result)}: {result.test}"
            file, line = _source(settings, record, result.test)
            lines.append(annotation(_LEVELS[happens], text, title=title, file=file, line=line))
    for why, texts in (("not measured", record.not_measured), ("baseline refused", record.refused)):
        for test, text in texts.items():
            file, line = _source(settings, record, test)
            lines.append(annotation("warning", text, title=f"{why}: {test}", file=file, line=line))
    lines += [
        annotation("error", verdict.text, title=f"{verdict.kind} on {verdict.machine}")
        for verdict in record.verdicts
        if verdict.outcome is Outcome.REGRESSED
    ]
    return lines


def _markdown(settings: Settings, record: SessionRecord) -> bytes:
    from pytest_tfperf.features.ci.markdown import markdown

    text = markdown(
        record.results,
        verdicts=record.verdicts,
        not_measured=record.not_measured,
        refused=record.refused,
        remarks=record.remarks,
        rerun=settings.rerun,
    )
    return text.encode(errors="backslashreplace")  # a test's id may hold half of a character


def _source(settings: Settings, record: SessionRecord, test: str) -> tuple[str, int]:
    """A test's file, relative to the checkout, and its line."""
    selected = record.selection[test]
    root = os.environ.get("GITHUB_WORKSPACE") or str(settings.root)
    return os.path.relpath(settings.root / selected.file, root), selected.line


@contextmanager
def _explaining(path: str | Path) -> Iterator[None]:
    """Turn an OSError into a message with the next step."""
    try:
        yield
    except OSError as error:
        raise TfperfError(
            f"{path}: the Markdown summary can't be written: {error.strerror}. Free space, or correct its permissions"
        ) from None
