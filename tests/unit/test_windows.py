from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.bench.windows import LEAST_WINDOWS, SMOKE, Plan, run_attempt, window_steps
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.errors import MeasurementError, WorkloadError


class ScriptedRun:
    """A worker whose steps take what the script says; notes how many windows were queued at each answer."""

    images_per_step = 64
    compile_seconds = 9.0
    fetches = False
    environment: Mapping[str, str] = {"tensorflow": "2.21.0"}
    log = "worker.log"

    def __init__(self, step_seconds: Callable[[int], float] | float, dies_after: int = 10**9) -> None:
        self._step_seconds = step_seconds if callable(step_seconds) else lambda _: step_seconds
        self._asked: deque[int] = deque()
        self._dies_after = dies_after
        self.steps = 0
        self.queued_at_answer: list[int] = []

    def request(self, steps: int) -> None:
        assert steps >= 1
        self._asked.append(steps)

    def receive(self) -> Window:
        if len(self.queued_at_answer) == self._dies_after:
            raise MeasurementError("the worker died")
        self.queued_at_answer.append(len(self._asked))
        steps = self._asked.popleft()
        seconds = sum(self._step_seconds(self.steps + i) for i in range(steps))
        self.steps += steps
        return Window(steps, seconds)

    def close(self) -> None:
        raise AssertionError("who started it closes it")


