from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import (
    DivergedAt,
    Throughput,
    hodges_lehmann,
    run_value,
    summarise,
    window_statistics,
    worst_loss,
)
from tests.helpers.measurements import run

seconds = st.floats(1e-4, 100, allow_nan=False)
windows = st.lists(st.builds(Window, st.integers(1, 50), seconds), min_size=1, max_size=40)
runs_of_windows = st.builds(Run, windows.map(tuple), st.integers(1, 100_000))
log_rates = st.lists(st.floats(-5, 15), min_size=1, max_size=8)


def speeds(some: list[Window] | tuple[Window, ...], examples_per_step: int) -> np.ndarray:
    return np.array([examples_per_step * w.steps / w.seconds for w in some])


def of(*runs: Run) -> Throughput:
    return summarise(runs)


# tf_cnn_benchmarks' statistics


@given(windows, st.integers(1, 1000))
def test_the_statistics_are_tf_cnn_benchmarks_with_windows_for_steps(some: list[Window], batch: int) -> None:
    mean, uncertainty, jitter = window_statistics([Run(tuple(some), batch)])
    each_step = np.repeat([w.seconds / w.steps for w in some], [w.steps for w in some])
    assert mean == pytest.approx(batch / np.mean(each_step))
    values = speeds(some, batch)
    tiny = 1e-9 * values.max()
    assert uncertainty == pytest.approx(np.std(values, ddof=0) / np.sqrt(len(some)), rel=1e-6, abs=tiny)
    assert jitter == pytest.approx(1.4826 * np.median(np.abs(values - np.median(values))), abs=tiny)


# One run


@given(runs_of_windows)
def test_a_runs_value_is_the_trimmed_mean_of_its_log_rates(run: Run) -> None:
    expected = scipy.stats.trim_mean(np.log(speeds(run.windows, run.examples_per_step)), 0.2)
    assert run_value(run).log_rate == pytest.approx(expected, abs=1e-9)


def yuen_error(values: np.ndarray) -> float:
    """Yuen 1974: the root of the winsorised squares over h (h - 1), h values kept; no autocorrelation."""
    kept = len(values) - 2 * int(0.2 * len(values))
    winsorised = np.asarray(scipy.stats.mstats.winsorize(values, limits=(0.2, 0.2)))
    return float(math.sqrt(((winsorised - winsorised.mean()) ** 2).sum() * (len(values)) / (len(values) - 1)) / kept)


@pytest.mark.parametrize("count", [3, 4, 5, 9, 20, 24, 29, 100])
def test_the_error_is_yuens_where_windows_do_not_resemble_their_neighbours(count: int) -> None:
    # Alternating signs: the autocorrelation is negative, and counted as none.
    rates = np.array([(-1) ** i * (1 + i % 7) / 100 for i in range(count)])
    found = run_value(run(np.exp(-rates).tolist(), examples_per_step=1))
    assert found.error == pytest.approx(yuen_error(rates))


def test_the_error_is_widened_for_windows_that_resemble_their_neighbours() -> None:
    rates = np.array([math.sin(i) / 100 for i in range(60)])
    low, high = np.sort(rates)[12], np.sort(rates)[-13]
    centred = np.clip(rates, low, high) - np.clip(rates, low, high).mean()
    r = min((centred[1:] * centred[:-1]).sum() / (centred**2).sum() + 1 / 60, 0.8)
    found = run_value(run(np.exp(-rates).tolist(), examples_per_step=1))
    assert found.error == pytest.approx(yuen_error(rates) * math.sqrt((1 + r) / (1 - r)))


def test_the_widening_has_a_limit() -> None:
    rates = np.array([i / 1000 for i in range(100)])  # a drift: autocorrelation near 1
    found = run_value(run(np.exp(-rates).tolist(), examples_per_step=1))
    assert found.error == pytest.approx(yuen_error(rates) * 3)


@pytest.mark.parametrize("fetches", [False, True])
@pytest.mark.parametrize("step_seconds", [[0.1], [0.1, 0.2]])
def test_one_or_two_windows_have_no_known_error(step_seconds: list[float], fetches: bool) -> None:
    assert run_value(run(step_seconds, fetches=fetches)).error == math.inf


