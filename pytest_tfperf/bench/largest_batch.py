"""The largest batch that fits: looked for in fresh workers, after one has run out of memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_tfperf.bench.requests import ON_A_GPU, hopeless, requested_bytes
from pytest_tfperf.bench.windows import SMOKE, Plan, Watch, run_attempt
from pytest_tfperf.core.gpu import gib
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.errors import MeasurementError, OutOfMemory, OutOfTime
from pytest_tfperf.hardware.host import address_space_limit_bytes
from pytest_tfperf.workers.launcher import Job, Launcher

GRAIN = 8
"""Above this, only its multiples are tried: nobody asks for a batch of 97."""

MOST_TRIES = 12
"""Enough to halve a batch of 4,096 down to 1."""

MOST_SECONDS = 120.0
"""No try is begun that would probably end later, and one that lasts longer is ended."""

MOST_SECONDS_A_SESSION = 600.0
"""A suite that was written for a larger machine must not spend its night on searches."""

Fits = Callable[[int], bool]
"""Whether a batch of this size runs; raises MeasurementError where it fails for another reason."""

WhyStop = Callable[[], str]
"""Asked before each try: why there should be no further one, or ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search showed.

    Args:
        failed: the batch that ran out of memory first.
        fits: the largest that ran, `failed` itself where it fits by now; None where none did.
        tried: each batch that was tried, in order, and whether it fitted.
        stopped: why there may be a larger one that fits; "" where the search came to its end.
    """

    failed: int
    fits: int | None
    tried: tuple[tuple[int, bool], ...] = ()
    stopped: str = ""

    def headline(self) -> str:
        """What it comes to, as the end of a sentence about `failed`."""
        if self.fits == self.failed:
            return "and yet it fits when tried again"
        if self.stopped:
            known = f"{self.fits} fits" if self.fits else "none was found that fits"
            return f"{known}, and the search for the largest that does ended early: {self.stopped}"
        return f"the largest that fits is {self.fits}" if self.fits else "no smaller one fits, not even 1"

    def advice(self) -> str:
        """The next step."""
        if self.fits == self.failed:
            return "look for what else took memory then, or for memory that grows from step to step"
        if self.fits:
            return f"batch_size={self.fits}, or more memory"
        if self.stopped:
            return "a smaller batch_size, or more memory"
        return "it is not the batch: look at the model, the input pipeline, and what else takes memory"


def search(failed: int, fits: Fits, why_stop: WhyStop = lambda: "", *, hopeless: int | None = None) -> Found:
    """Halve the batch until one fits, then halve the gap above it.

    Ends after about log2(failed) tries. The batch that failed is tried again where none below it ran out of memory:
    what else is on the machine may have changed.

    Args:
        failed: the batch that ran out of memory.
        fits: tries one.
        why_stop: asked before each try.
        hopeless: a batch that is known not to fit, no larger than `failed`, and so no batch from it on is tried.
    """
    low, high = 0, failed if hopeless is None else hopeless
    tried: list[tuple[int, bool]] = []
    stopped = ""
    while (batch := _next(low, high, failed if hopeless is None else None, tried)) is not None:
        stopped = f"{MOST_TRIES} tries are spent" if len(tried) == MOST_TRIES else why_stop()
        if stopped:
            break
        try:
            tried.append((batch, fits(batch)))
        except OutOfTime:
            stopped = f"its time was over while batch_size {batch} ran"
            break
        except MeasurementError as error:
            stopped = f"batch_size {batch} failed otherwise: {str(error).splitlines()[0]}"
            break
        low, high = (batch, high) if tried[-1][1] else (low, batch)
    return Found(failed=failed, fits=low or None, tried=tuple(tried), stopped=stopped)


def _next(low: int, high: int, failed: int | None, tried: list[tuple[int, bool]]) -> int | None:
    """The batch between the largest that fitted and the smallest that did not; None when there is none.

    `failed` is to be tried again where no smaller one failed; None: that is known to be in vain.
    """
    middle = (low + high) // 2
    if middle > GRAIN:
        middle -= middle % GRAIN
        middle += 0 if middle > low else GRAIN
    if low < middle < high:
        return middle
    untried = high == failed and not any(batch == failed for batch, _ in tried)
    return failed if untried else None


class LargestBatch:
    """Adds to an out-of-memory error which batch would have fitted; one for a session.

    Args:
        watch: is told which batch is tried.
        clock: seconds.
    """

    def __init__(self, watch: Watch, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._clock = clock
        self._spent = 0.0

    def named(self, error: OutOfMemory, launcher: Launcher, job: Job, topology: Topology, plan: Plan) -> OutOfMemory:
        """The error of this job with its batch, devices and memory, and what fits instead.

        A few steps each in fresh workers; bounded in tries, and in seconds for each search and for the session. A smoke
        run, which is to be short, searches for nothing.
        """
        if plan == SMOKE:
            return OutOfMemory(_unsearched(error, job, topology))
        stopwatch = _Stopwatch(self._clock, min(MOST_SECONDS, MOST_SECONDS_A_SESSION - self._spent))
        failed = job.workload.batch_size
        found = search(
            failed,
            lambda batch: self._fits(launcher, job, batch, stopwatch.seconds_left),
            stopwatch.next_ends_too_late,
            hopeless=hopeless(failed, requested_bytes(str(error)), _room_bytes(str(error), topology)),
        )
        seconds = stopwatch.seconds
        self._spent += seconds
        return OutOfMemory(_message(error, job, topology, found, seconds))

    def _fits(self, launcher: Launcher, job: Job, batch: int, seconds: float) -> bool:
        watch = _Trying(self._watch, batch)
        workload = replace(job.workload, batch_size=batch)
        smaller = replace(job, workload=workload, slowdown=0.0, max_seconds=max(seconds, 1.0))
        try:
            run = launcher.start(smaller, watch.phase)
            try:
                run_attempt(run, SMOKE, watch)
            finally:
                run.close()
        except OutOfMemory:
            return False
        finally:
            watch.done()
        return True


class _Stopwatch:
    """Times tries, of which each takes about as long as the longest before it."""

    def __init__(self, clock: Callable[[], float], limit_seconds: float) -> None:
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._began = self._last = clock()
        self._longest = 0.0

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def seconds_left(self) -> float:
        return self._limit_seconds - self.seconds

    def next_ends_too_late(self) -> str:
        """Asked between tries; a sentence where the next would probably end after the limit."""
        self._longest = max(self._longest, self._clock() - self._last)
        self._last = self._clock()
        return "its time is spent" if self.seconds + self._longest >= self._limit_seconds else ""


class _Trying:
    """A `Watch` that shows which batch is tried, and no figures: they are no measurement."""

    def __init__(self, watch: Watch, batch: int) -> None:
        self._watch = watch
        self._batch = batch

    def phase(self, name: str) -> None:
        self._watch.phase(f"out of memory; does batch_size {self._batch} fit? {name}")

    def window(self, attempt: Run, plan: Plan) -> None:
        pass

    def ended(self, attempt: Run) -> None:
        pass

    def done(self) -> None:
        self._watch.done()


def _unsearched(error: OutOfMemory, job: Job, topology: Topology) -> str:
    return (
        f"{_headline(job, topology)}\n"
        f"  memory      {_memory(topology)}\n"
        "  next        a smaller batch_size, or more memory; without --tfperf-smoke the largest that fits is sought\n"
        f"{error}"
    )


def _headline(job: Job, topology: Topology) -> str:
    each = f" on each of {job.devices.count} devices" if job.devices.count > 1 else ""
    batch = job.workload.batch_size
    return f"{job.workload.id} on {topology.describe()}: out of memory with batch_size {batch}{each}"


def _message(error: OutOfMemory, job: Job, topology: Topology, found: Found, seconds: float) -> str:
    tried = "  ".join(f"{batch} {'fits' if fitted else 'does not'}" for batch, fitted in found.tried)
    return (
        f"{_headline(job, topology)}: {found.headline()}\n"
        f"  memory      {_memory(topology)}\n"
        f"  tried       {tried or 'nothing'} (fresh workers, a few steps each, {seconds:.0f} s)\n"
        f"  next        {found.advice()}\n"
        f"{error}"
    )


def _room_bytes(text: str, topology: Topology) -> int | None:
    """All there is of the memory that a request was for, used or not; None where that is not known."""
    if topology.gpus and ON_A_GPU.search(text):
        known = [gpu.memory_bytes for gpu in topology.gpus]
    else:
        known = [topology.host.memory_bytes, address_space_limit_bytes()]
    return min((size for size in known if size is not None), default=None)


def _memory(topology: Topology) -> str:
    """What there is in all, used or not."""
    devices, host = topology.devices, topology.host
    limit = address_space_limit_bytes()
    of_host = f"{gib(host.memory_bytes)} of the host" + ("" if limit is None else f", ulimit -v {gib(limit)}")
    if not topology.gpus:
        return of_host
    split = f", split into {devices.count}" if devices is not None and devices.split else ""
    return " + ".join(gib(gpu.memory_bytes) for gpu in topology.gpus) + f" of the GPUs{split}; {of_host}"
