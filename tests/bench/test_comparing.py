"""Interleaved comparisons, with workers that play a script."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_tfperf.bench.comparing import OtherSide, State, compare
from pytest_tfperf.bench.disturbance_guard import TRIES
from pytest_tfperf.bench.pairs import PairSource
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.bench.windows import WINDOWS_PER_SIDE, can_interleave_windows, interleave, pair_of_runs
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.measurement import Interleaving, Measurement
from pytest_tfperf.core.profile import Bound, Input, OpTime, Profile, StepProfile, Trace
from pytest_tfperf.core.run import Pair, Plan, Run, Window
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import (
    DeviceFailed,
    FailsHereOnly,
    MeasurementError,
    UserCodeFailed,
    WorkloadError,
)
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.reports.invalid import disturbance_fact
from pytest_tfperf.reports.verdict import why_of
from tests.helpers.played import BOX, BUSY, PLAN, TRIVIAL, Machine, Notes, PlayedGuard, PlayedLauncher, PlayedRun
from tests.helpers.played_session import PlayedPrograms

HOST = TRIVIAL.with_(input_pipeline="host")
ALMOST = (100.0, 100.1, 99.9)  # images/s of fresh workers that differ a little


def sides(
    a: tuple[float, ...] = ALMOST,
    b: tuple[float, ...] = ALMOST,
    *,
    workload: Workload = TRIVIAL,
    room: int = 2,
    **more: Any,
) -> tuple[PlayedLauncher, PlayedLauncher]:
    machine = Machine(room)
    return tuple(  # type: ignore[return-value]
        PlayedLauncher(tuple(itertools.islice(itertools.cycle(rates), 30)), name, machine, **more)
        for name, rates in (("a", a), ("b", b))
    )


def compared(
    a: PlayedLauncher,
    b: PlayedLauncher,
    workload: Workload = TRIVIAL,
    *disturbances: Disturbance | None,
    judged: bool = True,
    slowdown: float = 0.0,
    also: tuple[str, ...] = (),
    is_of_commits: bool = False,
    **terms: Any,
) -> Measurement:
    engine = RunEngine(Notes(), PlayedGuard(list(disturbances)))
    left = Side(workload=workload, topology=BOX, launcher=a)
    right = Side(workload=workload, topology=BOX, launcher=b, slowdown=slowdown)
    plan = replace(PLAN, also=tuple(map(Figure, also)))
    commits = OtherSide(a=State(title="a"), b=State(title="b"), announcement=(), may_lack_code=True)
    return compare(engine, left, right, plan, Terms(**terms), other=commits if is_of_commits else None, judged=judged)


def width(found: Measurement) -> float:
    """The upper end of the ratio's interval over its lower end."""
    low, high = found.ratio_interval
    return high / low


# One pair


PLANNED = Plan(steps=100, warmup_steps=10)


def interleaved(a: PlayedRun, b: PlayedRun, plan: Plan = PLANNED, **more: bool) -> Pair:
    return interleave(a, b, plan, lambda _: None, **more)


def workers(a: float = 0.01, b: float = 0.01) -> tuple[PlayedRun, PlayedRun]:
    diary: list[str] = []
    return (
        PlayedRun(step_seconds=lambda _: a, name="a", diary=diary),
        PlayedRun(step_seconds=lambda _: b, name="b", diary=diary),
    )


