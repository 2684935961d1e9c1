"""The session's two verdicts: is the software slower, is the machine?"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.session_verdicts import SessionVerdict, VerdictOn
from pytest_tfperf.core.verdict import Noise, Outcome, Reason, Tolerance
from pytest_tfperf.judging.session_effects import CommonDrift, common_drift
from pytest_tfperf.judging.software_and_machine import (
    SENTINELS,
    ReferencePairs,
    judge_machine,
    judge_sentinels,
    sentinels,
    wants_sentinels,
)
from tests.helpers.measurements import baseline, run_at

NOISE = Noise(between_runs=0.01, degrees_of_freedom=200)
TWO_PERCENT = Tolerance.of(0.02)
WORST_FIRST = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.IMPROVED)
KNOWN = CommonDrift(-0.03, 50, 0.001)


def pairs(*software: float, machine: float = 0.0, noise: Noise = NOISE) -> ReferencePairs:
    """A test's pairs: the current environment differs from the reference by `software`, the machine lost something."""
    rate = 1000.0 * (1 + machine)
    made = [Pair(run_at(rate), run_at(rate * (1 + s)), math.log1p(s), 0.001) for s in software]
    first = math.log1p(machine) + (math.log1p(software[0]) if software else 0.0)
    return ReferencePairs(baseline(1000.0), noise, made, test="test_it.py::test_it", first_change=first)


def software(*changes: float, count: int = 4, tolerance: Tolerance = TWO_PERCENT) -> SessionVerdict:
    found = judge_sentinels([pairs(*[change] * count) for change in changes], tolerance)
    assert found is not None
    return found


def machine(*changes: float, drift: CommonDrift = KNOWN) -> SessionVerdict:
    found = judge_machine(drift, [pairs(0.0, 0.0, 0.0, 0.0, machine=change) for change in changes])
    assert found is not None
    return found


# Which tests


@pytest.mark.parametrize(("drift", "wanted"), [(-0.012, True), (0.022, True), (-0.008, False), (0.018, False)])
def test_a_common_drift_of_one_per_cent_asks_for_sentinels(drift: float, wanted: bool) -> None:
    assert wants_sentinels(CommonDrift(drift, 8)) is wanted


def test_too_few_tests_ask_for_none() -> None:
    assert not wants_sentinels(common_drift([-0.1] * 7))


@given(st.sets(st.text(min_size=1), max_size=12), st.sets(st.text(min_size=1), max_size=4), st.integers(0, 99))
def test_sentinels_are_four_different_tests_without_suspects(names: set[str], suspects: set[str], turn: int) -> None:
    chosen = sentinels(names, suspects, turn)
    assert len(set(chosen)) == len(chosen) == min(SENTINELS, len(names - suspects))
    assert not set(chosen) & suspects


def test_every_test_gets_its_turn() -> None:
    names = [f"test_{number}" for number in range(10)]
    assert {name for turn in range(5) for name in sentinels(names, (), turn)} == set(names)


# The software


def test_without_pairs_nothing_is_said_of_the_software() -> None:
    assert judge_sentinels([pairs(), pairs()], TWO_PERCENT) is None


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ([0.0] * 4, Outcome.PASS),
        ([-0.04] * 4, Outcome.REGRESSED),
        ([-0.015] * 4, Outcome.PASS),
        ([-0.2, 0.0, 0.0, 0.0], Outcome.PASS),
        ([-0.04, -0.04, -0.04, 0.0], Outcome.REGRESSED),
    ],
    ids=["as fast", "slower", "inside the tolerance", "one test lost something by itself", "all but one slower"],
)
def test_the_software_is_slower_where_most_sentinels_are(changes: list[float], outcome: Outcome) -> None:
    assert software(*changes).outcome is outcome


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([0.0] * 4, None),
        ([-0.04] * 4, None),
        ([-0.04], Reason.UNDECIDED),
    ],
    ids=["as fast", "slower", "one noisy test"],
)
def test_software_in_doubt_has_its_reason(changes: list[float], reason: Reason | None) -> None:
    noisy = Noise(between_runs=0.025 if len(changes) == 1 else 0.01, degrees_of_freedom=200)
    found = judge_sentinels([pairs(*[change] * 4, noise=noisy) for change in changes], TWO_PERCENT)
    assert found is not None
    assert found.reason is reason


