"""How results reach pytest: reports, skips and warnings; what xdist and SIGTERM do to a session."""

from __future__ import annotations

import os
import signal
import sysconfig
import threading
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol  # what every plugin that runs a test twice uses; pytest has no public name

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import (
    BaselineError,
    BaselineRefused,
    Failure,
    MeasurementError,
    NoData,
    NotEnoughDevices,
    NotInstalled,
    TfperfError,
    WorkloadError,
)
from pytest_tfperf.lines import Line, lines_of, printable, rendered
from pytest_tfperf.session.terminal import PlainRepr, terminal_width

if TYPE_CHECKING:
    from pytest_tfperf.session.fixture import ThroughputFixture
    from pytest_tfperf.session.session import Session

SESSION: pytest.StashKey[Session] = pytest.StashKey()
FIXTURE: pytest.StashKey[ThroughputFixture] = pytest.StashKey()
IN_DOUBT: pytest.StashKey[bool] = pytest.StashKey()
"""Whether the test's body made all of its calls in this run, and one of them wants further runs."""
_UNDER_XDIST = "tfperf_under_xdist"
_CAN_NOT_RUN_HERE = (NoData, NotEnoughDevices, NotInstalled)


class ThroughputWarning(pytest.PytestWarning):
    """A drop in throughput was suspected and not confirmed."""


# Running a test


