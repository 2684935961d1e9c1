"""The order of a trial's sessions, and the tests that each slows down."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.trial.command import _continued
from pytest_tfperf.features.trial.runner import is_next_slowed, slowed_tests
from pytest_tfperf.features.trial.trial import Trial, TrialResult, TrialSession

PASSED = TrialResult(outcome=Outcome.PASS)


def whole(trial: Trial) -> list[TrialSession]:
    """All sessions of a trial in which every test passes."""
    while (is_slowed := is_next_slowed(trial)) is not None:
        slowed = slowed_tests(trial) if is_slowed else ()
        session = TrialSession(tests=dict.fromkeys(trial.tests, PASSED), slowed=slowed)
        trial = replace(trial, sessions=(*trial.sessions, session))
    return list(trial.sessions)


TRIALS = st.builds(
    Trial,
    same=st.integers(1, 40),
    slowed=st.integers(0, 20),
    seed=st.integers(0, 2**32),
    tests=st.integers(1, 12).map(lambda tests: tuple(f"test_{number}" for number in range(tests))),
)


@given(TRIALS)
def test_a_trial_ends_with_as_many_sessions_of_each_kind_as_were_asked_for(trial: Trial) -> None:
    sessions = whole(trial)
    assert Counter(bool(session.slowed) for session in sessions) == Counter({False: trial.same, True: trial.slowed})


@given(TRIALS)
def test_each_test_is_slowed_down_about_as_often_as_the_others(trial: Trial) -> None:
    times = Counter(test for session in whole(trial) for test in session.slowed)
    assert max(times[test] for test in trial.tests) - min(times[test] for test in trial.tests) <= 2


@given(TRIALS)
def test_any_three_sessions_of_a_block_hold_one_with_losses(trial: Trial) -> None:
    kinds = [bool(session.slowed) for session in whole(replace(trial, same=20, slowed=10))]
    assert all(sum(kinds[first : first + 3]) == 1 for first in range(0, 30, 3))


def test_a_session_that_measured_nothing_is_run_again() -> None:
    trial = Trial(same=1, slowed=0, tests=("a",))
    nothing = TrialSession(tests={"a": TrialResult(outcome=Outcome.INVALID)})
    assert is_next_slowed(replace(trial, sessions=(nothing,))) is False


def test_the_first_session_of_a_trial_whose_tests_are_not_known_has_no_losses() -> None:
    assert is_next_slowed(Trial(is_of_base=True, seed=2)) is False


def test_a_trial_that_goes_on_takes_as_many_sessions_as_are_asked_for_now() -> None:
    kept = Trial(same=4, slowed=2, tests=("a",), code={"model.py": "1"})
    going_on = _continued(kept, Trial(same=20, slowed=10, code={"model.py": "1"}))
    assert (going_on.same, going_on.slowed, going_on.tests) == (20, 10, ("a",))