def test_pairs_that_scatter_more_than_recorded_show_less() -> None:
    calm = judge_sentinels([pairs(-0.04, -0.03, -0.05, -0.04)] * 4, TWO_PERCENT)
    wild = judge_sentinels([pairs(-0.24, 0.16, -0.14, 0.06)] * 4, TWO_PERCENT)
    assert [found and found.outcome for found in (calm, wild)] == [Outcome.REGRESSED, Outcome.INCONCLUSIVE]


def test_pairs_or_rows_that_scatter_beyond_a_quarter_clear_neither_software_nor_machine() -> None:
    measured = [pairs(-0.4, 0.6, 0.7, -0.5, noise=Noise(between_runs=0.4, degrees_of_freedom=200))] * 4
    found = judge_sentinels(measured, TWO_PERCENT), judge_machine(KNOWN, measured)
    assert [one and one.outcome for one in found] == [Outcome.TOO_NOISY] * 2
    accepting = judge_sentinels(measured, Tolerance.of(0.5))
    assert accepting is not None
    assert accepting.outcome is Outcome.PASS


def test_one_pair_of_each_clears_the_software_but_never_condemns_it() -> None:
    assert (software(*[0.0] * 4, count=1).outcome, software(*[0.0] * 4, count=1).wants.count) == (Outcome.PASS, 0)
    slower = [software(*[-0.2] * 4, count=count) for count in (1, 2, 4)]
    assert [found.wants.count for found in slower] == [2, 0, 0]
    assert [found.outcome for found in slower] == [Outcome.INCONCLUSIVE, Outcome.REGRESSED, Outcome.REGRESSED]


def test_any_drop_may_be_accepted() -> None:
    found = software(*[-0.5] * 4, tolerance=Tolerance(None, None))
    assert (found.outcome, found.threshold) == (Outcome.PASS, None)


@given(st.lists(st.floats(-0.3, 0.3), min_size=4, max_size=4), st.floats(0, 0.3))
def test_slower_sentinels_never_make_a_better_verdict(changes: list[float], more: float) -> None:
    now, slower = software(*changes), software(*((1 + change) * (1 - more) - 1 for change in changes))
    assert WORST_FIRST.index(slower.outcome) <= WORST_FIRST.index(now.outcome)


@given(st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=6))
def test_the_interval_holds_the_change_and_a_failure_lies_beyond_the_tolerance(changes: list[float]) -> None:
    found = software(*changes)
    assert found.interval is not None
    assert found.change is not None
    assert found.interval[0] <= found.change <= found.interval[1]
    assert found.threshold is not None
    assert found.threshold >= 0.02 - 1e-12
    assert found.outcome is not Outcome.REGRESSED or found.change < -0.02


# The machine


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ([0.0] * 4, Outcome.PASS),
        ([-0.03] * 4, Outcome.PASS),
        ([-0.08] * 4, Outcome.REGRESSED),
        ([0.08] * 4, Outcome.IMPROVED),
        ([0.04] * 4, Outcome.PASS),
        ([-0.3, 0.0, 0.0, 0.0], Outcome.INCONCLUSIVE),
        ([-0.08] * 3, Outcome.INCONCLUSIVE),
    ],
    ids=["as fast", "as sessions differ", "slower", "faster", "faster within 5 %", "one test only", "too few tests"],
)
def test_the_machine_is_slower_where_the_reference_environment_is(changes: list[float], outcome: Outcome) -> None:
    assert machine(*changes).outcome is outcome