@pytest.mark.parametrize(("b_first", "order"), [(False, "abba"), (True, "baab")])
def test_the_order_of_the_windows_is_swapped_each_time(b_first: bool, order: str) -> None:
    a, b = workers()
    interleaved(a, b, b_first=b_first)
    assert "".join(a.diary)[-2 * WINDOWS_PER_SIDE :] == order * (WINDOWS_PER_SIDE // 2)


def test_one_side_is_held_while_the_other_takes_its_windows() -> None:
    a, b = workers()
    held: list[bool] = []  # the other side, at each step
    a.step_seconds = lambda _: held.append(b.is_held) or 0.01  # type: ignore[func-returns-value]
    b.step_seconds = lambda _: held.append(a.is_held) or 0.01  # type: ignore[func-returns-value]
    pair = interleaved(a, b)
    before_b = sum(window.steps for window in pair.a.warmup)
    assert held == [False] * before_b + [True] * (len(held) - before_b)


def test_no_window_is_queued_ahead() -> None:
    a, b = workers()
    interleaved(a, b)
    assert {*a.queued_at_answer, *b.queued_at_answer} == {1}


def test_both_sides_are_warmed_up() -> None:
    pair = interleaved(*workers())
    assert all(sum(w.steps for w in run.warmup) >= 10 for run in (pair.a, pair.b))


def test_each_worker_keeps_to_the_plans_steps() -> None:
    pair = interleaved(*workers(0.0001, 0.03))
    assert all(sum(w.steps for w in run.windows) <= 100 for run in (pair.a, pair.b))


@pytest.mark.parametrize(
    ("plan", "windows"), [(Plan(steps=100, warmup_steps=1, max_seconds=0.5), 5), (Plan(steps=1, warmup_steps=0), 1)]
)
def test_a_pair_ends_with_the_plans_seconds_or_steps(plan: Plan, windows: int) -> None:
    pair = interleaved(*workers(0.1, 0.1), plan)
    assert (len(pair.a.windows), len(pair.b.windows)) == (windows, windows)


@pytest.mark.parametrize("b_first", [False, True])
def test_the_ratio_is_the_throughput_of_b_over_that_of_a(b_first: bool) -> None:
    assert math.exp(interleaved(*workers(0.01, 0.02), b_first=b_first).log_ratio) == pytest.approx(0.5)


def test_drift_that_both_sides_share_cancels() -> None:
    clock = itertools.count()
    a, b = (PlayedRun(step_seconds=lambda _: 0.01 * (1 + next(clock) / 1000)) for _ in "ab")
    assert interleaved(a, b).log_ratio == pytest.approx(0, abs=1e-3)


def test_a_burst_in_a_few_windows_of_one_side_is_trimmed_away() -> None:
    a, _ = workers()
    b = PlayedRun(step_seconds=lambda step: 0.1 if 50 <= step < 55 else 0.01)
    assert interleaved(a, b).log_ratio == pytest.approx(0, abs=1e-9)


def test_alternating_runs_give_the_same_ratio() -> None:
    a, b = (Run(windows=(Window(1, s),) * 20, examples_per_step=1) for s in (0.01, 0.02))
    assert math.exp(pair_of_runs(a, b).log_ratio) == pytest.approx(0.5)


def test_windows_are_not_interleaved_on_a_split_gpu_whose_memory_the_first_worker_takes() -> None:
    split = replace(BOX, devices=Devices(kind=DeviceKind.GPU, count=2, gpu_uuids=("GPU-1",), split=True))
    a, b = (Side(workload=TRIVIAL, topology=split, launcher=launcher) for launcher in sides())
    source = PairSource(RunEngine(Notes(), PlayedGuard()), a, b, PLAN)
    assert source.interleaving is Interleaving.RUNS


@pytest.mark.parametrize(
    ("workload", "possible"), [(TRIVIAL, True), (HOST, False), (TRIVIAL.with_(input_pipeline="nets:own"), False)]
)
def test_windows_are_interleaved_only_where_a_waiting_worker_computes_nothing(
    workload: Workload, possible: bool
) -> None:
    assert can_interleave_windows(TRIVIAL, workload) is possible


# A comparison


def test_each_pair_is_of_fresh_workers_that_run_side_by_side() -> None:
    a, b = sides()
    found = compared(a, b)
    assert (found.other.interleaving, a.machine.most_alive, a.machine.alive) == (Interleaving.WINDOWS, 2, [])
    assert a.started == b.started == len(found.pairs)


def test_runs_alternate_where_a_pipeline_works_on_the_host() -> None:
    a, b = sides()
    found = compared(a, b, HOST)
    starts = "".join(entry.removeprefix("start ") for entry in a.machine.diary if entry.startswith("start"))
    assert (found.other.interleaving, a.machine.most_alive, starts[:4]) == (Interleaving.RUNS, 1, "abba")


def test_runs_alternate_where_two_workers_do_not_fit() -> None:
    found = compared(*sides(room=1))
    assert found.other.interleaving is Interleaving.RUNS
    assert "both at once failed" in found.other.fallback
    assert "its log" not in found.other.fallback


def test_runs_alternate_where_two_workers_leave_too_little_memory_for_the_fastest_algorithms(tmp_path: Path) -> None:
    """The text is TensorFlow 2.21's."""
    log = tmp_path / "worker.log"
    log.write_text(
        "W0000 bfc_allocator.cc:310] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.20GiB. The caller "
        "indicates that this is not a failure, but this may mean that there could be performance gains if more memory "
        "were available.\n"
    )
    a, b = sides()
    b.log = str(log)
    found = compared(a, b)
    assert found.other.interleaving is Interleaving.RUNS
    assert "too little memory" in found.other.fallback


def test_a_worker_that_cannot_start_alone_either_is_an_error_with_workload_and_devices() -> None:
    with pytest.raises(MeasurementError) as caught:
        compared(*sides(room=0))
    assert str(caught.value).startswith(f"{TRIVIAL.id} on 1 of 1 cores of a CPU: the worker raised Resource")


def test_a_failure_in_a_later_pair_is_named_too() -> None:
    a, b = sides()
    b.script = (100.0, MeasurementError("the worker died"))
    with pytest.raises(MeasurementError, match=f"^{TRIVIAL.id} on 1 of 1 cores of a CPU: the worker died"):
        compared(a, b)


@pytest.mark.parametrize("is_of_commits", [True, False])
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (UserCodeFailed("shapes do not fit"), FailsHereOnly),
        (DeviceFailed("CUDA_ERROR_LAUNCH_FAILED"), DeviceFailed),
    ],
    ids=["code", "GPU"],
)
def test_a_side_whose_gpu_fails_is_not_to_blame(
    fault: MeasurementError, kind: type[Exception], is_of_commits: bool
) -> None:
    a, b = sides()
    b.script = (fault,)
    with pytest.raises(MeasurementError, match=fault.fact) as caught:
        compared(a, b, HOST, is_of_commits=is_of_commits)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("b", "outcome"),
    [((100.0, 100.1), Outcome.PASS), ((91.0, 91.1), Outcome.REGRESSED), ((110.0, 110.1), Outcome.IMPROVED)],
)
def test_the_ratio_decides(b: tuple[float, ...], outcome: Outcome) -> None:
    assert compared(*sides(b=b)).outcome is outcome


