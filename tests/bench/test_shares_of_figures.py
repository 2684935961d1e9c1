"""What a figure's threshold takes from its session or comparison: shares of the error, the drift, what sessions do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.bench import task as bench_task
from pytest_tfperf.bench.task import judged as judged_task
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict
from pytest_tfperf.judging.confirmation import RUN_STAGES
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.noise import baseline_variance
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.judging.session_effects import CommonDrift, SessionVariance, session_variance
from pytest_tfperf.judging.target import Target
from tests.helpers.measurements import NOISE, baseline, run_at
from tests.helpers.played import BOX, PLAN, TRIVIAL, steady
from tests.helpers.played_session import ROW, PlayedSession

STRICT = {"tolerance": 0.0, "absolute": 1e-9}  # so that noise alone makes the threshold
LATENCY = Figure("p50", unit="ms", field="p50", **STRICT)
SIZE = Figure("size", unit="", field="size", **STRICT)
SAME = Figure("size", unit="", field="size", better="same", **STRICT)
OTHERS = tuple(Figure(name, field=name, **STRICT) for name in ("x", "y", "z"))


def judged(figure: Figure, value: float = 100.0, *, figures: int = 1, pairs: int = 0, **session: Any) -> Verdict:
    """One run with this value of a figure whose row is 100, among so many figures of its test."""
    task = PlayedSession().task(steady(100.0))
    task = replace(task, plan=replace(PLAN, also=(figure, *OTHERS[: figures - 1])))
    key = Key(TRIVIAL.id, BOX.shape, figure.name)
    rows = {key: baseline(100.0, key=key, unit=figure.unit)}
    run = run_at(100.0, figures={one.name: value for one in task.plan.also})
    evidence = Evidence(throughput=summarise([run]), target=Target(ROW, noise=NOISE), tolerance=Tolerance(), **session)
    return judged_task(task, [run], [Pair(run, run, 0.0, 0.001)] * pairs, evidence, rows)[1]


def threshold(figure: Figure, **session: Any) -> float:
    found = judged(figure, **session).threshold
    assert found is not None
    return found


def widened(sigma: float) -> SessionVariance:
    """What is known where each session changes a test by so much."""
    weights = [float(index == round(sigma * 1000)) for index in range(len(session_variance().weights))]
    return SessionVariance(tuple(weights))


def test_the_figures_of_a_test_share_its_false_alarms() -> None:
    assert threshold(SIZE, figures=3) > threshold(SIZE)
    assert threshold(SIZE, figures=3, tests=4) == pytest.approx(threshold(SIZE, tests=12))


def test_the_figures_of_a_suspect_share_the_false_alarms_of_its_pairs() -> None:
    pairs: dict[str, Any] = {"has_reference_environment": True, "value": 150.0}
    assert threshold(SIZE, figures=3, suspects=4, **pairs) == pytest.approx(threshold(SIZE, suspects=12, **pairs))
    assert threshold(SIZE, suspects=12, **pairs) > threshold(SIZE, suspects=1, **pairs)


def test_a_suspect_is_judged_by_what_its_pairs_measured() -> None:
    suspected = judged(SIZE, 150.0, has_reference_environment=True)
    cleared = judged(SIZE, 150.0, has_reference_environment=True, pairs=6)
    assert (suspected.outcome, cleared.outcome) == (Outcome.INCONCLUSIVE, Outcome.PASS)


@pytest.mark.parametrize("by_pairs", [False, True], ids=["runs", "pairs"])
def test_both_directions_of_a_figure_that_should_stay_the_same_share_them(by_pairs: bool) -> None:
    both = {"has_reference_environment": by_pairs, "value": 150.0}
    assert threshold(SAME, **both) == pytest.approx(threshold(SIZE, **both, tests=2, suspects=2))


def test_a_time_that_grew_as_the_whole_session_slowed_down_is_no_change_of_its_own() -> None:
    slow_session = CommonDrift(log=-0.2, tests=8)
    assert judged(LATENCY, 100 * math.exp(0.2), drift=slow_session).outcome is Outcome.PASS
    assert judged(LATENCY, 100 * math.exp(0.2)).outcome is Outcome.INCONCLUSIVE


def test_a_size_does_not_depend_on_how_fast_the_session_is() -> None:
    slow_session = CommonDrift(log=-0.2, tests=8)
    assert judged(SIZE, 100 * math.exp(0.2), drift=slow_session).outcome is Outcome.INCONCLUSIVE


def test_a_times_threshold_allows_for_what_the_baselines_session_and_todays_do() -> None:
    restless = widened(0.03)
    calm, wide = threshold(LATENCY, variance=widened(0.0)), threshold(LATENCY, variance=restless)
    of_runs = 0.01**2 * (1 / RUN_STAGES[-1] + baseline_variance(5))
    assert (wide / calm) ** 2 == pytest.approx((of_runs + 2 * restless.upper**2) / of_runs)


def test_sessions_do_nothing_to_a_size() -> None:
    assert threshold(SIZE, variance=widened(0.03)) == threshold(SIZE, variance=widened(0.0))


# Comparisons


def compared(figure: Figure, *, figures: int = 1, terms: Terms | None = None) -> float:
    """The threshold after three pairs that differ a little."""
    also = (figure, *OTHERS[: figures - 1])
    values = [(100.0, 100.3), (100.0, 99.8), (100.0, 100.1)]
    pairs = [
        Pair(*(run_at(100.0, figures={one.name: value for one in also}) for value in both), 0.0, 0.001)
        for both in values
    ]
    of_figure = bench_task.compared(replace(PLAN, also=also), pairs, terms or Terms())[1]
    assert of_figure.threshold is not None
    return of_figure.threshold


def test_the_figures_of_a_comparison_share_its_false_alarms() -> None:
    assert compared(SIZE, figures=2) == pytest.approx(compared(SIZE, terms=Terms(false_alarms=0.005)))
    assert compared(SIZE, figures=2) > compared(SIZE)


def test_both_directions_of_a_compared_figure_share_them() -> None:
    assert compared(SAME) == pytest.approx(compared(SIZE, terms=Terms(false_alarms=0.005)))