def run_or_defer(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a throughput test and report it, or, where it is in doubt, let it run again after all others.

    Only a body that came to its end, or skipped after all of its calls, makes a test run again. If `xfail` expects its
    error, the test would stay in doubt for ever.
    """
    session, properties = item.config.stash[SESSION], list(item.user_properties)
    item.stash[IN_DOUBT] = False
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    try:
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    except (KeyboardInterrupt, pytest.exit.Exception):
        session.close()  # pytest takes its time to find out where it was interrupted, and workers would last as long
        raise
    # The report of the call does not count: a strict `xfail` fails a body that came to its end.
    if item.stash[IN_DOUBT] and not any(report.failed for report in reports if report.when != "call"):
        session.queue.defer(item.nodeid)
        item._report_sections.clear()  # what the body prints and records, it prints and records again
        item.user_properties[:] = properties
        item.session.items.append(item)  # pytest walks this list as it grows
    else:
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def make_fixture(request: pytest.FixtureRequest, benchmark: Any) -> ThroughputFixture:
    """The `throughput` fixture of a test.

    Raises:
        TfperfError: the test did not name the fixture among its arguments.
        WorkloadError: a parameter that is not allowed.
    """
    # A session that only collects needs nothing that measures.
    from pytest_tfperf.session.expected_time import expected_seconds, has_time_for
    from pytest_tfperf.session.fixture import ThroughputFixture
    from pytest_tfperf.session.session_lines import why_again

    session, test = request.config.stash[SESSION], request.node.nodeid
    benchmark.skipped = True  # where this raises, pytest-benchmark would warn that its fixture was not used
    _refuse_xdist(request.config)
    if test not in session.selection:
        raise TfperfError(
            "a test that asks for `throughput` while it runs can't be run again where it is in doubt: "
            "name the fixture among its arguments"
        )
    if faults := session.selection.faulty.get(test):
        first, *others = faults
        raise first.of_type(WorkloadError).and_below(*map(str, others))
    if not has_time_for(session, test):
        session.left_out[test] = expected_seconds(session)[test]
        pytest.skip(f"left out by {session.choice.option}" if session.choice else "left out")
    benchmark.skipped = False
    session.progress.test, session.progress.why = test, why_again(session, test)
    fixture = request.node.stash[FIXTURE] = ThroughputFixture(session, test)
    return fixture


def report_session_verdicts(session: pytest.Session) -> None:
    """When all tests have run: judge software and machine as a whole, and report what fails the session.

    Each failure is a report of its own, so that JUnit, `-ra` and the exit status show it.
    """
    if session.shouldstop or session.shouldfail or is_xdist_worker(session.config):
        return
    for failure in session.config.stash[SESSION].judge():
        from pytest_tfperf.reports.session_verdicts import fact_of, text_of  # most sessions have nothing to report

        name = f"{failure.kind} on {failure.machine}"
        report = pytest.TestReport(
            nodeid=f"tfperf::{name}",
            location=("tfperf", None, name),
            keywords={},
            outcome="failed",
            longrepr=PlainRepr(lines_of(text_of(failure)), fact_of(failure), terminal_width(session.config)),
            when="call",
        )
        session.testscollected += 1  # or else pytest's progress ends at 110 %
        session.config.hook.pytest_runtest_logreport(report=report)
        # It is no test, and would stay among the failed ones that `--lf` looks for. Newer pytests have ids for keys.
        failed = getattr(session.config.pluginmanager.get_plugin("lfplugin"), "lastfailed", {})
        for key in [key for key in failed if str(key) == report.nodeid]:
            del failed[key]


def write_outputs(session: Session) -> list[str]:
    """Let features write what was asked for; the lines for the user."""
    if session.settings.collects_only:
        return []
    from pytest_tfperf.session.session_lines import outputs

    return list(outputs(session))


@contextmanager
def applying_outcomes(item: pytest.Item) -> Iterator[None]:
    """Around a test's body: apply the outcomes when it has finished or skipped; a skip must not hide a regression."""
    fixture = item.stash.get(FIXTURE, None)
    with skipping(item):
        if fixture is None:
            yield
            return
        try:
            try:
                yield
                _raise_of_unittest(item)
            except (pytest.skip.Exception, *_CAN_NOT_RUN_HERE):
                _conclude(item, fixture)
                raise
            _conclude(item, fixture)
        finally:
            fixture.close()
            item.user_properties += fixture.outcomes.properties  # for JUnit XML


def _conclude(item: pytest.Item, fixture: ThroughputFixture) -> None:
    """Apply the outcomes; where a call is in doubt, the test runs again instead."""
    fixture.outcomes.conclude(lambda lines: _warn(item, lines))
    item.stash[IN_DOUBT] = not fixture.outcomes.is_decided


def _raise_of_unittest(item: pytest.Item) -> None:
    """Raise what the body of a `unittest.TestCase` raised: pytest keeps it until its report is made."""
    if kept := getattr(item, "_excinfo", None):
        raised = kept[0].value
        kept.clear()
        raise raised


@contextmanager
def skipping(item: pytest.Item) -> Iterator[None]:
    """Skip a test that can't run here; the nightly gate may report it as an error instead."""
    session = item.config.stash[SESSION]
    try:
        yield
    except _CAN_NOT_RUN_HERE as error:
        if session.settings.require_baseline:
            from pytest_tfperf.session.outcomes import missing_as_error

            if (found := missing_as_error(session, error)) is not None:
                raise found from None
        reason = printable(str(error.lines[0]))
        if not item.stash.get(IN_DOUBT, False):  # otherwise it runs again, and may end as a regression
            session.skipped[reason] += 1
        raise pytest.skip.Exception(reason, _use_item_location=True) from None


def _warn(item: pytest.Item, lines: list[Line]) -> None:
    """Add to pytest's summary of warnings, without its filters: `error` would turn a doubt into a failure."""
    path, line, _ = item.location
    number = (line or 0) + 1
    before = len(f"{path}:{number}: {ThroughputWarning.__name__}: ")  # what pytest puts into the first line
    width = terminal_width(item.config)
    text = "\n".join(rendered(lines, width and width - 2, before=before))  # pytest indents it by 2
    # Without a source line, which would be the test's "def".
    warning = warnings.WarningMessage(ThroughputWarning(text), ThroughputWarning, path, number, line="")
    item.ihook.pytest_warning_recorded.call_historic(
        kwargs={"warning_message": warning, "when": "runtest", "nodeid": item.nodeid, "location": None}
    )


# Wording a report


def word(report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Report "could not measure" as an error and "regressed" as a failure, both without a traceback."""
    if not report.failed or call.excinfo is None or item.nodeid not in item.config.stash[SESSION].selection:
        return
    error, fixture = call.excinfo.value, item.stash.get(FIXTURE, None)
    if isinstance(error, TfperfError):
        _word_error(report, item, error)
    elif isinstance(error, Failure):
        if report.when == "setup":  # a fixture measured it, and it is a failure all the same
            report.when = "call"
        brief = (fixture.outcomes.failures_in_brief() if fixture else "") or error.brief
        report.longrepr = PlainRepr(error.lines, brief, terminal_width(item.config))
    elif fixture is not None and (unreported := fixture.outcomes.unreported()):
        report.sections.append(("throughput", _text(unreported, item)))


def measured_only(report: pytest.TestReport, session: Session) -> tuple[str, str, str] | None:
    """pytest's word for a test that passed and was measured without a baseline: "measured", not "passed"."""
    if report.when != "call" or not report.passed or report.nodeid not in session.selection:
        return None
    outcomes = [result.outcome for result in session.queue.results_of(report.nodeid)]
    return ("measured", "m", "MEASURED") if Outcome.NO_BASELINE in outcomes else None


def _word_error(report: pytest.TestReport, item: pytest.Item, error: TfperfError) -> None:
    """Report an error, or a failure where the test had confirmed a regression before the error."""
    fixture = item.stash.get(FIXTURE, None)
    brief, width = error.brief, terminal_width(item.config)
    if not isinstance(error, (MeasurementError, BaselineError)):  # the fault is in the test
        error = error.of_type(TfperfError).at(_source_line(item, error))
    if report.when != "teardown" and fixture is not None and (failures := fixture.outcomes.confirmed_failures()):
        report.when = "call"
        report.longrepr = PlainRepr(
            [*failures, Line(""), *error.lines], f"{fixture.outcomes.failures_in_brief()}; {brief}", width
        )
        return
    # JUnit and pytest's summary say "error" of what fails outside of the call: nothing was tested.
    report.when = "setup" if report.when == "call" else report.when
    report.longrepr = PlainRepr(error.lines, brief, width)
    session = item.config.stash[SESSION]
    (session.refused if isinstance(error, BaselineRefused) else session.not_measured)[item.nodeid] = error
    if fixture is not None and (unreported := fixture.outcomes.unreported()):
        report.sections.append(("throughput", _text(unreported, item)))


def _text(lines: Iterable[Line], item: pytest.Item) -> str:
    """For a section of pytest's report, which has only room for a text."""
    return "\n".join(rendered(lines, terminal_width(item.config)))


def _source_line(item: pytest.Item, error: TfperfError) -> str:
    """Source location of the call that was refused, else of the test."""
    folder = item.config.invocation_params.dir
    path, line, _ = item.reportinfo()
    return _line_of(error, folder) or _shown(Path(path), (line or 0) + 1, folder)


# xdist, signals


def end_in_order_on_sigterm(config: pytest.Config) -> None:
    """Let SIGTERM, which CI and Slurm send when time is up, end the session as Ctrl-C does.

    Finished results are shown and kept, and no worker is left.
    """

    def end(*_: object) -> None:
        pytest.exit("SIGTERM: the session was asked to end, for example by a time limit")

    def reset() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)
        config.add_cleanup(reset)


def is_xdist_worker(config: pytest.Config) -> bool:
    """Whether this process is one of pytest-xdist's workers."""
    return hasattr(config, "workerinput")


def tell_controller(config: pytest.Config) -> None:
    """Send from a worker of pytest-xdist how many throughput tests it got: only the controller writes a summary."""
    if is_xdist_worker(config):
        config.workeroutput[_UNDER_XDIST] = config.stash[SESSION].under_xdist  # type: ignore[attr-defined]  # xdist's


def hear_worker(config: pytest.Config, worker: Any) -> None:
    """Count what a worker has sent; one that crashed has sent nothing."""
    config.stash[SESSION].under_xdist += getattr(worker, "workeroutput", {}).get(_UNDER_XDIST, 0)


def _refuse_xdist(config: pytest.Config) -> None:
    if not is_xdist_worker(config):
        return
    config.stash[SESSION].under_xdist += 1
    error = MeasurementError(
        "throughput is not measured under pytest-xdist: its workers would share the machine",
        next_step="Run these tests without -n",
    )
    if config.stash[SESSION].settings.require_baseline:
        raise error
    pytest.skip(str(error))


_NOT_THE_USERS = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


def _line_of(error: BaseException, seen_from: Path) -> str:
    """The innermost line that is not ours, Python's own or installed, as "test_a.py:7"; "" where there is none.

    Args:
        error: as it was caught.
        seen_from: the folder that the file's name starts from.
    """
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = Path(frame.f_code.co_filename)
        # Dataclasses run code that is in no file.
        if path.is_file() and not any(path.is_relative_to(folder) for folder in _NOT_THE_USERS):
            return _shown(path, line, seen_from)
    return ""


def _shown(path: Path, line: int, seen_from: Path) -> str:
    """File and line, as short as a terminal can follow it."""
    return f"{os.path.relpath(path, seen_from)}:{line}"
