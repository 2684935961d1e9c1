"""Output for CI systems: a summary in Markdown, and annotations of source lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.consequence import Consequence, consequence, outcome_of
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import atomic

if TYPE_CHECKING:
    from pytest_tfperf.session.session import Session

_LEVELS = {Consequence.FAILS: "error", Consequence.WARNS: "warning"}


def github_summary(session: Session) -> list[str]:
    """Append the Markdown summary to the page of a GitHub job."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path and session.selection and not session.settings.collects_only:
        with _explaining(path), Path(path).open("ab") as file:
            file.write(_markdown(session))
    return []


def markdown_file(session: Session) -> list[str]:
    """Write the summary where `tfperf_markdown` says."""
    path = session.settings.markdown
    if path is None or session.settings.collects_only:
        return []
    with _explaining(path):
        atomic.replace(path, _markdown(session))
    return [f"Markdown summary: {path}"]


def github_annotations(session: Session) -> list[str]:
    """Workflow commands: GitHub reads them from the job's output and shows them beside the tests' source lines."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return []
    from pytest_tfperf.features.ci.annotations import annotation
    from pytest_tfperf.reports.comparisons import message_of

    settings, lines = session.settings, []
    for result in session.results:
        happens = consequence(result, require_baseline=settings.require_baseline, strict=settings.strict)
        if happens in _LEVELS and result.is_decided and result.test not in session.not_measured:
            text = message_of(result, settings.rerun)
            title = f"{outcome_of(result)}: {result.test}"
            file, line = _source(session, result.test)
            lines.append(annotation(_LEVELS[happens], text, title=title, file=file, line=line))
    for why, texts in (("not measured", session.not_measured), ("baseline refused", session.refused)):
        for test, text in texts.items():
            file, line = _source(session, test)
            lines.append(annotation("warning", text, title=f"{why}: {test}", file=file, line=line))
    lines += [
        annotation("error", verdict.text, title=f"{verdict.kind} on {verdict.machine}")
        for verdict in session.verdicts
        if verdict.outcome is Outcome.REGRESSED
    ]
    return lines


def _markdown(session: Session) -> bytes:
    from pytest_tfperf.features.budget import words as budget
    from pytest_tfperf.features.ci.markdown import markdown

    text = markdown(
        session.results,
        verdicts=session.verdicts,
        not_measured=session.not_measured,
        refused=session.refused,
        remarks=[budget.after(session.left_out, session.settings.budget or 0.0)] if session.left_out else [],
        rerun=session.settings.rerun,
    )
    return text.encode(errors="backslashreplace")  # a test's id may hold half of a character


def _source(session: Session, test: str) -> tuple[str, int]:
    """A test's file, relative to the checkout, and its line."""
    selected = session.selection[test]
    root = os.environ.get("GITHUB_WORKSPACE") or str(session.settings.root)
    return os.path.relpath(session.settings.root / selected.file, root), selected.line


@contextmanager
def _explaining(path: str | Path) -> Iterator[None]:
    """Turn an OSError into a message with the next step."""
    try:
        yield
    except OSError as error:
        raise TfperfError(
            f"{path}: the Markdown summary can't be written: {error.strerror}. Free space, or correct its permissions"
        ) from None