class RestlessLauncher(PlayedLauncher):
    """Its workers' steps differ much, but their runs do not."""

    def start(self, job: Job, progress: Callable[[str], None]) -> PlayedRun:
        run = super().start(job, progress)
        seconds = run.step_seconds(0)
        return replace(run, step_seconds=lambda step: seconds * (1 + random.Random(step).random()))


def test_restless_windows_make_a_comparison_less_sure() -> None:
    calm = compared(*sides(), max_seconds=1e-9)
    a, b = sides()
    restless = compared(a, RestlessLauncher(b.script, b.name, b.machine), max_seconds=1e-9)
    assert width(restless) > 1.02 * width(calm)


@pytest.mark.parametrize("workload", [TRIVIAL, HOST])
def test_both_sides_have_a_breakdown_without_further_workers(workload: Workload) -> None:
    a, b = sides()
    found = compared(a, b, workload)
    assert [side.breakdown and side.breakdown.bound for side in (found.other, found)] == [Bound.COMPUTE] * 2
    assert a.started == b.started == len(found.pairs)


def test_a_slower_b_that_fetches_is_followed_by_one_run_on_device_data() -> None:
    a, b = sides(b=(91.0, 91.1))
    b.profile = StepProfile(input=Input.FETCHED, pipeline_examples_per_sec=100.0)
    compared(a, b, HOST)
    assert [job.workload.input_pipeline for job in b.jobs] == [*["host"] * 6, "device"]


