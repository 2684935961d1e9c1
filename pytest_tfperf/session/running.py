"""Runs throughput tests: tests in doubt run again, tests that can't run here are skipped, SIGTERM ends the session.

pytest-xdist's workers measure nothing, and tell the controller how many throughput tests they got.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol  # what every plugin that runs a test twice uses; pytest has no public name

from pytest_tfperf.errors import MeasurementError, NoData, NotEnoughDevices, NotInstalled, TfperfError, WorkloadError
from pytest_tfperf.lines import Line, printable, rendered
from pytest_tfperf.session.state import FIXTURE, SESSION, SessionState, can_measure, is_xdist_worker
from pytest_tfperf.session.terminal import terminal_width

if TYPE_CHECKING:
    from pytest_tfperf.session.fixture import ThroughputFixture

_IN_DOUBT: pytest.StashKey[bool] = pytest.StashKey()
"""Whether the test's body made all of its calls in this run, and a call wants further runs."""
_UNDER_XDIST = "tfperf_under_xdist"
_CAN_NOT_RUN_HERE = (NoData, NotEnoughDevices, NotInstalled)


class ThroughputWarning(pytest.PytestWarning):
    """A drop in throughput was suspected and not confirmed."""


def run_or_defer(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a throughput test and report it, or, where it is in doubt, let it run again after all others.

    Only a body that came to its end, or skipped after all of its calls, makes a test run again. If `xfail` expects its
    error, the test would stay in doubt for ever.
    """
    state, properties = item.config.stash[SESSION], list(item.user_properties)
    item.stash[_IN_DOUBT] = False
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    try:
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    except (KeyboardInterrupt, pytest.exit.Exception):
        state.interrupted = item.nodeid
        # pytest takes its time to find out where it was interrupted, and workers would last as long.
        state.opened.close()
        raise
    # The report of the call does not count: a strict `xfail` fails a body that came to its end.
    if item.stash[_IN_DOUBT] and not any(report.failed for report in reports if report.when != "call"):
        state.queue.defer(item.nodeid)
        item._report_sections.clear()  # what the body prints and records, it prints and records again
        item.user_properties[:] = properties
        item.session.items.append(item)  # pytest walks this list as it grows
    else:
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def require_linux() -> None:
    """Fail a test in one line where nothing can be measured; other tests go on there."""
    if not can_measure():
        pytest.fail(
            f"throughput is measured on Linux only, and this is {sys.platform}. Run this test there, or leave it out "
            "here: pytest -m 'not gpu and not cpu', or --ignore=FOLDER",
            pytrace=False,
        )


def tell_controller(config: pytest.Config, state: SessionState) -> None:
    """Send the number of throughput tests from a worker: only the controller writes a summary."""
    config.workeroutput[_UNDER_XDIST] = state.under_xdist  # type: ignore[attr-defined]  # xdist's


def hear_worker(worker: Any, state: SessionState) -> None:
    """Count the tests that a worker has sent; a worker that crashed has sent nothing."""
    state.under_xdist += getattr(worker, "workeroutput", {}).get(_UNDER_XDIST, 0)


def exited(config: pytest.Config, status: int) -> int:
    """Tell the session's features the exit status that pytest ends with, and return it."""
    state = config.stash.get(SESSION, None)
    if state is not None and not is_xdist_worker(config):
        state.exited(int(status))
    return status


def make_fixture(request: pytest.FixtureRequest) -> ThroughputFixture:
    """The `throughput` fixture of a test.

    Raises:
        TfperfError: the test did not name the fixture among its arguments.
        WorkloadError: a parameter that is not allowed.
    """
    require_linux()
    # A session that only collects needs nothing that measures.
    from pytest_tfperf.session.fixture import ThroughputFixture
    from pytest_tfperf.session.summary import why_again

    state, test = request.config.stash[SESSION], request.node.nodeid
    if is_xdist_worker(request.config):
        state.under_xdist += 1
        error = MeasurementError(
            "throughput is not measured under pytest-xdist: its workers would share the machine",
            next_step="Run these tests without -n",
        )
        if state.settings.require_baseline:
            raise error
        pytest.skip(str(error))
    if test not in state.selection:
        raise TfperfError(
            "a test that asks for `throughput` while it runs can't be run again where it is in doubt: "
            "name the fixture among its arguments"
        )
    if faults := state.selection[test].faults:
        first, *others = faults
        raise first.of_type(WorkloadError).and_below(*map(str, others))
    progress = state.session.progress
    progress.test, progress.why = test, why_again(state, test)
    fixture = request.node.stash[FIXTURE] = ThroughputFixture(state, test)
    return fixture


@contextmanager
def applying_outcomes(item: pytest.Item) -> Iterator[None]:
    """Apply the outcomes when a test's body has finished or skipped; a skip must not hide a regression."""
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
    item.stash[_IN_DOUBT] = not fixture.outcomes.is_decided


def _raise_of_unittest(item: pytest.Item) -> None:
    """Raise what the body of a `unittest.TestCase` raised: pytest keeps it until its report is made."""
    if kept := getattr(item, "_excinfo", None):
        raised = kept[0].value
        kept.clear()
        raise raised


@contextmanager
def keeping_fixtures(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Keep the fixtures of class, module and session for the last test where it runs again, which pytest can't know."""
    session = item.session
    is_last = nextitem is None and not (session.shouldfail or session.shouldstop)
    if not (is_last and item.stash.get(_IN_DOUBT, False)):
        yield
        return
    set_up: Any = session._setupstate  # pytest has no public name
    set_up.teardown_exact(item.parent)
    kept = dict(set_up.stack)
    set_up.stack.clear()
    try:
        yield
    finally:
        set_up.stack.update(kept)


@contextmanager
def skipping(item: pytest.Item) -> Iterator[None]:
    """Skip a test that can't run here; the nightly gate may report it as an error instead."""
    state = item.config.stash[SESSION]
    try:
        yield
    except _CAN_NOT_RUN_HERE as error:
        if state.settings.require_baseline:
            from pytest_tfperf.session.outcomes import missing_as_error

            if (missing := missing_as_error(state, error)) is not None:
                raise missing from None
        reason = printable(str(error.lines[0]))
        if not item.stash.get(_IN_DOUBT, False):  # otherwise it runs again, and may end as a regression
            state.skipped[reason] += 1
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
