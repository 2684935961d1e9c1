"""How one worker is driven: warm-up, the size and number of windows, the queue, when timing ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.bench.windows import MIN_WINDOWS, interleave, time_windows, window_steps, with_figures
from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.run import ONE_WINDOW, Plan, Run, Window
from pytest_tfperf.errors import MeasurementError, WorkloadError
from tests.helpers.played import Notes, PlayedRun


def driven(
    step_seconds: Callable[[int], float] | float = 0.01,
    *,
    enough: Any = lambda _: False,
    is_warm: Any = lambda: True,
    **plan: Any,
) -> tuple[Run, PlayedRun]:
    pace = step_seconds if callable(step_seconds) else lambda _: step_seconds
    worker = PlayedRun(step_seconds=pace)
    return time_windows(worker, Plan(**plan), Notes(), enough, is_warm), worker


plans = {"steps": st.integers(1, 400), "warmup_steps": st.integers(0, 60)}
paces = st.sampled_from([1e-6, 0.001, 0.004, 0.01, 0.149, 0.2, 3.0])


@given(step=paces, **plans)
def test_one_window_is_queued_ahead_of_every_answer_but_the_last(step: float, steps: int, warmup_steps: int) -> None:
    _, worker = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert (set(worker.queued_at_answer[:-1]), worker.queued_at_answer[-1]) == ({2}, 1)


@given(step=paces, **plans)
def test_the_warm_up_has_at_least_the_steps_that_were_asked_for(step: float, steps: int, warmup_steps: int) -> None:
    run, _ = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert sum(w.steps for w in run.warmup) >= max(warmup_steps, 1)


@given(step=paces, **plans)
def test_every_step_is_either_warm_up_or_timed(step: float, steps: int, warmup_steps: int) -> None:
    run, worker = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert sum(w.steps for w in run.warmup + run.windows) == worker.steps


@given(step=paces, **plans)
def test_the_planned_steps_are_timed_but_for_less_than_a_window(step: float, steps: int, warmup_steps: int) -> None:
    run, _ = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert 0 <= steps - sum(w.steps for w in run.windows) < run.windows[0].steps


@given(step=paces, **plans)
def test_there_are_twenty_windows_where_the_steps_allow(step: float, steps: int, warmup_steps: int) -> None:
    run, _ = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert len(run.windows) >= min(MIN_WINDOWS, steps)


@given(step=paces, **plans)
def test_timed_windows_have_the_size_of_the_last_warm_up(step: float, steps: int, warmup_steps: int) -> None:
    run, _ = driven(step, steps=steps, warmup_steps=max(warmup_steps, 2))
    assert {w.steps for w in run.windows} == {run.warmup[-1].steps}


@pytest.mark.parametrize(("step_seconds", "steps"), [(0.3, 1), (0.15, 1), (0.05, 3), (0.01, 15), (0.001, 150)])
def test_a_window_lasts_about_a_seventh_of_a_second(step_seconds: float, steps: int) -> None:
    assert window_steps([Window(7, 7 * step_seconds)], Plan(steps=100_000)) == steps


def test_the_warm_up_goes_on_until_the_devices_are_warm() -> None:
    warm = iter([False] * 7 + [True])
    run, _ = driven(0.01, steps=100, warmup_steps=10, is_warm=lambda: next(warm))
    cold, _ = driven(0.01, steps=100, warmup_steps=10)
    assert len(run.warmup) == len(cold.warmup) + 7
    assert len(run.windows) == len(cold.windows)


def test_a_smoke_run_times_one_step() -> None:
    run = time_windows(PlayedRun(step_seconds=lambda _: 0.01), ONE_WINDOW, Notes())
    assert [w.steps for w in run.windows] == [1]


@pytest.mark.parametrize(("steps", "asked"), [(19, []), (57, [20, 30, 40, 50])])
def test_enough_is_asked_every_ten_windows_from_twenty_on(steps: int, asked: list[int]) -> None:
    counts: list[int] = []
    driven(0.2, enough=lambda run: counts.append(len(run.windows)), steps=steps)
    assert counts == asked


def test_a_run_stops_when_enough_is_known() -> None:
    run, _ = driven(0.2, enough=lambda run: len(run.windows) >= 30, steps=100)
    assert len(run.windows) == 30


def test_the_observer_is_told_of_phases_and_windows() -> None:
    notes = Notes()
    time_windows(PlayedRun(step_seconds=lambda _: 0.1), Plan(steps=3), notes)
    assert (notes.phases, [len(run.windows) for run in notes.windows]) == (["warm-up", "steps"], [1, 2, 3])


@pytest.mark.parametrize("answers", [0, 1, 5, 30])
def test_a_worker_that_dies_ends_the_run(answers: int) -> None:
    worker = PlayedRun(step_seconds=lambda _: 0.1, dies_after=answers)
    with pytest.raises(MeasurementError, match="the worker died"):
        time_windows(worker, Plan(steps=100), Notes())


@pytest.mark.parametrize("steps", [0, -1, 1.5, "10", None])
def test_a_plan_times_at_least_one_step(steps: Any) -> None:
    with pytest.raises(WorkloadError, match="at least one step must be timed"):
        Plan(steps=steps)


@pytest.mark.parametrize("steps", [-1, 1.5, "10", None])
def test_a_warm_up_is_a_whole_number_of_steps(steps: Any) -> None:
    with pytest.raises(WorkloadError, match="a whole number of steps, 0 or more"):
        Plan(warmup_steps=steps)


@pytest.mark.parametrize(("step_seconds", "max_seconds", "windows"), [(0.5, 5, 10), (2.0, 1, 3)])
def test_timing_ends_with_the_seconds_but_not_before_three_windows(
    step_seconds: float, max_seconds: float, windows: int
) -> None:
    run, _ = driven(step_seconds, steps=100, max_seconds=max_seconds)
    assert (len(run.windows), run.ended_by_time) == (windows, True)


def test_a_run_of_all_its_steps_did_not_end_by_time() -> None:
    run, _ = driven(1.0, steps=5, max_seconds=5)
    assert (len(run.windows), run.ended_by_time) == (5, False)


@pytest.mark.parametrize(("most", "steps"), [(30.0, 5), (1.0, 1), (100.0, 10)])
def test_the_warm_up_ends_with_its_seconds(most: float, steps: int) -> None:
    run, _ = driven(6.0, steps=3, warmup_steps=10, max_warmup_seconds=most)
    assert sum(w.steps for w in run.warmup) == steps + 1  # the one that was queued ahead


def _slow_start(step: int) -> float:
    return (0.4 if step < 12 else 0.2) + [0.0, 0.001, 0.002][step % 3]


def test_a_slow_start_counts_as_warm_up() -> None:
    run, _ = driven(_slow_start, steps=60, warmup_steps=2)
    assert max(w.seconds for w in run.windows) < 0.3


def test_windows_are_not_tiny_where_all_steps_of_the_warm_up_were_slow() -> None:
    run, worker = driven(lambda step: 0.2 if step < 14 else 0.0001, steps=10**7, max_seconds=3.0)
    assert {round(window.seconds, 2) for window in run.windows} == {0.15}
    assert sum(window.steps for window in (*run.warmup, *run.windows)) == worker.steps


def test_a_slow_start_does_not_count_when_enough_is_asked() -> None:
    slowest: list[float] = []
    driven(
        _slow_start,
        enough=lambda run: slowest.append(max(w.seconds for w in run.windows)),
        steps=60,
        warmup_steps=2,
    )
    assert slowest[-1] < 0.3


def test_a_run_that_drifts_all_the_time_is_disturbed() -> None:
    run, _ = driven(lambda step: 0.2 * 1.01**step, steps=100)
    assert run.disturbance is not None
    assert run.disturbance.kind is DisturbanceKind.NOT_STEADY


class OfSteps(PlayedRun):
    """A worker whose loss is the number of the step that a window ends with; its start took step 1."""

    def receive(self) -> Window:
        return replace(super().receive(), loss=None if self.steps == 60 else self.steps + 1.0)


def with_loss(*figures: Figure, step_seconds: float = 0.01) -> Run:
    plan, worker = Plan(steps=20, also=figures), OfSteps(step_seconds=lambda _: step_seconds)
    return with_figures(time_windows(worker, plan, Notes()), worker, plan)


@pytest.mark.parametrize("step_seconds", [1e-6, 0.01, 1.0])
@pytest.mark.parametrize("steps", [(2, 3), (5, 8), (9, 40)])
def test_the_mean_loss_over_steps_has_each_of_them_once_however_fast_they_are(
    step_seconds: float, steps: tuple[int, int]
) -> None:
    also = Figure("loss", steps=steps), Figure("compilations")
    run = with_loss(*also, step_seconds=step_seconds)
    assert run.figures["loss"] == sum(steps) / 2
    assert run.figure_places["loss"] == f"over steps {steps[0]} to {steps[1]}"


def test_the_loss_of_step_10_does_not_depend_on_the_pace() -> None:
    assert [with_loss(Figure("loss"), step_seconds=pace).figures for pace in (1e-6, 1.0)] == [{"loss": 10.0}] * 2


def test_a_loss_that_a_step_lacks_is_not_left_out_of_a_mean() -> None:
    assert with_loss(Figure("loss", steps=(50, 70))).figures == {}


def test_the_single_steps_of_a_mean_loss_do_not_size_the_windows_of_a_pair() -> None:
    """Each has the cost of a call, and the loss is fetched."""
    plan = Plan(steps=200, warmup_steps=0, also=(Figure("loss", steps=(5, 30)),))
    sides = [PlayedRun(step_seconds=lambda step: 0.1 if step < 29 else 0.01) for _ in range(2)]
    pair = interleave(*sides, plan, lambda _: None)
    assert {window.steps for window in pair.a.windows} == {10}


@pytest.mark.parametrize("figure", [Figure("x", counts="x", at_step=200), Figure("x", field="x", steps=(20, 200))])
def test_the_warm_up_goes_on_until_what_is_printed_up_to_a_step_is_there(figure: Figure) -> None:
    run, worker = driven(0.01, steps=20, also=(figure,), max_warmup_seconds=1)
    ends = list(accumulate((window.steps for window in run.warmup), initial=1))
    assert 200 in ends
    assert worker.queued_at_answer[ends.index(200) - 1] == 1, "it waits at this step"


def test_interleaved_sides_have_the_mean_loss_of_their_own_steps() -> None:
    plan = Plan(steps=20, also=(Figure("loss", steps=(9, 20)),))
    sides = [OfSteps(step_seconds=lambda _: 0.01) for _ in range(2)]
    pair = interleave(*sides, plan, lambda _: None)
    assert [with_figures(run, side, plan).figures for run, side in zip((pair.a, pair.b), sides, strict=True)] == [
        {"loss": 14.5}
    ] * 2
