"""The figures that a verdict keeps of its decision: those of the verdict, and what other counts would tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Decision, Noise, Tolerance, Verdict
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.session_effects import CommonDrift
from pytest_tfperf.judging.target import Target
from tests.helpers.measurements import NOISE, baseline, pair, run_at

DROPS = st.floats(-0.3, 0.1)
NOISES = st.builds(
    Noise, between_runs=st.floats(0.001, 0.1), degrees_of_freedom=st.floats(4, 500), rows=st.integers(1, 50)
)


def judged(
    *changes: float, confirmed: Sequence[float] | None = None, noise: Noise = NOISE, tolerance: float = 0.02, **of: Any
) -> Verdict:
    """Of runs that differ from a baseline of 1,000 by these fractions, and of pairs."""
    return judge(
        Evidence(
            throughput=summarise([run_at(1000.0 * (1 + change)) for change in changes]),
            target=Target(baseline(), noise=noise),
            tolerance=Tolerance.of(tolerance),
            pairs=[pair(change) for change in confirmed or ()],
            has_reference_environment=confirmed is not None,
            **of,
        )
    )


def decision_of(verdict: Verdict) -> Decision:
    assert verdict.decision is not None
    return verdict.decision


@given(
    drop=DROPS,
    count=st.sampled_from([1, 3, 8]),
    noise=NOISES,
    tolerance=st.floats(0.005, 0.3),
    tests=st.integers(1, 80),
    drift=st.floats(-0.05, 0.05),
)
def test_the_figures_for_the_count_that_decides_are_those_of_the_verdict(
    drop: float, count: int, noise: Noise, tolerance: float, tests: int, drift: float
) -> None:
    found = judged(*[drop] * count, noise=noise, tolerance=tolerance, tests=tests, drift=CommonDrift(drift, 12, 0.001))
    decision = decision_of(found)
    (power,) = [power for power in decision.powers if power.count == decision.last]
    assert (power.threshold, power.detectable) == (found.threshold, found.min_detectable_slowdown)


@given(drop=DROPS, count=st.sampled_from([2, 6, 12, 20]), noise=NOISES)
def test_the_figures_for_twenty_pairs_are_those_of_the_verdict(drop: float, count: int, noise: Noise) -> None:
    found = judged(-0.3, confirmed=[drop] * count, noise=noise)
    assert decision_of(found).powers[-1].threshold == found.threshold


@given(drop=DROPS, noise=NOISES, tests=st.integers(1, 80))
def test_more_runs_never_widen_the_threshold_or_detect_less(drop: float, noise: Noise, tests: int) -> None:
    powers = decision_of(judged(*[drop] * 8, noise=noise, tests=tests)).powers
    for figures in ([power.threshold for power in powers], [power.detectable for power in powers]):
        assert figures == sorted(figures, reverse=True)


def test_the_count_that_is_enough_is_the_first_whose_threshold_is_below_the_slowdown() -> None:
    found = decision_of(judged(*[-0.05] * 8, noise=Noise(between_runs=0.02, degrees_of_freedom=36, rows=9)))
    assert found.enough is not None
    assert found.enough > 1
    assert all((power.threshold < 0.05) == (power.count >= found.enough) for power in found.powers)


def test_what_the_tolerance_accepts_needs_no_count_of_runs() -> None:
    assert decision_of(judged(-0.01)).enough is None


def test_a_decision_names_how_many_changes_show_the_slowdown_and_how_many_must() -> None:
    found = decision_of(judged(*[-0.2] * 7, 0.0))
    assert (found.showing, found.showing_needed, found.last) == (7, 7, 8)
    assert found.changes == pytest.approx([*[-0.2] * 7, 0.0])


def test_where_any_slowdown_is_accepted_nothing_is_decided() -> None:
    found = judge(Evidence(throughput=summarise([run_at(900.0)]), target=Target(baseline(), noise=NOISE),
                           tolerance=Tolerance(None, 0.02)))  # fmt: skip
    assert found.decision is None


def test_a_decision_by_pairs_names_their_evidence_and_how_much_fails_the_test() -> None:
    found = decision_of(judged(-0.3, confirmed=[-0.05] * 6))
    assert (found.showing, found.showing_needed, found.last) == (None, None, 20)
    assert found.evidence is not None
    assert found.evidence_needed is not None
    assert found.evidence >= found.evidence_needed