def test_a_required_ratio_that_is_missed_is_not_explained_as_a_slowdown() -> None:
    a, b = sides((50.0, 50.1))
    b.profile = StepProfile(input=Input.FETCHED, pipeline_examples_per_sec=1000.0)
    found = compared(a, b, HOST, at_least=4.0)
    assert (found.outcome, b.started) == (Outcome.REGRESSED, len(found.pairs))
    assert found.breakdown is not None
    assert found.breakdown.slower is None


# What grew in a program


def of_programs(
    b: tuple[float, ...] = (80.0, 80.1), engine: type[PlayedPrograms] = PlayedPrograms, **terms: float
) -> tuple[Measurement, int]:
    """A comparison with a faster program, and how many runs of each it took after those of its pairs."""
    left, right = (
        Side(workload=Command(["train.py"], name=launcher.name), topology=BOX, launcher=launcher)
        for launcher in sides(b=b)
    )
    found = compare(engine(Notes(), PlayedGuard()), left, right, PLAN, Terms(**terms))
    return found, right.launcher.started - len(found.pairs)  # type: ignore[attr-defined]


def test_a_program_that_is_slower_is_profiled_in_one_more_run_of_each() -> None:
    found, more = of_programs()
    assert (found.outcome, more) == (Outcome.REGRESSED, 1)
    assert found.profile is not None
    assert (found.profile.steps, found.profile.fault) == (10, "")
    assert [growth.name for growth in found.profile.grown] == ["block/conv"]


def test_a_program_that_is_as_fast_is_not_profiled() -> None:
    found, more = of_programs(ALMOST)
    assert (found.outcome, found.profile, more) == (Outcome.PASS, None, 0)


def test_a_program_of_a_framework_without_a_known_profiler_is_not_run_again() -> None:
    class Others(PlayedPrograms):
        environment: ClassVar = {"tensorflow": "2.21.0"}

    found, more = of_programs(engine=Others)
    assert (found.outcome, found.profile, more) == (Outcome.REGRESSED, None, 0)


def test_a_profiler_that_fails_changes_no_verdict() -> None:
    class Failing(PlayedPrograms):
        def trace_of(self, run: PlayedRun, steps: int) -> Trace:
            raise MeasurementError("the program took no step for 1 min")

    found, _ = of_programs(engine=Failing)
    assert found.outcome is Outcome.REGRESSED
    assert found.profile == Profile(fault="the program took no step for 1 min")


class Alike(PlayedPrograms):
    """Side b's operation takes hardly longer."""

    counts: ClassVar = {"a": 60.0, "b": 60.0}

    def trace_of(self, run: PlayedRun, steps: int) -> Trace:
        seconds = 0.00101 if run.name == "b" else 0.001
        op = OpTime(name="aten::mm", type="aten::mm", seconds=seconds, count=self.counts[run.name])
        return Trace(host="", steps=steps, ops=(op,))


def test_operations_that_explain_none_of_the_loss_are_not_named() -> None:
    found, _ = of_programs(engine=Alike)
    assert found.profile is not None
    assert (found.profile.grown, found.profile.fault[:38]) == ((), "no operation of the framework grew: lo")


def test_an_operation_that_runs_more_often_is_named_though_noise_hides_its_time() -> None:
    class More(Alike):
        counts: ClassVar = {"a": 60.0, "b": 63.0}

    found, _ = of_programs(engine=More)
    assert found.profile is not None
    assert [(growth.name, growth.before_count, growth.count) for growth in found.profile.grown] == [
        ("aten::mm", 60.0, 63.0)
    ]


