"""Earlier sessions in the place of a baseline: what they rest on, how they are judged, what a later session detects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import EarlierMeasurement
from pytest_tfperf.core.session_verdicts import UnrecordedTests
from pytest_tfperf.core.throughput import RunValue, summarise
from pytest_tfperf.core.verdict import Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import ASSUMED_BETWEEN_RUNS
from pytest_tfperf.judging.session_effects import CommonDrift
from pytest_tfperf.judging.target import (
    MOST_RUNS,
    Target,
    provisional_baseline,
    provisional_baselines,
    target_for,
)
from pytest_tfperf.judging.unrecorded import unrecorded_tests
from tests.helpers.measurements import BUSY, KEY, baseline, measurement, run, run_at, throughput, verdict


def earlier(*rates: float, session: str = "monday", error: float = 0.001, **more: Any) -> EarlierMeasurement:
    runs = tuple(RunValue(math.log(rate), error, 20) for rate in rates)
    given: dict[str, Any] = {"date": "2026-11-20", "unit": "images", "gpu": "", "environment": {}}
    return EarlierMeasurement(session=session, runs=runs, **given | more)


SESSIONS = [
    earlier(1000.0),
    earlier(1010.0, session="tuesday", date="2026-11-21"),
    earlier(990.0, session="wednesday", date="2026-11-22", environment={"tensorflow": "2.21.0"}, commit="abc"),
]


def target(*sessions: EarlierMeasurement, **more: Any) -> Target:
    rows = provisional_baselines("box", {KEY: sessions}, gpu="")
    return target_for({}, (), "box", KEY, gpu_fp32_tflops=None, provisional=rows, **more)


# The row


def test_the_row_says_what_it_rests_on() -> None:
    row = provisional_baseline("box", KEY, SESSIONS)
    assert (row.provenance, row.source, row.date) == (
        Provenance.PROVISIONAL,
        "3 earlier sessions here",
        "2026-11-20 to 2026-11-22",
    )
    assert (row.runs, row.value, row.between_runs) == (
        3,
        pytest.approx(1000.0, rel=1e-3),
        pytest.approx(0.01, rel=0.01),
    )
    assert (row.environment, row.commit) == ("tensorflow=2.21.0", "abc")


def test_measurements_of_one_session_are_one_session() -> None:
    row = provisional_baseline("box", KEY, [earlier(1000.0), earlier(1001.0)])
    assert (row.source, row.date, row.runs) == ("1 earlier session here", "2026-11-20", 2)


def test_what_counts_another_unit_than_the_latest_is_left_out() -> None:
    row = provisional_baseline("box", KEY, [earlier(5.0, unit="tokens"), earlier(1000.0, session="tuesday")])
    assert (row.runs, row.unit, row.value) == (1, "images", pytest.approx(1000.0))


def test_the_row_counts_the_unit_of_the_latest() -> None:
    assert provisional_baseline("box", KEY, [earlier(5.0, unit="tokens")]).unit == "tokens"


def test_another_gpus_sessions_are_left_out() -> None:
    assert provisional_baselines("box", {KEY: [earlier(1000.0, gpu="Tesla P100")]}, gpu="Tesla V100") == {}


@given(st.lists(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=4), min_size=1, max_size=10))
def test_the_reference_lies_among_the_runs(sessions: list[list[float]]) -> None:
    row = provisional_baseline("box", KEY, [earlier(*rates, session=str(i)) for i, rates in enumerate(sessions)])
    rates = [rate for session in sessions for rate in session]
    assert min(rates) * (1 - 1e-9) <= row.value <= max(rates) * (1 + 1e-9)


# What it is judged by


def test_a_single_run_has_at_least_the_noise_of_its_own_windows() -> None:
    calm, restless = target(earlier(1000.0)), target(earlier(1000.0, error=0.05))
    assert calm.noise is not None
    assert restless.noise is not None
    assert (calm.noise.between_runs, restless.noise.between_runs) == (pytest.approx(ASSUMED_BETWEEN_RUNS), 0.05)


def test_a_second_session_detects_no_less_than_the_first() -> None:
    now, thresholds = throughput(800.0), []
    for count in (1, 2, 3):
        found = judge(Evidence(throughput=now, target=target(*SESSIONS[:count]), tolerance=Tolerance()))
        assert found.threshold is not None
        thresholds.append(found.threshold)
    assert thresholds == sorted(thresholds, reverse=True)


def test_runs_that_agree_by_chance_have_the_noise_of_their_windows() -> None:
    found = target(earlier(1000.0, error=0.02), earlier(1000.0, error=0.02, session="tuesday"))
    assert found.noise is not None
    assert found.noise.between_runs == pytest.approx(0.02)


def test_a_recorded_row_comes_first() -> None:
    own = baseline(900.0)
    rows = provisional_baselines("box", {KEY: SESSIONS}, gpu="")
    assert target_for({KEY: own}, (), "box", KEY, gpu_fp32_tflops=None, provisional=rows).baseline == own


def test_a_floor_comes_first_because_it_can_fail_a_test() -> None:
    floor = baseline(500.0, provenance=Provenance.PUBLISHED, machine="paper", gpu_fp32_tflops=1.0)
    rows = provisional_baselines("box", {KEY: SESSIONS}, gpu="")
    found = target_for({}, [floor], "box", KEY, gpu_fp32_tflops=2.0, provisional=rows)
    assert (found.baseline, found.is_floor) == (floor, True)


def judged(*rates: float, **more: Any) -> Verdict:
    now = throughput(*rates, **({"unit": more.pop("unit")} if "unit" in more else {}))
    return judge(Evidence(throughput=now, target=target(*SESSIONS), tolerance=Tolerance(), **more))


def test_a_slowdown_is_confirmed_in_three_runs() -> None:
    assert [judged(*[800.0] * runs).wants.count for runs in (1, 2, 3)] == [MOST_RUNS, MOST_RUNS, 0]
    assert (judged(800.0, 800.0, 800.0).outcome, MOST_RUNS) == (Outcome.REGRESSED, 3)


def test_only_a_slowdown_that_would_warn_gets_further_runs() -> None:
    threshold = judged(1000.0).threshold
    assert threshold is not None
    assert [judged(1000.0 * (1 - threshold * share)).wants.count for share in (0.99, 1.01)] == [0, MOST_RUNS]


def test_what_the_first_run_and_the_confirmation_both_show_is_detectable() -> None:
    found = judged(1000.0)
    assert found.threshold is not None
    assert found.min_detectable_slowdown is not None
    assert found.min_detectable_slowdown > found.threshold + 2 * 0.01  # two standard errors between runs and more


def test_a_noisy_session_is_no_reference_that_anything_passes() -> None:
    restless = target(earlier(1000.0, error=0.3))
    found = [
        judge(Evidence(throughput=throughput(rate), target=restless, tolerance=Tolerance())) for rate in (551, 1000)
    ]
    assert [(one.outcome, one.reason) for one in found] == [(Outcome.TOO_NOISY, Reason.TOO_NOISY)] * 2


def test_one_slow_run_is_cleared_by_two_more() -> None:
    assert judged(800.0, 1000.0, 1001.0).outcome is Outcome.PASS


def test_the_common_drift_of_recorded_rows_is_left_out() -> None:
    drift = CommonDrift(math.log(0.8), 20)
    assert judged(800.0, 800.0, 800.0, drift=drift, is_drift_to_come=True).outcome is Outcome.REGRESSED


def test_sessions_that_counted_something_else_are_no_reference() -> None:
    assert judged(1000.0, unit="tokens").outcome is Outcome.NO_BASELINE


# What a later session detects


def measured(*rates: float, **more: Any) -> Measurement:
    runs = tuple(run_at(rate) for rate in rates)
    unknown = Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE)
    return measurement(**{"now": summarise(runs), "runs": runs, "verdict": unknown} | more)


def foreseen(*measurements: Measurement) -> UnrecordedTests:
    return unrecorded_tests(measurements, Tolerance())


def test_where_every_test_has_a_recorded_baseline_nothing_is_foreseen() -> None:
    assert [m.is_unrecorded for m in (measurement(verdict=verdict()), measurement())] == [False, False]


def test_a_single_window_promises_nothing() -> None:
    of_one = (run([0.064]),)
    found = foreseen(measured(1000.0, runs=of_one, now=summarise(of_one)))
    assert (found.within_runs, found.detectable, found.detectable_recorded) == (None, None, None)


def test_a_first_session_tells_what_the_next_one_detects() -> None:
    found = foreseen(measured(1000.0))
    assert (found.tests, found.judged, found.disturbances, found.between_runs) == (1, 0, (), None)
    assert found.detectable is not None
    assert found.detectable_recorded is not None
    assert 0.02 < found.detectable_recorded < found.detectable < 0.2


def test_a_disturbed_run_is_no_reference() -> None:
    disturbed = (run_at(1000.0, disturbance=BUSY),)
    found = foreseen(measured(1000.0, runs=disturbed))
    assert (found.disturbances, found.detectable) == ((BUSY.kind,), None)


def test_a_run_that_was_slowed_on_purpose_is_no_reference() -> None:
    assert foreseen(measured(1000.0, environment={"injected_slowdown": "0.2"})).detectable is None


def against_earlier(sessions: Sequence[EarlierMeasurement]) -> Measurement:
    found = target(*sessions)
    now = throughput(1000.0)
    return measurement(now, verdict=judge(Evidence(throughput=now, target=found, tolerance=Tolerance())))


def test_later_sessions_tell_how_much_runs_differ() -> None:
    found = foreseen(against_earlier(SESSIONS))
    assert (found.judged, found.between_runs) == (1, pytest.approx(0.01, rel=0.01))


def test_one_earlier_session_does_not_tell_how_much_runs_differ() -> None:
    assert foreseen(against_earlier(SESSIONS[:1])).between_runs is None
