"""The search for the largest batch that fits: what it finds, and where it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_turns import Machine, ScriptedRun, Silent, steady

from pytest_tfperf.bench.largest_batch import (
    GRAIN,
    MOST_SECONDS,
    MOST_SECONDS_A_SESSION,
    MOST_TRIES,
    LargestBatch,
    search,
)
from pytest_tfperf.bench.windows import SMOKE, Plan
from pytest_tfperf.core.gpu import Gpu
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, OutOfMemory, OutOfTime
from pytest_tfperf.workers.launcher import Job, Progress

FAILED = OutOfMemory("the worker raised ResourceExhaustedError in phase 'compile': OOM\nthe end of its log")
# 9 million images of 150 kB, where there are 24 GiB.
FAR_TOO_MUCH = OutOfMemory(
    "the worker raised ResourceExhaustedError in phase 'compile': OOM when allocating tensor with "
    "shape[9000000,112,112,3] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"
)
PLAN = Plan()
HOST = Host(cpu_model="box", usable_cores=1, total_cores=1, memory_bytes=24 * 2**30)
HERE = Topology(host=HOST).on_cpu().take(1)

failed_batches = st.integers(1, 2**MOST_TRIES)
rooms = st.integers(0, 2**13)


def room_for(most: int) -> Callable[[int], bool]:
    return lambda batch: batch <= most


def largest_sensible(room: int, below: int) -> int | None:
    sensible = [batch for batch in range(1, below) if batch <= GRAIN or batch % GRAIN == 0]
    return max((batch for batch in sensible if batch <= room), default=None)


@given(failed_batches, rooms)
def test_the_search_finds_the_largest_that_fits(failed: int, room: int) -> None:
    expected = failed if room >= failed else largest_sensible(room, failed)
    assert search(failed, room_for(room)).fits == expected


@given(failed_batches, rooms)
def test_the_search_comes_to_its_end_within_the_tries(failed: int, room: int) -> None:
    assert search(failed, room_for(room)).stopped == ""


@given(failed_batches, rooms)
def test_no_more_tries_than_halvings(failed: int, room: int) -> None:
    assert len(search(failed, room_for(room)).tried) <= 1 + math.ceil(math.log2(failed))


@given(st.integers(1, 10**9), rooms)
def test_no_batch_is_tried_twice(failed: int, room: int) -> None:
    tried = [batch for batch, _ in search(failed, room_for(room)).tried]
    assert len(tried) == len(set(tried))


@given(st.integers(1, 10**9), rooms)
def test_what_is_said_to_fit_was_seen_to_fit(failed: int, room: int) -> None:
    found = search(failed, room_for(room))
    assert found.fits is None or (found.fits, True) in found.tried


@given(failed_batches, rooms, st.integers(1, 2**MOST_TRIES))
def test_the_search_below_what_is_hopeless_finds_the_largest_that_fits(failed: int, room: int, least: int) -> None:
    hopeless = min(failed, least)
    found = search(failed, room_for(min(room, hopeless - 1)), hopeless=hopeless)
    assert found.fits == largest_sensible(min(room, hopeless - 1), hopeless)


@given(failed_batches, rooms, st.integers(1, 2**MOST_TRIES))
def test_what_is_hopeless_is_not_tried(failed: int, room: int, least: int) -> None:
    tried = search(failed, room_for(room), hopeless=min(failed, least)).tried
    assert all(batch < least for batch, _ in tried)


def test_a_batch_halves_until_one_fits_and_then_the_gap_above_it() -> None:
    tried = search(256, room_for(100)).tried
    assert tried == ((128, False), (64, True), (96, True), (112, False), (104, False))


def test_a_search_that_takes_too_many_tries_says_so() -> None:
    found = search(10**9, room_for(0))
    assert (len(found.tried), found.fits, found.stopped) == (MOST_TRIES, None, f"{MOST_TRIES} tries are spent")


def test_a_try_that_fails_otherwise_ends_the_search() -> None:
    def fits(batch: int) -> bool:
        if batch == 96:
            raise MeasurementError("the worker said nothing for 5 s\nits log")
        return batch < 96

    found = search(256, fits)
    assert (found.fits, found.stopped) == (64, "batch_size 96 failed otherwise: the worker said nothing for 5 s")


@dataclass
class Box:
    """A launcher whose workers have room for so many images; each try takes `try_seconds` of its clock."""

    room: int
    try_seconds: float = 1.0
    seconds: float = 0.0
    machine: Machine = field(default_factory=Machine)
    jobs: list[Job] = field(default_factory=list)
    error: type[BaseException] = OutOfMemory

    def start(self, job: Job, progress: Progress) -> ScriptedRun:
        progress("model")
        self.jobs.append(job)
        self.seconds += min(self.try_seconds, job.max_seconds)
        if self.try_seconds > job.max_seconds:
            raise OutOfTime("the worker was not through")
        if job.workload.batch_size * job.devices.count > self.room:
            raise self.error("no room\nits log")
        self.machine.alive.append("worker")
        return ScriptedRun(self.machine, "worker", steady(1.0))

    def close(self) -> None:
        pass


class Told(Silent):
    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, name: str) -> None:
        self.phases.append(name)


def message(
    box: Box,
    batch: int = 256,
    topology: Topology = HERE,
    seeker: LargestBatch | None = None,
    *,
    failed: OutOfMemory = FAILED,
    plan: Plan = PLAN,
) -> str:
    assert topology.devices is not None
    job = Job(workload=Workload(model="resnet50", batch_size=batch), devices=topology.devices)
    return str((seeker or LargestBatch(Silent(), lambda: box.seconds)).named(failed, box, job, topology, plan))


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (100, "out of memory with batch_size 256: the largest that fits is 96\n"),
        (0, "out of memory with batch_size 256: no smaller one fits, not even 1\n"),
        (256, "out of memory with batch_size 256: and yet it fits when tried again\n"),
        (100, "tried       128 does not  64 fits  96 fits  112 does not  104 does not (fresh workers, "),
        (100, "next        batch_size=96, or more memory"),
        (0, "next        it is not the batch: look at the model, the input pipeline, and what else takes memory"),
        (256, "next        look for what else took memory then, or for memory that grows from step to step"),
        (100, "memory      24 GiB of the host"),
        (100, str(FAILED)),
    ],
)
def test_the_error_says(room: int, said: str) -> None:
    assert said in message(Box(room))


def test_the_error_counts_images_on_each_device() -> None:
    two = Topology(host=HOST).on_cpu().take(2)
    assert "out of memory with batch_size 64 on each of 2 devices: the largest that fits is 48\n" in message(
        Box(100), 64, two
    )


def test_the_error_tells_the_memory_of_the_gpus() -> None:
    gpu = Gpu(index=0, uuid="GPU-0", name="P100", memory_bytes=16 * 2**30)
    taken = Devices(kind=DeviceKind.GPU, count=1, gpu_uuids=("GPU-0",))
    one = Topology(host=HOST, gpus=(gpu,), links=((None,),), devices=taken)
    assert "memory      16 GiB of the GPUs; 24 GiB of the host" in message(Box(100), topology=one)


def test_a_search_that_would_take_too_long_says_what_it_knows() -> None:
    box = Box(100, try_seconds=MOST_SECONDS / 3.5)
    assert "96 fits, and the search for the largest that does ended early: its time is spent" in message(box)


def test_a_try_is_not_begun_that_would_end_too_late() -> None:
    box = Box(100, try_seconds=MOST_SECONDS / 3.5)
    message(box)
    assert box.seconds <= MOST_SECONDS


def test_a_try_that_lasts_longer_than_the_search_may_is_ended() -> None:
    box = Box(100, try_seconds=MOST_SECONDS + 1)
    said = message(box)
    assert "none was found that fits, and the search for the largest that does ended early: its time was over" in said
    assert box.seconds == MOST_SECONDS


def test_a_session_begins_no_try_when_its_share_is_spent() -> None:
    box = Box(0, try_seconds=MOST_SECONDS / 5)
    seeker = LargestBatch(Silent(), lambda: box.seconds)
    for _ in range(20):
        message(box, seeker=seeker)
    assert box.seconds < MOST_SECONDS_A_SESSION + box.try_seconds


def test_what_one_request_shows_to_be_hopeless_is_not_tried() -> None:
    box = Box(100)
    message(box, 9_000_000, failed=FAR_TOO_MUCH)
    largest = 24 * 2**30 / (112 * 112 * 3 * 4)
    assert max(job.workload.batch_size for job in box.jobs) < largest


def test_a_smoke_run_looks_for_no_batch() -> None:
    box = Box(100)
    said = message(box, plan=SMOKE)
    assert "out of memory with batch_size 256\n" in said
    assert "without --tfperf-smoke the largest that fits is sought" in said
    assert box.jobs == []


def test_each_worker_that_was_tried_is_closed() -> None:
    box = Box(100)
    message(box)
    assert box.machine.alive == []


def test_an_injected_slowdown_is_left_out_of_the_tries() -> None:
    box = Box(100)
    job = Job(workload=Workload(model="resnet50", batch_size=256), devices=HERE.devices, slowdown=0.5)  # type: ignore[arg-type]
    LargestBatch(Silent(), lambda: box.seconds).named(FAILED, box, job, HERE, PLAN)
    assert {tried.slowdown for tried in box.jobs} == {0.0}


def test_the_progress_line_says_which_batch_is_tried() -> None:
    box, told = Box(100), Told()
    message(box, seeker=LargestBatch(told, lambda: box.seconds))
    assert told.phases[0] == "out of memory; does batch_size 128 fit? model"


def test_an_interrupt_is_no_batch_that_does_not_fit() -> None:
    with pytest.raises(KeyboardInterrupt):
        message(Box(0, error=KeyboardInterrupt))
