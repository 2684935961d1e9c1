"""The files that CI systems read: a summary in Markdown, annotations of source lines, and JUnit properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.setting import output_file
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.stores import files

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_verdicts import SessionResult
    from pytest_tfperf.lines import Line

MARKDOWN: Final = output_file("markdown", "file that gets the session's summary as Markdown", is_option=False)
COMMENT: Final = output_file(
    "comment",
    "file that gets the session's comment on a pull request, which `tfperf comment` writes there",
    is_option=False,
)


def prepare(settings: Settings) -> None:
    """Refuse a path that can't be written."""
    for setting in (MARKDOWN, COMMENT):
        if (path := settings.of(setting)) is not None:
            files.require_writable(path, setting.spelled)


def properties(results: Sequence[Measurement]) -> list[tuple[str, object]]:
    """Give the properties of a test."""
    from pytest_tfperf.features.ci import outputs

    return [*outputs.properties(results)]


def session_ended(session: Session, result: SessionResult) -> Iterator[Line | str]:
    """Write all that was asked for."""
    from pytest_tfperf.features.ci.outputs import outputs

    settings = session.settings
    yield from outputs(settings, result, settings.of(MARKDOWN), settings.of(COMMENT))


FEATURE: Final = Feature(
    settings=(MARKDOWN, COMMENT),
    variables=("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"),  # a job reads annotations and a summary
    prepare=prepare,
    properties=properties,
    session_ended=session_ended,
)