@given(st.lists(seconds, min_size=5, max_size=40), st.data())
def test_a_burst_in_a_fifth_of_the_windows_moves_no_value_out_of_the_rest(
    step_seconds: list[float], data: st.DataObject
) -> None:
    spoiled = data.draw(st.sets(st.integers(0, len(step_seconds) - 1), max_size=len(step_seconds) // 5))
    rest = [-math.log(s) for i, s in enumerate(step_seconds) if i not in spoiled]
    burst = [s * (1e6 if i in spoiled else 1) for i, s in enumerate(step_seconds)]
    value = run_value(run(burst, examples_per_step=1)).log_rate
    assert min(rest) - 1e-9 <= value <= max(rest) + 1e-9


# Steps that fetch their batches: what a stall costs, and the batches that lay ready after it, belong together


@given(windows)
def test_where_batches_are_fetched_a_run_is_all_images_over_all_seconds(some: list[Window]) -> None:
    run = Run(windows=tuple(some), examples_per_step=64, fetches=True)
    total = 64 * sum(w.steps for w in some) / sum(w.seconds for w in some)
    assert run_value(run).examples_per_sec == pytest.approx(total)


def test_a_loader_that_gives_a_file_at_once_is_read_at_its_own_rate() -> None:
    file = [Window(1, 0.001)] * 9 + [Window(1, 1.0)]
    run = Run(windows=tuple(file * 3), examples_per_step=1, fetches=True)
    assert run_value(run).examples_per_sec == pytest.approx(10, rel=0.01)


def test_the_error_of_a_total_is_that_of_the_mean_step() -> None:
    rng = np.random.default_rng(5)
    seconds = 0.1 * rng.normal(1, 0.05, 400).clip(0.5)
    run = Run(windows=tuple(Window(2, s) for s in seconds), examples_per_step=1, fetches=True)
    assert run_value(run).error == pytest.approx(seconds.std(ddof=1) / 20 / seconds.mean(), rel=0.1)


def test_a_logs_own_total_is_its_value_and_the_error_that_of_its_windows() -> None:
    stated = run_value(run([0.1, 0.2, 0.3], stated_examples_per_sec=56.57))
    assert stated.examples_per_sec == pytest.approx(56.57)
    assert stated.error == run_value(run([0.1, 0.2, 0.3])).error


@given(runs_of_windows, st.floats(0.5, 4))
def test_times_scaled_scale_the_rate_and_leave_the_relative_error_alone(run: Run, factor: float) -> None:
    scaled = Run(tuple(Window(w.steps, w.seconds * factor) for w in run.windows), run.examples_per_step)
    assert of(scaled).examples_per_sec == pytest.approx(of(run).examples_per_sec / factor)
    assert run_value(scaled).error == pytest.approx(run_value(run).error, abs=1e-7)


@given(st.lists(seconds, min_size=1, max_size=40))
def test_warm_up_counts_for_nothing(step_seconds: list[float]) -> None:
    warm = run(step_seconds, warmup=(Window(10, 1e6, loss=9.0),))
    assert of(warm) == of(run(step_seconds))


# Several runs


@given(log_rates)
def test_the_middle_of_runs_is_the_median_of_all_pairs_means(values: list[float]) -> None:
    pairs = np.add.outer(values, values)[np.triu_indices(len(values))] / 2
    assert hodges_lehmann(values) == pytest.approx(np.median(pairs))


@given(st.lists(st.floats(6, 7), min_size=4, max_size=4), st.floats(-1e6, 1e6))
def test_one_run_of_five_does_not_move_the_middle_out_of_the_others(others: list[float], wild: float) -> None:
    assert min(others) <= hodges_lehmann([*others, wild]) <= max(others)


def test_runs_are_summarised_by_their_middle() -> None:
    assert of(run([0.1, 0.2, 0.4])).examples_per_sec == pytest.approx(run_value(run([0.1, 0.2, 0.4])).examples_per_sec)
    one, two, three = (run([s] * 5) for s in (0.1, 0.2, 0.4))
    logs = [math.log(64 / s) for s in (0.1, 0.2, 0.4)]
    assert of(one, two, three).examples_per_sec == pytest.approx(math.exp(hodges_lehmann(logs)))


def test_one_runs_interval_is_students_over_the_windows_that_are_kept() -> None:
    one = run([0.1, 0.11, 0.1, 0.12, 0.1, 0.11, 0.1, 0.13])
    half = scipy.stats.t.ppf(0.975, 8 - 2 * 1 - 1) * run_value(one).error
    assert math.log(of(one).high / of(one).examples_per_sec) == pytest.approx(half)


def test_several_runs_interval_covers_what_differs_between_them() -> None:
    logs = [7.0, 7.01, 7.03]
    found = of(*(run([math.exp(-v)] * 5, examples_per_step=1) for v in logs))
    half = scipy.stats.t.ppf(0.975, 2) * statistics.stdev(logs) / math.sqrt(3)
    assert math.log(found.examples_per_sec / found.low) == pytest.approx(half)


def test_several_runs_interval_is_never_below_what_their_windows_show() -> None:
    one = run([0.1, 0.2, 0.1, 0.2, 0.1, 0.2])
    two = of(one, one)  # equal runs: nothing differs between them
    half = scipy.stats.t.ppf(0.975, 2 * (6 - 2 - 1)) * run_value(one).error / math.sqrt(2)
    assert math.log(two.high / two.examples_per_sec) == pytest.approx(half)


@given(st.lists(st.lists(seconds, min_size=1, max_size=10), min_size=1, max_size=4))
def test_the_value_lies_in_its_interval(runs: list[list[float]]) -> None:
    found = of(*(run([s + 1 for s in each]) for each in runs))
    assert found.low <= found.examples_per_sec <= found.high


def test_one_run_of_one_window_has_no_interval_and_two_have() -> None:
    found = of(run([0.1]))
    assert (found.low, found.high) == (0, math.inf)
    assert math.isfinite(of(run([0.1]), run([0.11])).high)


def test_the_interval_of_white_noise_holds_the_truth_19_times_in_20() -> None:
    draw = random.Random(1).gauss
    found = [of(run([math.exp(draw(0, 0.03)) for _ in range(24)], examples_per_step=1)) for _ in range(600)]
    assert 0.93 <= sum(t.low <= 1 <= t.high for t in found) / 600 <= 0.98


def test_steps_and_windows_are_of_all_runs_compiling_of_the_first_and_the_loss_of_the_last_window() -> None:
    first = Run((Window(3, 1.0, 7.5), Window(4, 1.0, 7.25)), 1, compile_seconds=9.0)
    found = of(first, Run((Window(5, 1.0, 7.0),), 1, compile_seconds=1.0))
    assert (found.steps, found.windows, found.compile_seconds, found.loss) == (12, 3, 9.0, 7.0)


@pytest.mark.parametrize(
    ("warmup", "timed", "spot"),
    [
        ([1.0, math.nan], [math.nan], DivergedAt(run=1, window=0, step=10)),
        ([1.0, 1.0], [1.0, math.inf, math.nan], DivergedAt(run=1, window=2, step=20)),
        ([1.0], [1.0, 1.0], None),
        ([], [None, math.nan], DivergedAt(run=1, window=2, step=10)),
    ],
    ids=["warm-up", "timed", "never", "a log"],
)
def test_where_a_loss_stopped_to_be_a_number_is_known(
    warmup: list[float], timed: list[float], spot: DivergedAt | None
) -> None:
    windows = [tuple(Window(5, 0.1, loss) for loss in losses) for losses in (timed, warmup)]
    assert of(Run(windows[0], 64, windows[1])).diverged == spot


def test_where_a_loss_stopped_to_be_a_number_is_known_over_several_runs() -> None:
    fine, lost = (Run((Window(5, 0.1, loss),), 64) for loss in (1.0, math.nan))
    assert summarise((fine, lost, fine)).diverged == DivergedAt(run=2, window=1, step=5)


def test_a_loss_that_is_no_number_is_not_mended_by_later_ones() -> None:
    assert math.isnan(worst_loss([1.0, math.nan, 2.0]) or 0.0)
    assert worst_loss([1.0, None, 2.0, None]) == 2.0
    assert worst_loss([None]) is None
