"""What the sessions of a trial say about a gate."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.session_verdicts import VerdictOn
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.trial.answer import Gate, answer, rate
from pytest_tfperf.features.trial.trial import Trial, TrialResult, TrialSession

PASSED = TrialResult(outcome=Outcome.PASS, throughput_outcome=Outcome.PASS, change=0.0, tolerance=0.02)
REGRESSED = replace(PASSED, outcome=Outcome.REGRESSED, throughput_outcome=Outcome.REGRESSED)
GOOD = TrialSession(tests={"a": PASSED, "b": PASSED})
FALSE = TrialSession(tests={"a": PASSED, "b": REGRESSED})
FOUND = TrialSession(tests={"a": REGRESSED, "b": PASSED}, slowed=("a",))
MISSED = TrialSession(tests={"a": PASSED, "b": PASSED}, slowed=("a",))


def trial(*sessions: TrialSession, **more: object) -> Trial:
    return replace(Trial(sessions=sessions), **more)  # type: ignore[arg-type]


COUNTS = st.integers(1, 400).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


@given(COUNTS)
def test_an_interval_holds_the_share_itself(count_and_tries: tuple[int, int]) -> None:
    count, of = count_and_tries
    found = rate(count, of)
    assert 0 <= found.low <= count / of <= found.high <= 1


@given(COUNTS, st.integers(1, 50))
def test_fewer_independent_groups_make_the_interval_wider(count_and_tries: tuple[int, int], groups: int) -> None:
    count, of = count_and_tries
    alone, grouped = rate(count, of), rate(count, of, min(groups, of))
    assert grouped.low <= alone.low + 1e-9
    assert grouped.high >= alone.high - 1e-9


def test_no_failure_in_twenty_sessions_leaves_14_percent_possible() -> None:
    assert rate(0, 20).high == pytest.approx(1 - 0.05 ** (1 / 20))


def test_a_single_session_with_a_loss_is_a_single_try() -> None:
    assert answer(trial(FOUND)).losses.low == pytest.approx(0.025)


def test_without_a_try_any_rate_is_possible() -> None:
    found = rate(0, 0)
    assert (found.low, found.high) == (0, 1)


def test_a_gate_without_a_false_failure_that_finds_the_losses_may_block() -> None:
    assert answer(trial(*20 * [GOOD], *10 * [FOUND])).gate is Gate.MAY_BLOCK


def test_a_gate_that_fails_falsely_more_often_than_the_rule_allows_should_only_warn() -> None:
    assert answer(trial(*16 * [GOOD], *4 * [FALSE], *10 * [FOUND])).gate is Gate.WARN_ONLY


def test_a_gate_that_misses_losses_should_only_warn() -> None:
    assert answer(trial(*20 * [GOOD], *7 * [FOUND], *3 * [MISSED])).gate is Gate.WARN_ONLY


def test_one_false_failure_asks_for_ten_further_sessions() -> None:
    found = answer(trial(*19 * [GOOD], FALSE, *10 * [FOUND]))
    assert (found.gate, found.further) == (Gate.UNDECIDED, 10)


def test_the_further_sessions_that_it_asks_for_suffice() -> None:
    before = answer(trial(*3 * [GOOD], *10 * [FOUND]))
    assert answer(trial(*(3 + before.further) * [GOOD], *10 * [FOUND])).gate is Gate.MAY_BLOCK


def test_a_history_needs_no_losses() -> None:
    assert answer(trial(*20 * [GOOD], is_of_history=True)).gate is Gate.MAY_BLOCK


def test_a_slower_machine_is_no_false_failure() -> None:
    found = answer(trial(*20 * [replace(GOOD, failing=(VerdictOn.MACHINE,))]))
    assert (found.false_failures.count, found.machine) == (0, 20)


def test_a_session_whose_software_is_regressed_as_a_whole_failed_falsely() -> None:
    assert answer(trial(replace(GOOD, failing=(VerdictOn.SOFTWARE,)))).false_failures.count == 1


def test_a_gate_whose_sessions_fail_by_another_test_should_only_warn() -> None:
    broken = replace(GOOD, status=1, failed=("plain",))
    found = answer(trial(*20 * [broken], *10 * [replace(FOUND, status=1, failed=("plain",))]))
    assert (found.gate, found.false_failures.count) == (Gate.WARN_ONLY, 20)
    assert (found.other_failures, found.unfit) == ({"plain": 30}, ("plain",))


def test_a_gate_with_a_test_that_is_never_measured_should_only_warn() -> None:
    crashed = [replace(session, status=6, failed=("crash",)) for session in (*20 * [GOOD], *10 * [FOUND])]
    found = answer(trial(*crashed))
    assert (found.gate, found.false_failures.count, found.unfit) == (Gate.WARN_ONLY, 0, ("crash",))


def test_a_test_that_could_not_be_measured_once_is_named_and_keeps_no_gate_from_blocking() -> None:
    found = answer(trial(*19 * [GOOD], replace(GOOD, status=6, failed=("a",)), *10 * [FOUND]))
    assert (found.gate, found.other_failures, found.unfit) == (Gate.MAY_BLOCK, {"a": 1}, ())


def test_the_status_of_a_session_counts_where_no_test_is_known_to_have_failed() -> None:
    found = answer(trial(*20 * [replace(GOOD, status=3)], *10 * [FOUND]))
    assert (found.gate, found.other_failures) == (Gate.WARN_ONLY, {"pytest's status 3": 20})
    assert found.unfit == ()  # no test can be mended or left out for it


def test_a_loss_that_was_found_is_no_other_failure() -> None:
    assert answer(trial(replace(FOUND, status=1))).other_failures == {}


def test_a_gate_with_a_test_without_a_baseline_should_only_warn() -> None:
    found = answer(trial(*20 * [GOOD], *10 * [FOUND], without_baseline=("c",)))
    assert (found.gate, found.unfit) == (Gate.WARN_ONLY, ("c",))


@given(st.lists(st.floats(-0.1, 0.1), min_size=20, max_size=30), st.booleans())
def test_no_gate_may_block_with_a_test_that_is_too_noisy(changes: list[float], is_of_history: bool) -> None:
    found = answer(trial(*changing(*changes), *10 * [FOUND], is_of_history=is_of_history))
    assert found.gate is not Gate.MAY_BLOCK or not any(noise.is_too_noisy for noise in found.tests.values())


def test_a_session_that_measured_nothing_counts_for_no_rate() -> None:
    nothing = TrialSession(tests={"a": TrialResult(outcome=Outcome.INVALID)})
    found = answer(trial(GOOD, nothing))
    assert (found.false_failures.of, found.not_counted) == (1, 1)


def test_a_test_that_regressed_beside_a_slowed_one_is_no_loss_that_was_found() -> None:
    both = TrialSession(tests={"a": PASSED, "b": REGRESSED}, slowed=("a",))
    assert answer(trial(both)).losses.count == 0


def changing(*changes: float, **more: object) -> list[TrialSession]:
    return [TrialSession(tests={"a": replace(PASSED, change=change, **more)}) for change in changes]  # type: ignore[arg-type]


@given(st.lists(st.floats(-0.1, 0.1), min_size=5, max_size=30))
def test_the_tolerance_that_a_test_holds_is_beyond_its_scatter(changes: list[float]) -> None:
    noise = answer(trial(*changing(*changes))).tests["a"]
    assert noise.holds is not None
    assert noise.scatter is not None
    assert noise.holds >= 1 - math.exp(-2 * noise.scatter)


def test_four_sessions_are_too_few_for_a_tolerance() -> None:
    assert answer(trial(*changing(0.01, 0.01, 0.01, 0.01))).tests["a"].holds is None


def test_a_test_whose_noise_reaches_the_loss_is_too_noisy() -> None:
    noise = answer(trial(*changing(-0.03, 0.03, -0.03, 0.03, -0.03), slowdown=0.05)).tests["a"]
    assert noise.is_too_noisy


def test_sessions_in_which_a_test_was_slowed_down_say_nothing_of_its_noise() -> None:
    slowed = TrialSession(tests={"a": replace(PASSED, change=-0.05)}, slowed=("a",))
    assert answer(trial(*changing(0.0, 0.0, 0.0, 0.0, 0.0), slowed)).tests["a"].scatter == 0


def test_a_kind_of_disturbance_in_a_quarter_of_the_sessions_is_named() -> None:
    disturbed = changing(0.0, disturbances=(DisturbanceKind.OTHER_PROCESSES,))
    assert answer(trial(*changing(0.0, 0.0, 0.0), *disturbed)).tests["a"].disturbed == {
        DisturbanceKind.OTHER_PROCESSES: 1
    }


def test_clocks_that_vary_as_much_as_the_throughput_are_named() -> None:
    clocks = [1000.0, 1100.0, 1200.0, 1300.0, 1400.0]
    sessions = [changing(0.01, clock_mhz=clock)[0] for clock in clocks]
    assert answer(trial(*sessions)).tests["a"].clocks_mhz == (1000, 1400)


def test_losses_of_one_session_say_less_than_as_many_of_several() -> None:
    """They share the session's drift and its baselines."""
    names = [f"test_{number}" for number in range(10)]
    at_once = TrialSession(tests=dict.fromkeys(names, REGRESSED), slowed=tuple(names))
    one, ten = (answer(trial(*20 * [GOOD], *sessions)).losses for sessions in ([at_once], 10 * [FOUND]))
    assert (one.count, one.of) == (ten.count, ten.of) == (10, 10)
    assert one.low < ten.low - 0.1


def test_sessions_that_share_their_baselines_say_less_than_independent_ones() -> None:
    assert answer(trial(*20 * [GOOD], *10 * [FOUND])).losses.low < rate(10, 10, confidence=0.975).low - 0.01
