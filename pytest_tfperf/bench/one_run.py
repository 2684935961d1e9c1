"""One measurement in one fresh worker: started, driven, watched, and taken again where it never settled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from pytest_tfperf.bench.disturbance import Guard
from pytest_tfperf.bench.largest_batch import LargestBatch
from pytest_tfperf.bench.naming import naming
from pytest_tfperf.bench.step_parts import Examiner
from pytest_tfperf.bench.windows import SMOKE, Enough, Plan, Watch, run_attempt
from pytest_tfperf.core import catalogue
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.supported import require_possible
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, OutOfMemory
from pytest_tfperf.settings import Settings
from pytest_tfperf.workers.launcher import Job, Launcher

TRIES = 3
"""Fresh workers that one attempt may take until it settles, and until nothing disturbs it."""


class Spoilt(MeasurementError):
    """None of the fresh workers that may be had gave a figure worth having.

    Args:
        workload, topology: what was to be measured.
        reason: why it came to nothing.
        advice: what to do, and how often it was tried.
        attempts: what the workers measured, to be kept and shown.
    """

    def __init__(
        self, workload: Workload, topology: Topology, reason: str, advice: str, attempts: Sequence[Run]
    ) -> None:
        super().__init__(f"{workload.id} on {topology.describe()}: INVALID: {reason} {advice}")
        self.of = (workload, topology)
        self.reason = reason
        self.attempts = tuple(attempts)


class RunEngine:
    """Makes attempts; one for a session.

    Args:
        launcher: how workers start.
        settings: the slowdown to inject, where real images lie, and how much of the machine others may use.
        watch: is told how each attempt comes along.
        largest_batch: the session's search for the batch that fits; None: one of its own.
    """

    def __init__(
        self, launcher: Launcher, settings: Settings, watch: Watch, largest_batch: LargestBatch | None = None
    ) -> None:
        self._launcher = launcher
        self._watch = watch
        self._slowdown = settings.inject_slowdown
        self._guard = Guard(settings.limits)
        self._data = settings.data
        self._largest_batch = largest_batch or LargestBatch(watch)
        self._examiner = Examiner()

    def one(self, workload: Workload, topology: Topology, plan: Plan, enough: Enough = lambda _: False) -> Run:
        """An attempt that settled; says what disturbed it, if anything did, and what its step is made of.

        Raises:
            WorkloadError: a name that nobody has, or what these devices can't train.
            NoData, MeasurementError: the workload reads real images, and there are none.
            MeasurementError: the worker died, hung or raised; `Spoilt`: the throughput never settled; `OutOfMemory`,
                which names the largest batch that fits.
        """
        catalogue.check(workload)
        assert topology.devices is not None, "take() says which devices"
        require_possible(workload, topology.devices)
        catalogue.check_data(workload, self._data)
        job = Job(
            workload=workload,
            devices=topology.devices,
            slowdown=self._slowdown,
            data=self._data,
            cores=topology.host.usable_cores,
        )
        tried: list[Run] = []
        for _ in range(TRIES):
            try:
                with naming(topology, workload):
                    attempt = self._watched(job, plan, enough, topology.host.usable_cores)
            except OutOfMemory as error:
                raise self._largest_batch.named(error, self._launcher, job, topology, plan) from None
            if not attempt.unsettled:
                return attempt
            tried.append(attempt)
        advice = "Free the machine of other work, or give the test more warmup_steps"
        advice = f"(and so in each of {TRIES} fresh workers). {advice}"
        raise Spoilt(workload, topology, attempt.unsettled, advice, tried)

    def _watched(self, job: Job, plan: Plan, enough: Enough, cores: int) -> Run:
        """One worker's attempt, with what else went on while it ran."""
        try:
            with closing(self._launcher.start(job, self._watch.phase)) as run:
                with self._guard.watching(job.devices.gpu_uuids) as seen:
                    attempt = run_attempt(run, plan, self._watch, enough)
                if not attempt.unsettled and plan != SMOKE:
                    self._watch.phase("parts")
                    images_per_sec = run_value(attempt).images_per_sec
                    attempt = replace(attempt, parts=self._examiner.parts(run, job, cores, images_per_sec))
        finally:
            self._watch.done()
        known = replace(attempt, environment={**attempt.environment, **seen.environment}, conditions=seen.conditions)
        return known.disturbed_by(seen.disturbance)