def test_a_loss_that_is_not_finite_is_invalid() -> None:
    found = compared(*sides(loss=math.nan))
    assert (found.outcome, why_of(found).startswith("INVALID: a's loss")) == (Outcome.INVALID, True)


def test_a_loss_that_is_not_finite_on_side_b_alone_fails_b_without_a_ratio() -> None:
    a, b = sides()
    b.loss = math.nan
    found = compared(a, b)
    assert (found.outcome, len(found.pairs), found.is_valid) == (Outcome.REGRESSED, 2, False)
    assert why_of(found).startswith("REGRESSED: b's loss became NaN")


def test_a_workload_that_counts_another_unit_on_side_b_fails_b() -> None:
    a, b = sides()
    b.unit = "tokens"
    with pytest.raises(FailsHereOnly, match="side b counts tokens, and a images"):
        compared(a, b)


def test_a_comparison_that_is_not_judged_takes_one_pair_and_has_no_outcome() -> None:
    found = compared(*sides(), judged=False)
    assert (found.outcome, len(found.pairs)) == (None, 1)


def test_an_injected_slowdown_is_that_of_its_own_side() -> None:
    a, b = sides()
    compared(a, b, slowdown=0.5)
    assert ({job.slowdown for job in a.jobs}, {job.slowdown for job in b.jobs}) == ({0.0}, {0.5})


def test_an_unknown_model_is_refused_before_anything_starts() -> None:
    a, b = sides()
    with pytest.raises(WorkloadError, match="unknown model"):
        compared(a, b, TRIVIAL.with_(model="resnet5"))
    assert a.machine.diary == []


# Disturbed pairs


NOT_STEADY = Disturbance(DisturbanceKind.NOT_STEADY, -0.4)
ONLY_B = [None, BUSY, BUSY, None]
"""The runs of two pairs, the second of which begins with b."""


@pytest.mark.parametrize(("b", "outcome"), [(ALMOST, Outcome.PASS), ((70.0, 70.1), Outcome.REGRESSED)])
@pytest.mark.parametrize("workload", [TRIVIAL, HOST], ids=["interleaved windows", "alternating runs"])
def test_a_machine_that_is_as_busy_for_both_sides_discards_no_pair(
    workload: Workload, b: tuple[float, ...], outcome: Outcome
) -> None:
    found = compared(*sides(b=b), workload, *[BUSY] * 40)
    assert (found.outcome, found.discarded_pairs) == (outcome, ())
    assert {pair.disturbance for pair in found.pairs} == {BUSY}


def test_a_pair_with_one_disturbed_side_is_measured_again_and_counts_for_nothing() -> None:
    undisturbed, disturbed = compared(*sides(), HOST), compared(*sides(), HOST, None, BUSY)
    assert disturbed.outcome is Outcome.PASS
    assert len(disturbed.pairs) == len(undisturbed.pairs)
    assert [pair.disturbance for pair in disturbed.discarded_pairs] == [BUSY]


def test_where_one_side_is_disturbed_in_each_try_the_last_resort_counts() -> None:
    found = compared(*sides(), HOST, *ONLY_B, None, BUSY)
    assert found.outcome is Outcome.PASS
    assert [pair.is_even for pair in found.pairs][:2] == [False, True]
    assert len(found.discarded_pairs) == TRIES - 1


def test_what_only_one_side_lost_to_other_work_is_no_regression() -> None:
    """The same figures are one where nothing disturbed them."""
    b = (70.0, 70.1)
    found = compared(*sides(b=b), HOST, *ONLY_B * 40)
    assert compared(*sides(b=b), HOST).outcome is Outcome.REGRESSED
    assert found.outcome is Outcome.INCONCLUSIVE


def test_runs_that_never_settle_by_themselves_make_the_comparison_invalid() -> None:
    found = compared(*sides(), HOST, *[NOT_STEADY] * 2 * TRIES)
    assert (found.outcome, why_of(found)) == (Outcome.INVALID, f"INVALID: {disturbance_fact(NOT_STEADY)}")
