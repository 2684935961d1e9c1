"""One measurement in one fresh worker: started, driven, watched, and taken again where it never settled."""

from __future__ import annotations

import math
import os

from pytest_tfperf import catalogue
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.hardware.sampler import Sampler
from pytest_tfperf.launchers import Job, Launcher
from pytest_tfperf.settings import Settings
from pytest_tfperf.telemetry import Limits, disturbance
from pytest_tfperf.topology import Topology
from pytest_tfperf.trial import Attempt
from pytest_tfperf.windows import Enough, Plan, Watch, run_attempt
from pytest_tfperf.workload import Workload

TRIES = 3
"""Fresh workers that one attempt may take until it settles, and until nothing disturbs it."""


class Attempts:
    """Makes attempts; one for a session.

    Args:
        launcher: how workers start.
        settings: the slowdown to inject, where real images lie, and how much of the machine others may use.
        watch: is told how each attempt comes along.
    """

    def __init__(self, launcher: Launcher, settings: Settings, watch: Watch) -> None:
        self._launcher = launcher
        self._watch = watch
        self._slowdown = settings.inject_slowdown
        self._data = settings.data
        self._limits = Limits(other_cpu_fraction=settings.busy, steal_fraction=settings.busy)

    def one(self, workload: Workload, topology: Topology, plan: Plan, enough: Enough = lambda _: False) -> Attempt:
        """An attempt that settled; says what disturbed it, if anything did.

        Raises:
            WorkloadError: a name that nobody has.
            NoData, MeasurementError: the workload reads real images, and there are none.
            MeasurementError: the worker died, hung or raised, or the throughput never settled.
        """
        catalogue.check(workload)
        catalogue.check_data(workload, self._data)
        assert topology.devices is not None, "take() says which devices"
        job = Job(workload=workload, devices=topology.devices, slowdown=self._slowdown, data=self._data)
        for _ in range(TRIES):
            attempt = self._watched(job, plan, enough)
            if not attempt.unsettled:
                return attempt
        raise MeasurementError(
            f"{workload.id} on {topology.describe()}: INVALID: {attempt.unsettled} (and so in each of {TRIES} fresh "
            "workers). Free the machine of other work, or give the test more warmup_steps"
        )

    def _watched(self, job: Job, plan: Plan, enough: Enough) -> Attempt:
        """One worker's attempt, with what else went on while it ran."""
        sampler = Sampler(lambda: (os.getpid(),), job.devices.gpu_uuids)
        run = self._launcher.start(job, self._watch.phase)
        try:
            sampler.start()
            attempt = run_attempt(run, plan, self._watch, enough)
        finally:
            run.close()
            self._watch.done()
            sampler.stop()
        return attempt.disturbed_by(disturbance(sampler.since(-math.inf), self._limits))