def test_a_machine_that_slows_some_tests_down_is_in_doubt_and_names_them() -> None:
    fast, throttled = pairs(*[0.0] * 4), replace(pairs(*[0.0] * 4, machine=-0.12), test="test_it.py::test_gpu_1")
    found = judge_machine(KNOWN, [fast, throttled, fast, fast])
    assert found is not None
    assert found.outcome is Outcome.INCONCLUSIVE
    assert (found.reason, found.slow) == (Reason.SLOW_IN_PART, ("test_it.py::test_gpu_1",))


@pytest.mark.parametrize("when", ["first run", "pairs"])
def test_a_neighbour_that_was_there_once_slows_no_part_of_the_machine_down(when: str) -> None:
    fast, slow = pairs(*[0.0] * 4), pairs(*[0.0] * 4, machine=-0.12)
    once = replace(fast, first_change=slow.first_change) if when == "first run" else replace(slow, first_change=0.0)
    found = judge_machine(KNOWN, [fast, once, fast, fast])
    assert found is not None
    assert (found.outcome, found.reason) == (Outcome.PASS, None)


def test_pairs_in_a_slow_spell_condemn_no_machine_whose_first_runs_were_as_fast_as_ever() -> None:
    assert machine(*[-0.2] * 4, drift=CommonDrift(0.0, 50, 0.001)).outcome is not Outcome.REGRESSED
    assert machine(*[-0.2] * 4, drift=CommonDrift(-0.1, 50, 0.001)).outcome is Outcome.REGRESSED


def test_few_tests_in_a_session_never_fail_the_machine_and_that_is_the_reason() -> None:
    found = machine(*[-0.2] * 4, drift=common_drift([-0.2] * 7))
    assert (found.outcome, found.reason, found.few) == (Outcome.INCONCLUSIVE, Reason.FEW_TESTS, (7, 8))


def test_few_tests_with_pairs_never_fail_the_machine_and_that_is_the_reason() -> None:
    found = machine(*[-0.2] * 3)
    assert (found.reason, found.few) == (Reason.FEW_WITH_PAIRS, (3, 4))
    assert machine(*[-0.2] * 4).reason is None


def test_slower_software_is_not_laid_to_the_machine() -> None:
    slower = [pairs(*[-0.2] * 4, machine=0.0) for _ in range(4)]
    found = judge_machine(KNOWN, slower)
    assert found is not None
    assert (found.outcome, found.kind) == (Outcome.PASS, VerdictOn.MACHINE)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("tensorflow", VerdictOn.TOGETHER), ("driver", VerdictOn.MACHINE)],
    ids=["other packages", "the machine's own driver"],
)
def test_pairs_with_other_packages_than_the_rows_say_nothing_of_the_machine(name: str, kind: VerdictOn) -> None:
    row = baseline(1000.0, environment=f"{name}=1.0")
    made = [
        replace(
            one,
            baseline=row,
            pairs=[replace(each, a=replace(each.a, environment={name: "2.0"})) for each in one.pairs],
        )
        for one in [pairs(0.0, machine=-0.2)] * 4
    ]
    found = judge_machine(KNOWN, made)
    assert found is not None
    assert found.kind is kind


def test_without_a_reference_environment_the_common_drift_is_all_that_is_known() -> None:
    found = judge_machine(common_drift([-0.1, -0.11, -0.1, -0.09] * 3))
    assert found is not None
    assert (found.outcome, found.tests, found.kind) == (Outcome.REGRESSED, 12, VerdictOn.TOGETHER)
    assert found.change == pytest.approx(math.expm1(-0.1))


def test_where_nothing_is_known_nothing_is_said_of_the_machine() -> None:
    assert judge_machine(common_drift([-0.2] * 7)) is None


@given(st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=6), st.floats(0, 0.3))
def test_a_slower_machine_never_makes_a_better_verdict(changes: list[float], more: float) -> None:
    now, slower = machine(*changes), machine(*((1 + change) * (1 - more) - 1 for change in changes))
    assert WORST_FIRST.index(slower.outcome) <= WORST_FIRST.index(now.outcome)
    assert now.interval is not None
    assert now.change is not None
    assert now.interval[0] < now.change < now.interval[1]
