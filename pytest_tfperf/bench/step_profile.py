"""Has a worker profile its step after its last window.

Facts that stay the same in a session are asked for once: a model's multiply-adds, and the rate of matrix products. That
rate is the most that a device reaches. If a step exceeds it, the machine was slow when the rate was timed. The rate is
then timed again, and the session keeps the higher rate.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.breakdown import products_fraction
from pytest_tfperf.workers.training_run import TrainingRun


class StepProfiler:
    """Profiles the steps of workers under one interpreter; one for a session."""

    def __init__(self) -> None:
        self._rates: dict[object, float | None] = {}  # matrix products of one device, multiply-adds a second
        self._multiply_adds: dict[object, int | None] = {}  # of each model, forward

    def profile(self, training: TrainingRun, job: Job, examples_per_sec: float) -> StepProfile | None:
        """Return the profile of the worker's step; None if that fails, because the windows are already measured.

        Args:
            training: the worker, after its last window.
            job: the job that it trains.
            examples_per_sec: the throughput of its windows.
        """
        devices, workload = job.devices, job.workload
        kind = (devices.kind, devices.gpu_uuids[:1], workload.precision, workload.tf32, job.ranks)
        model = (workload.model, workload.unit, workload.tokens_of)
        products, multiply_adds = kind not in self._rates, model not in self._multiply_adds
        try:
            profile = training.profile_step(matrix_products=products, multiply_adds=multiply_adds)
        except (TfperfError, OSError):
            return None
        if profile.input in (Input.ALONE, Input.OWN):  # there is no model
            return profile
        if products:
            self._rates[kind] = profile.products_multiply_adds_per_sec
        if multiply_adds:
            self._multiply_adds[model] = profile.forward_multiply_adds
        hosts = max(1, len({rank.host for rank in profile.ranks}))
        profile = replace(
            profile,
            cores=(job.cores or 1) * hosts if devices.kind is DeviceKind.CPU else None,
            forward_multiply_adds=self._multiply_adds[model],
            products_multiply_adds_per_sec=self._rate(kind, job),
        )
        share = products_fraction(
            profile.forward_multiply_adds, profile.products_multiply_adds_per_sec, examples_per_sec, workload
        )
        if share is None or share <= 1:
            return profile
        self._time_products_again(training, kind)
        return replace(profile, products_multiply_adds_per_sec=self._rate(kind, job))

    def _rate(self, kind: object, job: Job) -> float | None:
        """Return the rate of all devices together; virtual devices share the CPU's cores or their GPU.

        Ranks time their devices at the same time, so their rate is already a sum.
        """
        rate, devices = self._rates[kind], job.devices
        shared = devices.split or devices.kind is DeviceKind.CPU
        separate = 1 if shared else devices.count // job.ranks_per_node
        return None if rate is None else rate * separate

    def _time_products_again(self, training: TrainingRun, kind: object) -> None:
        with suppress(TfperfError, OSError):
            again = training.profile_step(matrix_products=True, multiply_adds=False).products_multiply_adds_per_sec
            self._rates[kind] = max(self._rates[kind] or 0.0, again or 0.0)