class Told:
    """A Watch that keeps what it is told."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.windows: list[Run] = []
        self.results: list[Run] = []

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def window(self, attempt: Run, plan: Plan) -> None:
        self.windows.append(attempt)

    def ended(self, attempt: Run) -> None:
        self.results.append(attempt)


def driven(step_seconds: Any = 0.01, *, enough: Any = lambda _: False, **plan: int) -> tuple[Run, ScriptedRun]:
    run = ScriptedRun(step_seconds)
    return run_attempt(run, Plan(**plan), Told(), enough), run


def asked_at(**plan: int) -> list[int]:
    """How many windows there were when `enough` was asked."""
    counts: list[int] = []
    driven(0.2, enough=lambda attempt: counts.append(len(attempt.windows)), **plan)
    return counts


plans = {"steps": st.integers(1, 400), "warmup_steps": st.integers(0, 60)}
paces = st.sampled_from([1e-6, 0.001, 0.004, 0.01, 0.149, 0.2, 3.0])


@given(step=paces, **plans)
def test_one_window_is_queued_ahead_of_every_answer_but_the_last(step: float, steps: int, warmup_steps: int) -> None:
    _, run = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert set(run.queued_at_answer[:-1]) == {2}


@given(step=paces, **plans)
def test_no_window_is_left_in_the_queue_at_the_plans_end(step: float, steps: int, warmup_steps: int) -> None:
    _, run = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert run.queued_at_answer[-1] == 1


@given(step=paces, **plans)
def test_the_warm_up_has_at_least_the_steps_that_were_asked_for(step: float, steps: int, warmup_steps: int) -> None:
    attempt, _ = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert sum(w.steps for w in attempt.warmup) >= max(warmup_steps, 1)


@given(step=paces, **plans)
def test_every_step_is_either_warm_up_or_timed(step: float, steps: int, warmup_steps: int) -> None:
    attempt, run = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert sum(w.steps for w in attempt.warmup + attempt.windows) == run.steps


def test_the_warm_up_comes_first() -> None:
    attempt, _ = driven(lambda step: 1.0 + step, steps=5, warmup_steps=3)
    assert attempt.windows[0].seconds == 1.0 + sum(w.steps for w in attempt.warmup)


@given(step=paces, **plans)
def test_no_more_steps_are_timed_than_planned(step: float, steps: int, warmup_steps: int) -> None:
    attempt, _ = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert 1 <= sum(w.steps for w in attempt.windows) <= steps


@given(step=paces, **plans)
def test_fewer_steps_than_a_window_are_left_over(step: float, steps: int, warmup_steps: int) -> None:
    attempt, _ = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert steps - sum(w.steps for w in attempt.windows) < attempt.windows[0].steps


@given(step=paces, **plans)
def test_there_are_twenty_windows_where_the_steps_allow(step: float, steps: int, warmup_steps: int) -> None:
    attempt, _ = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert len(attempt.windows) >= min(LEAST_WINDOWS, steps)


@given(step=paces, **plans)
def test_all_timed_windows_have_one_size(step: float, steps: int, warmup_steps: int) -> None:
    attempt, _ = driven(step, steps=steps, warmup_steps=warmup_steps)
    assert len({w.steps for w in attempt.windows}) == 1


@given(step=paces, **plans)
def test_the_last_warm_up_window_has_the_size_that_is_timed(step: float, steps: int, warmup_steps: int) -> None:
    attempt, _ = driven(step, steps=steps, warmup_steps=max(warmup_steps, 2))
    assert attempt.warmup[-1].steps == attempt.windows[0].steps


@pytest.mark.parametrize(("step_seconds", "steps"), [(0.3, 1), (0.15, 1), (0.05, 3), (0.01, 15), (0.001, 150)])
def test_a_window_lasts_about_a_seventh_of_a_second(step_seconds: float, steps: int) -> None:
    assert window_steps([Window(7, 7 * step_seconds)], Plan(steps=100_000)) == steps


def test_the_latest_warm_up_sizes_the_window() -> None:
    assert window_steps([Window(1, 5.0), Window(1, 0.05)], Plan(steps=100_000)) == 3


def test_few_steps_make_short_windows_rather_than_few() -> None:
    assert window_steps([Window(1, 0.001)], Plan(steps=100)) == 5


def test_the_smoke_run_times_one_step() -> None:
    attempt = run_attempt(ScriptedRun(0.01), SMOKE, Told())
    assert attempt.windows == (Window(1, 0.01),)


def test_enough_is_asked_from_twenty_windows_on_and_at_every_tenth() -> None:
    assert asked_at(steps=57) == [20, 30, 40, 50]


def test_fewer_than_twenty_windows_are_never_enough() -> None:
    assert asked_at(steps=19) == []


def test_a_run_stops_where_that_is_enough() -> None:
    attempt, _ = driven(0.2, enough=lambda attempt: len(attempt.windows) >= 30, steps=100)
    assert len(attempt.windows) == 30


def test_the_watch_is_told_of_the_phases() -> None:
    told = Told()
    run_attempt(ScriptedRun(0.1), Plan(steps=3), told)
    assert told.phases == ["warm-up", "steps"]


def test_the_watch_is_told_of_every_timed_window() -> None:
    told = Told()
    run_attempt(ScriptedRun(0.1), Plan(steps=3), told)
    assert [len(attempt.windows) for attempt in told.windows] == [1, 2, 3]


def test_an_attempt_says_what_it_ran_on() -> None:
    attempt, run = driven(0.1, steps=1)
    assert (attempt.images_per_step, attempt.compile_seconds, attempt.environment, attempt.log) == (
        run.images_per_step,
        run.compile_seconds,
        run.environment,
        run.log,
    )


@pytest.mark.parametrize("answers", [0, 1, 5, 30])
def test_a_worker_that_dies_ends_the_attempt(answers: int) -> None:
    with pytest.raises(MeasurementError, match="the worker died"):
        run_attempt(ScriptedRun(0.1, dies_after=answers), Plan(steps=100), Told())


@pytest.mark.parametrize("steps", [0, -1, 1.5, "10", None])
def test_a_plan_times_at_least_one_step(steps: Any) -> None:
    with pytest.raises(WorkloadError, match="at least one step must be timed"):
        Plan(steps=steps)


@pytest.mark.parametrize("steps", [-1, 1.5, "10", None])
def test_a_warm_up_is_a_number_of_steps(steps: Any) -> None:
    with pytest.raises(WorkloadError, match="a number of steps from 0"):
        Plan(warmup_steps=steps)


# Settling


def test_timing_ends_where_the_seconds_are_spent() -> None:
    attempt = run_attempt(ScriptedRun(0.5), Plan(steps=100, max_seconds=5), Told())
    assert len(attempt.windows) == 10


def test_long_windows_are_timed_until_their_error_is_known() -> None:
    attempt = run_attempt(ScriptedRun(2.0), Plan(steps=100, max_seconds=1), Told())
    assert len(attempt.windows) == 3


def test_a_slow_start_is_counted_as_warm_up() -> None:
    jitter = [0.0, 0.001, 0.002]
    attempt, _ = driven(lambda step: (0.4 if step < 12 else 0.2) + jitter[step % 3], steps=60, warmup_steps=2)
    assert max(w.seconds for w in attempt.windows) < 0.3


def test_a_slow_start_is_not_shown_to_whoever_asks_for_enough() -> None:
    jitter, slowest = [0.0, 0.001, 0.002], []
    driven(
        lambda step: (0.4 if step < 12 else 0.2) + jitter[step % 3],
        enough=lambda attempt: slowest.append(max(w.seconds for w in attempt.windows)),
        steps=60,
        warmup_steps=2,
    )
    assert slowest[-1] < 0.3


def test_a_steady_run_has_settled() -> None:
    attempt, _ = driven(0.2, steps=60)
    assert attempt.unsettled == ""


def test_a_run_that_drifts_has_not_settled() -> None:
    attempt, _ = driven(lambda step: 0.2 * 1.01**step, steps=100)
    assert "never settles" in attempt.unsettled
