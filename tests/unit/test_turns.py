"""Taking turns, with workers that are played from a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from workers import PlayedRun

from pytest_tfperf.bench import comparing as compare_module
from pytest_tfperf.bench import windows
from pytest_tfperf.bench.comparing import Cap, Side, compare
from pytest_tfperf.bench.disturbance import Seen
from pytest_tfperf.bench.interleaved import TURNS, may_take_turns, pair_of_runs, take_turns
from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.breakdown import Bound, Breakdown
from pytest_tfperf.core.comparison import How
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, TfperfError, WorkloadError
from pytest_tfperf.reports.comparisons import message
from pytest_tfperf.workers.launcher import Job, Progress

PLAN = Plan(steps=100, warmup_steps=10)
DEVICE = Workload(model="trivial", batch_size=1)
HOST = Workload(model="trivial", batch_size=1, input_pipeline="host")
TOPOLOGY = Topology(
    host=Host(cpu_model="a CPU", usable_cores=1, total_cores=1), devices=Devices(kind=DeviceKind.CPU, count=1)
)


@dataclass
class Machine:
    """What all workers share: what happened in which order, and who has a window queued."""

    diary: list[str] = field(default_factory=list)
    queued: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    most_queued: int = 0
    most_alive: int = 0


@dataclass
class ScriptedRun(PlayedRun):
    """A worker whose steps take what the script says; `paces` is asked for seconds a step before each window."""

    machine: Machine
    name: str
    paces: Iterator[float]
    loss: float = 1.0

    def request(self, steps: int) -> None:
        super().request(steps)
        self.machine.queued.append(self.name)
        self.machine.most_queued = max(self.machine.most_queued, len(self.machine.queued))

    def receive(self) -> Window:
        steps = self.asked.pop(0)
        self.machine.queued.remove(self.name)
        self.machine.diary.append(self.name)
        return Window(steps=steps, seconds=steps * next(self.paces), loss=self.loss)

    def close(self) -> None:
        self.machine.alive.remove(self.name)


@dataclass
class ScriptedLauncher:
    """Makes scripted runs; with `room` for so many at once."""

    machine: Machine
    name: str
    pace: Callable[[int], float]
    room: int = 2
    loss: float = 1.0
    jobs: list[Job] = field(default_factory=list)
    parts: StepProfile = field(default_factory=lambda: StepProfile(input=Input.RESIDENT))

    def start(self, job: Job, progress: Progress) -> ScriptedRun:
        if len(self.machine.alive) >= self.room:
            raise MeasurementError("the worker raised ResourceExhaustedError\nits log")
        self.jobs.append(job)
        pace = self.pace(len(self.jobs))
        self.machine.alive.append(self.name)
        self.machine.most_alive = max(self.machine.most_alive, len(self.machine.alive))
        self.machine.diary.append(f"start {self.name}")
        return ScriptedRun(self.machine, self.name, iter(lambda: pace, None), self.loss, parts=self.parts)

    def close(self) -> None:
        pass


class Silent:
    def phase(self, name: str) -> None:
        pass

    def window(self, attempt: Run, plan: Plan) -> None:
        pass

    def ended(self, attempt: Run) -> None:
        pass

    def done(self) -> None:
        pass


def steady(seconds: float) -> Iterator[float]:
    return iter(lambda: seconds, None)


def runs(a: Iterator[float], b: Iterator[float], *, machine: Machine | None = None) -> tuple[ScriptedRun, ScriptedRun]:
    machine = machine or Machine()
    return ScriptedRun(machine, "a", a), ScriptedRun(machine, "b", b)


def ignore(text: str) -> None:
    pass


def timed(machine: Machine) -> str:
    """The order of the timed windows; the warm-ups are before them."""
    return "".join(machine.diary)[-2 * TURNS :]


def contest(
    a: ScriptedLauncher, b: ScriptedLauncher, workload: Workload = DEVICE, tolerance: float = 0.02, **choices: int
):
    cap = Cap(**choices)
    sides = (Side(workload=workload, launcher=launcher) for launcher in (a, b))
    return compare(*sides, TOPOLOGY, PLAN, Tolerance.of(tolerance), Silent(), cap=cap)


def two(
    pace_a: Callable[[int], float] = lambda n: 0.01 + n * 1e-5,
    pace_b: Callable[[int], float] = lambda n: 0.01 + n % 2 * 1e-5,
    **choices: float,
) -> tuple[ScriptedLauncher, ScriptedLauncher]:
    machine = Machine()
    return ScriptedLauncher(machine, "a", pace_a, **choices), ScriptedLauncher(machine, "b", pace_b, **choices)


def test_the_order_is_swapped_each_turn() -> None:
    machine = Machine()
    take_turns(*runs(steady(0.01), steady(0.01), machine=machine), PLAN, ignore)
    assert timed(machine) == "abba" * (TURNS // 2)


def test_b_goes_first_where_it_is_asked_to() -> None:
    machine = Machine()
    take_turns(*runs(steady(0.01), steady(0.01), machine=machine), PLAN, ignore, b_first=True)
    assert timed(machine) == "baab" * (TURNS // 2)


def test_only_one_window_is_ever_queued() -> None:
    machine = Machine()
    take_turns(*runs(steady(0.01), steady(0.01), machine=machine), PLAN, ignore)
    assert machine.most_queued == 1


def test_both_are_warmed_up_before_the_first_turn() -> None:
    pair = take_turns(*runs(steady(0.01), steady(0.01)), PLAN, ignore)
    for attempt in (pair.a, pair.b):
        assert sum(w.steps for w in attempt.warmup) >= PLAN.warmup_steps


def test_each_worker_keeps_to_the_plans_steps() -> None:
    pair = take_turns(*runs(steady(0.0001), steady(0.03)), PLAN, ignore)
    for attempt in (pair.a, pair.b):
        assert sum(w.steps for w in attempt.windows) <= PLAN.steps


def test_turns_end_with_the_plans_seconds() -> None:
    pair = take_turns(*runs(steady(0.1), steady(0.1)), Plan(steps=100, warmup_steps=1, max_seconds=0.5), ignore)
    assert len(pair.a.windows) == len(pair.b.windows) == 5


def test_one_step_makes_one_turn() -> None:
    pair = take_turns(*runs(steady(0.1), steady(0.1)), Plan(steps=1, warmup_steps=0), ignore)
    assert len(pair.a.windows) == len(pair.b.windows) == 1


@pytest.mark.parametrize("b_first", [False, True])
def test_the_ratio_is_bs_throughput_over_as(b_first: bool) -> None:
    pair = take_turns(*runs(steady(0.01), steady(0.02)), PLAN, ignore, b_first=b_first)
    assert math.exp(pair.log_ratio) == pytest.approx(0.5)


def test_a_drift_that_both_share_cancels() -> None:
    clock = iter(range(10_000))

    def drifting() -> float:
        return 0.01 * (1 + next(clock) / 1000)

    pair = take_turns(*runs(iter(drifting, None), iter(drifting, None)), PLAN, ignore)
    assert pair.log_ratio == pytest.approx(0, abs=1e-4)


def test_a_burst_that_spoils_a_few_turns_of_one_side_is_cut_off() -> None:
    windows = iter(range(10_000))
    bursting = iter(lambda: 0.1 if 15 <= next(windows) < 18 else 0.01, None)
    pair = take_turns(*runs(steady(0.01), bursting), PLAN, ignore)
    assert pair.log_ratio == pytest.approx(0, abs=1e-9)


def test_alternating_runs_give_the_same_ratio() -> None:
    a, b = (Run(windows=(Window(1, s),) * 20, images_per_step=1) for s in (0.01, 0.02))
    assert math.exp(pair_of_runs(a, b).log_ratio) == pytest.approx(0.5)


def test_only_workers_that_hold_nothing_may_take_turns() -> None:
    assert may_take_turns(DEVICE, DEVICE)
    assert not may_take_turns(DEVICE, HOST)
    assert not may_take_turns(DEVICE.with_(input_pipeline="nets:own"))


def test_each_pair_is_of_fresh_workers_that_run_side_by_side() -> None:
    a, b = two()
    found = contest(a, b)
    assert found.how is How.TURNS
    assert a.machine.most_alive == 2
    assert a.machine.alive == []
    assert len(a.jobs) == len(b.jobs) == len(found.log_ratios)


def test_a_pipeline_on_the_host_makes_whole_runs_alternate() -> None:
    a, b = two()
    found = contest(a, b, HOST)
    assert found.how is How.RUNS
    assert a.machine.most_alive == 1
    starts = [entry.removeprefix("start ") for entry in a.machine.diary if entry.startswith("start")]
    assert "".join(starts).startswith("abba")


def test_a_run_that_came_to_nothing_is_told_with_its_workload_and_devices() -> None:
    with pytest.raises(MeasurementError) as caught:
        contest(*two(room=0))
    assert str(caught.value).startswith(f"{DEVICE.id} on 1 of 1 cores of a CPU: the worker raised Resource")


def test_whole_runs_alternate_where_both_do_not_fit() -> None:
    a, b = two(room=1)
    found = contest(a, b)
    assert found.how is How.RUNS
    assert "both at once failed: the worker raised ResourceExhaustedError" in found.reason
    assert "its log" not in found.reason


def test_a_worker_that_can_not_start_alone_either_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="ResourceExhaustedError"):
        contest(*two(room=0))


def test_equal_sides_pass() -> None:
    assert contest(*two()).outcome is Outcome.PASS


def test_a_slower_b_is_regressed() -> None:
    found = contest(*two(pace_b=lambda n: 0.011 + n * 1e-5))
    assert found.outcome is Outcome.REGRESSED
    assert found.ratio < 0.92


@pytest.mark.parametrize("workload", [DEVICE, HOST])
def test_both_sides_are_asked_where_their_time_goes(workload: Workload) -> None:
    found = contest(*two(), workload)
    wanted = Breakdown(input=Input.RESIDENT, bound=Bound.COMPUTE)
    assert (found.a.breakdown, found.b.breakdown) == (wanted, wanted)


def test_no_further_worker_is_started_for_where_the_time_goes() -> None:
    a, b = two()
    found = contest(a, b)
    assert [len(a.jobs), len(b.jobs)] == [len(found.log_ratios)] * 2


def test_where_the_cap_is_spent_nobody_is_asked_where_the_time_goes() -> None:
    found = contest(*two(), seconds=1e-9)
    assert (found.a.breakdown, found.b.breakdown) == (None, None)


def test_a_slower_b_that_fetches_is_followed_by_one_run_on_device_data() -> None:
    a, b = two(pace_b=lambda n: 0.011 + n * 1e-5)
    b.parts = StepProfile(input=Input.FETCHED, pipeline_images_per_sec=100.0)
    contest(a, b, HOST)
    assert [job.workload.input_pipeline for job in b.jobs] == ["host", "host", "host", "device"]


def test_a_faster_b_is_improved() -> None:
    assert contest(*two(pace_b=lambda n: 0.005 + n * 1e-6)).outcome is Outcome.IMPROVED


def test_what_can_not_be_told_apart_ends_at_the_most_pairs() -> None:
    found = contest(*two(pace_b=lambda n: 0.005 if n % 2 else 0.02), pairs=5)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert len(found.log_ratios) == 5
    assert "max_pairs=5 is reached" in found.reason


@pytest.mark.parametrize(("seconds", "reached"), [(1e-9, 20), (45.0, 4), (1000.0, 3)])
def test_looks_are_planned_by_the_time_that_the_first_pairs_took(seconds: float, reached: int) -> None:
    assert Cap(pairs=20, seconds=60.0).reached(3, seconds) == reached


def test_a_cap_without_an_end_plans_for_its_pairs() -> None:
    assert Cap(pairs=7, seconds=math.inf).reached(3, 1.0) == 7


def test_no_pair_is_begun_that_would_end_too_late() -> None:
    found = contest(*two(), seconds=1e-9)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert len(found.log_ratios) == 1
    assert "max_seconds" in found.reason


@pytest.mark.parametrize(
    ("pairs", "seconds", "said"),
    [
        (4, 55.0, "the next pair would end after max_seconds=60"),
        (4, 40.0, "the first 3 pairs left room for 4 in max_seconds=60, and the looks were planned for so many"),
        (9, 40.0, "max_pairs=9 is reached"),
    ],
)
def test_an_end_says_what_it_came_by(pairs: int, seconds: float, said: str) -> None:
    assert compare_module._end(pairs, 0, seconds, Cap(pairs=9, seconds=60.0), 4) == f"; {said}"


def test_a_loss_that_is_no_number_is_invalid() -> None:
    found = contest(*two(loss=math.nan))
    assert found.outcome is Outcome.INVALID
    assert found.reason.startswith("INVALID: a's loss is nan by step 1, in the warm-up")


def test_a_comparison_that_is_invalid_says_no_ratio_in_its_first_line() -> None:
    said = message(contest(*two(loss=math.nan))).splitlines()
    assert said[0].endswith(": INVALID: a's loss is nan by step 1, in the warm-up: what it trains is not a model")


def test_a_comparison_of_a_loss_that_is_no_number_has_a_next_step() -> None:
    assert "\n  next        the pipeline: a NaN" in message(contest(*two(loss=math.nan)))


def test_what_is_not_judged_takes_one_pair_and_has_no_outcome() -> None:
    a, b = (Side(workload=DEVICE, launcher=launcher) for launcher in two())
    found = compare(a, b, TOPOLOGY, PLAN, Tolerance(), Silent(), judged=False)
    assert (found.outcome, len(found.log_ratios)) == (None, 1)


def test_a_slowdown_on_purpose_is_its_own_sides() -> None:
    a, b = two()
    sides = Side(workload=DEVICE, launcher=a), Side(workload=DEVICE, launcher=b, slowdown=0.5)
    compare(*sides, TOPOLOGY, PLAN, Tolerance(), Silent())
    assert {job.slowdown for job in a.jobs} == {0.0}
    assert {job.slowdown for job in b.jobs} == {0.5}


def test_an_unknown_model_is_refused_before_anything_starts() -> None:
    a, b = two()
    with pytest.raises(WorkloadError, match="unknown model"):
        contest(a, b, DEVICE.with_(model="resnet5"))
    assert a.machine.diary == []


@pytest.mark.parametrize("choices", [{"pairs": 2}, {"pairs": 3.5}, {"pairs": True}, {"seconds": 0}, {"seconds": -1}])
def test_a_cap_under_which_nothing_can_be_decided_is_refused(choices: dict[str, float]) -> None:
    with pytest.raises(TfperfError, match="max_"):
        Cap(**choices)


# Others on the machine


@dataclass
class ScriptedGuard:
    """Sees what the script says, pair after pair, and nothing after its end."""

    script: list[str]

    @contextmanager
    def watching(self, gpu_uuids: Iterable[str] = ()) -> Iterator[Seen]:
        seen = Seen()
        yield seen
        seen.disturbance = self.script.pop(0) if self.script else ""


def guarded(*script: str, judged: bool = True):
    sides = (Side(workload=DEVICE, launcher=launcher) for launcher in two())
    guard = ScriptedGuard(list(script))
    return compare(*sides, TOPOLOGY, PLAN, Tolerance(), Silent(), guard=guard, judged=judged)  # type: ignore[arg-type]


def test_a_disturbed_pair_is_measured_again() -> None:
    found = guarded("others used 90 %")
    assert (found.outcome, len(found.set_aside)) == (Outcome.PASS, 1)


def test_a_disturbed_pair_counts_for_nothing() -> None:
    undisturbed = guarded()
    assert len(guarded("others used 90 %").log_ratios) == len(undisturbed.log_ratios)


def test_a_pair_that_was_set_aside_is_shown_with_its_reason() -> None:
    assert "  set aside   +0.0 %: others used 90 %" in message(guarded("others used 90 %")).splitlines()


def test_three_disturbed_pairs_in_a_row_are_invalid() -> None:
    found = guarded("a", "b", "others used 90 %")
    assert found.outcome is Outcome.INVALID
    assert "INVALID: others used 90 % (and something in each of 3 fresh pairs). Free the machine" in found.reason


def test_three_disturbed_pairs_that_do_not_follow_each_other_are_not() -> None:
    assert guarded("a", "b", "", "c").outcome is Outcome.PASS


def test_pairs_before_the_machine_was_taken_are_still_shown() -> None:
    found = guarded("", "", "a", "b", "c")
    assert (found.outcome, len(found.log_ratios), len(found.set_aside)) == (Outcome.INVALID, 2, 3)


def test_a_pair_of_runs_that_never_settled_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "unsettled", lambda timed, **_: "it never settles" if timed[0].seconds > 0.5 else "")
    launchers = two(lambda n: 1.0 if n == 1 else 0.01 + n * 1e-5)
    sides = (Side(workload=HOST, launcher=launcher) for launcher in launchers)
    found = compare(*sides, TOPOLOGY, PLAN, Tolerance(), Silent(), guard=ScriptedGuard([]))  # type: ignore[arg-type]
    assert [one.disturbance for one in found.set_aside] == ["it never settles"]


def test_what_is_not_judged_is_not_guarded() -> None:
    assert guarded("a", "b", "c", judged=False).outcome is None
