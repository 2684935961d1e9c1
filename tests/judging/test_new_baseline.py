"""A baseline from fresh runs: how many it takes, and what its row says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement, recorded_parts
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.run import StepParts
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import NOTHING, Verdict, Want, Wants
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.new_baselines import (
    baseline_of,
    correction,
    is_beyond_noise,
    new_baselines,
    pooled,
    wants,
)
from pytest_tfperf.stores import baseline_file
from tests.helpers.measurements import measurement, run_at, throughput, verdict

CALM = [1000.0, 1010.0, 990.0, 1005.0, 995.0]
WILD = [1000.0, 700.0, 1300.0, 800.0, 1200.0]
ONE_SLOW = [*CALM, 800.0]


def values(rates: list[float]) -> list[RunValue]:
    return [RunValue(math.log(rate), 0.001, 100) for rate in rates]


def runs(count: int) -> Wants:
    return Wants(Want.RUNS, count)


def row(rates: list[float], **more: Any) -> Baseline:
    return baseline_of(measurement(throughput(*rates), **more))


@pytest.mark.parametrize(
    ("rates", "wanted"), [(CALM, NOTHING), (CALM[:3], runs(5)), ([*CALM[:4], 800.0], runs(6)), (WILD, runs(6))],
    ids=["they agree", "too few", "a slow run is replaced", "they differ too much"],
)  # fmt: skip
def test_runs_are_added_until_enough_of_them_agree(rates: list[float], wanted: Wants) -> None:
    assert wants(values(rates)) == wanted


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=20))
def test_recording_ends_after_twice_as_many_runs(rates: list[float]) -> None:
    assert wants(values(rates)).count <= 10


def test_the_row_holds_the_runs_middle_and_deviation() -> None:
    made = row(CALM)
    assert (made.value, made.runs, made.is_measured) == (pytest.approx(1000.0, rel=1e-4), 5, True)
    assert new_baselines(of_sizes(scattered(0.02), tolerance=0.1))[0][1].between_runs == pytest.approx(0.02, rel=0.01)
    assert row([1000.0, 1000.0 * math.exp(0.02)]).between_runs == pytest.approx(0.02 / math.sqrt(2), rel=0.01)


def test_a_slow_run_is_left_out_and_noted() -> None:
    made = row(ONE_SLOW)
    assert (made.runs, made.value) == (5, row(CALM).value)
    assert made.note == "left out as slow runs: 800 images/s"


def test_the_row_tells_where_it_comes_from() -> None:
    made = row(
        CALM,
        commit="abc",
        environment={"tensorflow": "2.21.0", "cuda": "12"},
        gpu="Tesla P100",
        gpu_fp32_tflops=10.6,
    )
    assert (made.commit, made.environment) == ("abc", "cuda=12 tensorflow=2.21.0")
    assert (made.gpu, made.gpu_fp32_tflops, made.date) == ("Tesla P100", 10.6, "2026-01-02")


def test_the_row_keeps_the_matmul_rate_of_its_runs() -> None:
    profile = StepProfile(input=Input.RESIDENT, products_multiply_adds_per_sec=1.2345e11)
    made = row(CALM, environment={"tensorflow": "2.21.0"}, runs=(replace(run_at(1000.0), step_profile=profile),))
    assert made.environment == "matmul=1.23e+11 tensorflow=2.21.0"


def test_the_row_keeps_the_parts_of_a_programs_step() -> None:
    parts = StepParts(input=0.00047812, compute=0.655, other=0.0)
    made = row(CALM, runs=(replace(run_at(1000.0), step_parts=parts),))
    assert made.environment == "step_ms=input:0.478,compute:655,other:0"
    then = recorded_parts(made)
    assert then is not None
    assert asdict(then) == pytest.approx({"input": 0.000478, "compute": 0.655, "other": 0.0})


@pytest.mark.parametrize(
    "fact", ["", "step_ms=", "step_ms=input:fast,compute:1,other:1", "step_ms=input:1", "step_ms=a:b:c"]
)
def test_a_row_without_whole_parts_tells_none(fact: str) -> None:
    assert recorded_parts(replace(row(CALM), environment=fact)) is None


@pytest.mark.parametrize(
    ("rates", "says"), [(WILD, "too noisy for a baseline, .*1,300.0"), ([1000.0], "one run is no")]
)
def test_runs_that_show_too_little_are_no_baseline(rates: list[float], says: str) -> None:
    with pytest.raises(MeasurementError, match=says):
        row(rates)


def scattered(deviation: float) -> list[float]:
    """Five values around 1,000 with this standard deviation, and no outlier."""
    return [1000.0 * math.exp(deviation * z) for z in (-1.27, -0.63, 0.0, 0.63, 1.27)]


def test_a_row_is_refused_from_a_standard_deviation_of_seven_per_cent() -> None:
    assert wants(values(scattered(0.06))) == NOTHING
    assert row(scattered(0.06)).runs == 5
    assert wants(values(scattered(0.08))) == runs(6)
    with pytest.raises(MeasurementError, match="too noisy for a baseline"):
        row(scattered(0.08))


@pytest.mark.parametrize(("deviation", "refused"), [(0.06, 0), (0.08, 1)])
def test_a_figure_is_refused_from_the_same_deviation(deviation: float, refused: int) -> None:
    rows, refusals = new_baselines(of_sizes(scattered(deviation), tolerance=0.02))
    assert (len(rows), len(refusals)) == (2 - refused, refused)


@pytest.mark.parametrize(("deviation", "refused"), [(0.12, 0), (0.2, 1)])
def test_a_figure_with_a_wide_tolerance_may_scatter_until_twice_that_is_not_detected(
    deviation: float, refused: int
) -> None:
    assert len(new_baselines(of_sizes(scattered(deviation), tolerance=0.3))[1]) == refused


def test_a_time_of_a_slow_spell_is_left_out_as_a_slow_run_is() -> None:
    figure = Figure("p50", field="p50", unit="ms")
    times = [20.0, 20.2, 19.9, 20.1, 20.0, 26.0]
    given = tuple(run_at(1000.0, figures={"p50": time}) for time in times)
    of_time = Verdict(figure=figure, value=20.0)
    made = new_baselines(measurement(throughput(*ONE_SLOW), runs=given, figures=(of_time,)))[0][1]
    assert (made.runs, made.value) == (5, pytest.approx(20.05, abs=0.01))
    assert made.between_runs == pytest.approx(0.0057, rel=0.01)


@pytest.mark.parametrize(("losses", "refused"), [((2.0, 2.099), 0), ((2.0, 2.11), 1)])
def test_a_loss_that_differs_between_runs_by_more_than_its_tolerance_makes_no_row(
    losses: tuple[float, float], refused: int
) -> None:
    given = tuple(run_at(1000.0, figures={"loss": loss}) for loss in (losses[0], *losses, *losses))
    of_loss = Verdict(figure=Figure("loss"), value=2.0)
    assert len(new_baselines(measurement(throughput(*CALM), runs=given, figures=(of_loss,)))[1]) == refused


def of_sizes(sizes: list[float], *, tolerance: float) -> Measurement:
    """Five runs of a steady throughput, and a figure of these values."""
    figure = Figure("size", field="size", tolerance=tolerance)
    given = tuple(run_at(1000.0, figures={"size": size}) for size in sizes)
    return measurement(throughput(*CALM), runs=given, figures=(Verdict(figure=figure, value=1.0),))


def test_a_script_that_is_too_noisy_is_advised_more_steps() -> None:
    with pytest.raises(MeasurementError, match=r"or give the test more steps \(steps=\), and record again"):
        row(WILD, workload=Command([], name="my-train"))


def test_what_is_too_noisy_leaves_the_others_recorded() -> None:
    memory, loss = (Verdict(figure=Figure(name), value=1.0) for name in ("peak_memory", "loss"))
    given = [{"peak_memory": 3e9, "loss": value} for value in (2.0, 9.0, 1.0, 7.0, 3.0)]
    runs = tuple(run_at(1000.0, figures=figures) for figures in given)
    rows, refusals = new_baselines(measurement(throughput(*WILD), runs=runs, figures=(memory, loss)))
    assert [row.key.figure for row in rows] == ["peak_memory"]
    assert len(refusals) == 2


def test_one_run_is_one_error() -> None:
    loss = Verdict(figure=Figure("loss"), value=2.0)
    one = measurement(throughput(1000.0), runs=(run_at(1000.0, figures={"loss": 2.0}),), figures=(loss,))
    rows, refusals = new_baselines(one)
    assert (rows, len(refusals)) == ([], 1)


def of_count(values: Sequence[float]) -> Measurement:
    counted = Verdict(figure=Figure("compilations"), value=values[0])
    runs = tuple(run_at(1000.0, figures={"compilations": value}) for value in values)
    return measurement(throughput(*CALM), runs=runs, figures=(counted,))


def test_a_count_that_is_the_same_in_each_run_makes_a_row() -> None:
    assert new_baselines(of_count([7.0] * 5))[1] == []


def test_a_count_that_differs_between_runs_is_refused_with_the_next_step() -> None:
    (refusal,) = new_baselines(of_count([7.0, 7.0, 8.0, 8.0, 7.0]))[1]
    assert "compilations is a count, which should be the same in each run" in str(refusal)
    assert "accept the difference: Figure('compilations', absolute=..., ...)" in str(refusal.next_step)


def of_figure(values: Sequence[float], *, places: Sequence[str] = (), **how: Any) -> Measurement:
    """Five good runs, each with such a value of the figure x."""
    found = Verdict(figure=Figure("x", field="x", **how), value=values[0])
    runs = tuple(
        run_at(1000.0, figures={"x": value}, figure_places={"x": place} if place else {})
        for value, place in zip(values, places or [""] * 5, strict=True)
    )
    return measurement(throughput(*CALM), runs=runs, figures=(found,))


@pytest.mark.parametrize(
    ("values", "value"),
    [([0.0] * 5, 0.0), ([-0.0] * 5, 0.0), ([-2.0, -2.1, -2.0, -1.9, -2.0], -2.0), ([0.1, -0.1, 0.0, 0.1, -0.1], 0.0)],
)
def test_a_figure_of_0_or_below_makes_a_row_that_is_read_back(values: list[float], value: float) -> None:
    rows, refusals = new_baselines(of_figure(values, absolute=1.0))
    assert not refusals
    read = baseline_file.parse(baseline_file.render(rows), rows[0].machine, "box.csv")
    assert {row.key.figure: row.value for row in read.values()} == {"": rows[0].value, "x": value}


@pytest.mark.parametrize(("values", "between"), [([0.3, -0.1, 0.2, 0.1, -0.2], None), ([2.0] * 4 + [2.1], 0.0224)])
def test_a_spread_beyond_the_value_is_no_fraction_of_it(values: list[float], between: float | None) -> None:
    (_, row), _ = new_baselines(of_figure(values, absolute=1.0))
    assert row.between_runs == between


@pytest.mark.parametrize("value", [1e308, 1e-308, 0.0, -1.0])
def test_no_value_of_a_figure_costs_the_row_of_the_throughput(value: float) -> None:
    rows, _ = new_baselines(of_figure([value] * 4 + [0.0], absolute=1.0))
    assert rows[0].key.figure == ""


def test_the_row_of_a_figure_says_where_the_program_printed_it() -> None:
    (_, row), _ = new_baselines(of_figure([2.0] * 5, places=["at step 400"] * 5))
    assert (row.note, row.place) == ("read at step 400", "at step 400")


def test_a_figure_that_runs_print_at_different_places_is_refused_with_the_next_step() -> None:
    rows, (refusal,) = new_baselines(of_figure([2.0] * 5, places=["at step 400", *["at step 401"] * 4]))
    assert [row.key.figure for row in rows] == [""]
    assert "the runs don't give x at the same place, but at step 400, at step 401" in str(refusal)
    assert "Let the program print x at fixed steps, or give Figure('x', at_step=400, ...)" in str(refusal)


@pytest.mark.parametrize(
    ("change", "rows", "is_corrected"), [(-0.04, 7, True), (-0.06, 7, False), (0.06, 7, False), (-0.2, 8, True)]
)
def test_controls_of_few_rows_correct_no_more_than_sessions_differ(
    change: float, rows: int, is_corrected: bool
) -> None:
    moved = math.log1p(change)
    assert correction(moved, rows) == (-moved if is_corrected else 0.0)


# From earlier sessions


def of_session(rate: float, drift: float = 0.0, **figures: float) -> Measurement:
    """A run in a session with a drift common to all tests, and figures in seconds or bytes."""
    asked = [Verdict(figure=Figure(name, unit="s" if name == "step" else "bytes")) for name in figures]
    of_rate = verdict(common_drift=drift)
    return measurement(throughput(rate), verdict=of_rate, figures=asked, runs=(run_at(rate, figures=figures),))


def rates(made: Measurement) -> list[float]:
    return [round(value.examples_per_sec, 6) for value in made.throughput.runs]


def test_sessions_are_pooled_latest_first() -> None:
    latest = of_session(1100.0)
    made = pooled([latest, of_session(1090.0)], is_gain=True)
    assert (rates(made), len(made.runs), made.time) == ([1100.0, 1090.0], 2, latest.time)


@pytest.mark.parametrize(
    ("drift", "is_gain", "kept"),
    [(1.1, True, 1000.0), (0.9, True, 1100.0), (1.1, False, 1000.0), (0.9, False, 1222.222222)],
)
def test_a_drift_is_taken_out_of_a_run_but_for_a_gain_none_to_the_worse(
    drift: float, is_gain: bool, kept: float
) -> None:
    assert rates(pooled([of_session(1100.0, math.log(drift))], is_gain=is_gain)) == [kept]


def test_figures_that_go_with_the_speed_lose_the_drift_too() -> None:
    made = pooled([of_session(1100.0, math.log(1.1), step=2.0, memory=8e9)], is_gain=True)
    assert made.runs[0].figures == pytest.approx({"step": 2.2, "memory": 8e9})


# Standard errors of the mean of five sessions less the median of a row's five runs, whose variance is 1.07 of a mean's.
SURE = 3.5 * math.sqrt(1 / 5 + 1.07 / 5)
SCATTERED = [-0.02, -0.01, 0.0, 0.01, 0.02]  # their standard deviation is the root of 0.00025


@pytest.mark.parametrize(
    ("levels", "between_runs", "figure", "value", "accepted", "least"),
    [
        ([0.0] * 5, 0.01, "", 1000.0, 0.0, 0.01 * SURE),
        (SCATTERED, 0.01, "", 1000.0, 0.0, math.sqrt(0.00025) * SURE),
        (SCATTERED, None, "", 1000.0, 0.0, math.sqrt(0.00025) * SURE),
        ([0.0] * 5, 0.01, "", 1000.0, 0.2, 0.2),
        ([0.0] * 5, 0.01, "loss", -4.0, 0.0, 0.04 * SURE),
        ([0.0] * 5, 0.01, "loss", -4.0, 0.5, 0.5),
    ],
    ids=["runs", "sessions", "no runs' noise", "the tolerance", "a figure's unit", "a figure's tolerance"],
)
def test_a_gain_stays_where_it_is_more_than_noise_and_tolerance_explain(
    levels: list[float], between_runs: float | None, figure: str, value: float, accepted: float, least: float
) -> None:
    measured = row(CALM)
    key = measured.key._replace(figure=figure)
    of = replace(measured, key=key, between_runs=between_runs, value=value)
    found = [
        is_beyond_noise([7.0 + level + gain for level in levels], 7.0, of, accepted)
        for gain in (0.999 * least, 1.001 * least)
    ]
    assert found == [False, True]


def test_a_gain_as_large_as_the_tolerance_is_accepted_already() -> None:
    assert not is_beyond_noise([1.25] * 5, 1.0, replace(row(CALM), between_runs=None), 0.25)
