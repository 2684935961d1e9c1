"""The session's verdicts on software and machine, with workers that play a script."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_tfperf.bench.sentinels import session_verdicts
from pytest_tfperf.core.session_verdicts import SessionVerdict, VerdictOn
from pytest_tfperf.core.verdict import Outcome, Reason, Tolerance
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.session_effects import session_variance
from pytest_tfperf.judging.software_and_machine import SENTINELS
from tests.helpers.measurements import run_at
from tests.helpers.played import PlayedLauncher, steady
from tests.helpers.played_session import PlayedSession


def judged(
    now: PlayedLauncher, reference: PlayedLauncher | None, *, tests: int = 10, tolerance: Tolerance | None = None
) -> tuple[SessionVerdict | None, SessionVerdict | None]:
    """A session of these tests, all of one workload that the baseline has at 100 images/s."""
    return judged_in(PlayedSession(tests=tests), now, reference, tests=tests, tolerance=tolerance)


def judged_in(
    session: PlayedSession,
    now: PlayedLauncher,
    reference: PlayedLauncher | None,
    *,
    tests: int = 10,
    tolerance: Tolerance | None = None,
) -> tuple[SessionVerdict | None, SessionVerdict | None]:
    """The same in this session."""
    tasks = [session.task(now, reference, test=f"a.py::test[{number}]") for number in range(tests)]
    tasks = [replace(task, tolerance=tolerance or Tolerance()) for task in tasks]
    found = [session.bench.check(task) for task in tasks]
    while not all(one.is_decided for one in found):
        found = [
            one if one.is_decided else session.bench.check(task, one) for task, one in zip(tasks, found, strict=True)
        ]
    return session_verdicts(session.machine, session.engine, found)


def test_a_quiet_session_asks_no_sentinel() -> None:
    reference = steady(100.0)
    software, machine = judged(steady(100.0), reference)
    assert (software, machine and machine.outcome, reference.started) == (None, Outcome.PASS, 0)


def test_a_slowdown_of_all_tests_that_the_reference_environment_does_not_share_is_the_softwares() -> None:
    software, machine = judged(steady(92.0), steady(100.0))
    assert software is not None
    assert machine is not None
    assert (software.outcome, machine.outcome) == (Outcome.REGRESSED, Outcome.PASS)
    assert software.change == pytest.approx(-0.08)


@pytest.mark.parametrize(
    ("tolerance", "outcome"), [(Tolerance(-0.06), Outcome.REGRESSED), (Tolerance(-0.1), Outcome.PASS)]
)
def test_software_may_lose_what_its_tests_may(tolerance: Tolerance, outcome: Outcome) -> None:
    software, _ = judged(steady(92.0), steady(100.0), tolerance=tolerance)
    assert software is not None
    assert software.outcome is outcome


def test_tests_that_may_lose_anything_say_nothing_of_the_software() -> None:
    software, _ = judged(steady(92.0), steady(100.0), tolerance=Tolerance(None, None))
    assert software is None


@pytest.mark.parametrize(("tests", "expected"), [(4, 4), (10, 50)])
def test_sessions_may_differ_by_more_where_fewer_tests_ran_than_expected(tests: int, expected: int) -> None:
    session = PlayedSession(tests=20)
    task = session.task(steady(100.0))
    for number in range(tests):
        session.bench.check(replace(task, test=f"a.py::test[{number}]"))
    session.machine.all_ran_once = True
    assert session.machine.evidence(task, [run_at(100.0)]).variance == session_variance(tests=expected)


def test_a_slowdown_that_the_reference_environment_shares_is_the_machines() -> None:
    software, machine = judged(steady(92.0), steady(92.0))
    assert software is not None
    assert machine is not None
    assert (software.outcome, machine.outcome) == (Outcome.PASS, Outcome.REGRESSED)
    assert machine.change == pytest.approx(-0.08)
    assert machine.kind is VerdictOn.MACHINE


def test_without_a_reference_environment_nothing_tells_them_apart() -> None:
    software, machine = judged(steady(92.0), None)
    assert machine is not None
    assert (software, machine.outcome, machine.kind) == (None, Outcome.REGRESSED, VerdictOn.TOGETHER)


def test_a_reference_environment_that_fails_leaves_the_software_in_doubt() -> None:
    software, machine = judged(steady(92.0), steady(MeasurementError("broken")))
    assert software is not None
    assert (software.outcome, software.reason, software.pairs) == (Outcome.INCONCLUSIVE, Reason.NO_PAIRS, 0)
    assert machine is not None
    assert (machine.kind, machine.reason) == (VerdictOn.TOGETHER, Reason.NO_PAIRS)


def test_a_sentinel_whose_reference_environment_fails_is_noted_with_the_reason() -> None:
    session = PlayedSession(tests=10)
    judged_in(session, steady(92.0), steady(MeasurementError("broken")))
    reasons = session.machine.reference_failures.values()
    assert [why.endswith("broken") for why in reasons] == [True] * SENTINELS


def test_sentinels_that_fail_in_the_current_environment_are_named_with_the_reason() -> None:
    now = steady(*[92.0] * 10, MeasurementError("killed"))
    software, _ = judged(now, steady(100.0))
    assert software is not None
    assert (software.outcome, len(software.failures)) == (Outcome.INCONCLUSIVE, SENTINELS)
    assert all(why.startswith("the current environment failed: ") for why in software.failures.values())


def test_the_other_sentinels_decide_without_one_that_fails() -> None:
    # The first one fails twice: beside the reference environment, and then by itself.
    now = steady(*[92.0] * 10, MeasurementError("killed"), MeasurementError("killed"), 92.0)
    software, _ = judged(now, steady(100.0))
    assert software is not None
    assert (software.outcome, software.tests, list(software.failures)) == (Outcome.REGRESSED, 3, ["a.py::test[0]"])


def test_fewer_than_eight_tests_tell_nothing_common() -> None:
    software, machine = judged(steady(99.0), None, tests=3)
    assert (software, machine) == (None, None)


def test_the_pairs_of_a_few_suspects_show_the_machine_but_never_fail_it() -> None:
    software, machine = judged(steady(40.0), steady(40.0), tests=3)
    assert machine is not None
    assert (software, machine.outcome) == (None, Outcome.INCONCLUSIVE)
    assert (machine.reason, machine.few) == (Reason.FEW_TESTS, (3, 8))
    assert machine.change == pytest.approx(-0.6)
