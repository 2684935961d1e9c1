"""How what came of a test reaches pytest: skipped in one line, warned of, or worded without a traceback."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_tfperf.core import source_location as place
from pytest_tfperf.errors import (
    BaselineError,
    MeasurementError,
    NoBaseline,
    NoData,
    NotBuiltYet,
    NotEnoughDevices,
    TfperfError,
)

if TYPE_CHECKING:
    from pytest_tfperf.fixture import ThroughputFixture
    from pytest_tfperf.session import Session


class ThroughputNotMeasured(AssertionError):
    """The nightly gate wants a measurement, and was called so that there can be none."""


class ThroughputWarning(pytest.PytestWarning):
    """A drop in throughput was suspected and not confirmed."""


@contextmanager
def skipping(session: Session) -> Iterator[None]:
    """What can't be measured here skips its test, in one line; a nightly gate may take it for an error."""
    try:
        yield
    except (NoData, NotEnoughDevices, NotBuiltYet, NoBaseline) as error:
        if session.settings.require_baseline and (fault := session.fault(error)):
            raise MeasurementError(fault) from None
        reason = str(error)
        if isinstance(error, NoData):
            reason = (
                reason.partition("\n")[0] + " Name one with --tfperf-data-dir=DIR (tfperf make-imagenet DIR makes one)"
            )
        if not isinstance(error, NoBaseline):  # of which the table tells
            session.skipped[reason] += 1
        raise pytest.skip.Exception(reason, _use_item_location=True) from None


def warn(item: pytest.Item, text: str) -> None:
    """Into pytest's summary of warnings, past filters that would turn a doubt into a red night."""
    path, line, _ = item.location
    warning = warnings.WarningMessage(ThroughputWarning(text), ThroughputWarning, path, (line or 0) + 1)
    item.ihook.pytest_warning_recorded.call_historic(
        kwargs={"warning_message": warning, "when": "runtest", "nodeid": item.nodeid, "location": None}
    )


def word(
    report: pytest.TestReport,
    item: pytest.Item,
    session: Session,
    fixture: ThroughputFixture | None,
    error: BaseException,
) -> None:
    """Tell "could not measure" (an error) from "regressed" (a failure), and say either without a traceback."""
    from pytest_tfperf.fixture import FAILURES

    if isinstance(error, TfperfError):
        _word_error(report, item, session, fixture, error)
    elif isinstance(error, (*FAILURES, ThroughputNotMeasured)):
        if report.when == "setup":  # measured by a fixture, and a failure all the same
            report.when = "call"
        report.longrepr = str(error)
    elif fixture is not None and (missed := fixture.unsaid()):
        report.sections.append(("throughput", missed))


def _word_error(
    report: pytest.TestReport,
    item: pytest.Item,
    session: Session,
    fixture: ThroughputFixture | None,
    error: TfperfError,
) -> None:
    """What could not be measured is an error; but no error hides a regression that the test had measured before it."""
    said = str(error)
    if not isinstance(error, (MeasurementError, BaselineError)):  # what is to be mended is the test
        said = f"{_line(item, error)}: {said}"
    if report.when != "teardown" and fixture is not None and (failed := fixture.failed()):
        report.when, report.longrepr = "call", f"{failed}\n\n{said}"
        return
    # JUnit and pytest's summary call "error" what fails outside of the call: nothing was tested.
    report.when = "setup" if report.when == "call" else report.when
    report.longrepr = said
    session.not_measured.append((item.nodeid, said.partition("\n")[0]))
    if fixture is not None and (missed := fixture.unsaid()):
        report.sections.append(("throughput", missed))


def _line(item: pytest.Item, error: TfperfError) -> str:
    """Where the test made the call that was refused, or where the test begins."""
    folder = item.config.invocation_params.dir
    path, line, _ = item.reportinfo()
    return place.line_of(error, folder) or place.shown(Path(path), (line or 0) + 1, folder)
