"""Asks a worker, after its last window, what a step spends its time on; what holds for a session is asked once.

The rate of matrix products is the exception. It is the most that a device reaches, so a step that exceeds it shows that
the machine was slow when the rate was timed. It is then timed again, and the session keeps the highest.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pytest_tfperf.core.breakdown import products_fraction
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.launcher import TrainingRun


class StepProfiler:
    """Profiles the steps of workers under one interpreter; one for a session."""

    def __init__(self) -> None:
        self._rates: dict[object, float | None] = {}  # matrix products of one device, multiply-adds a second
        self._multiply_adds: dict[object, int | None] = {}  # of each model, forward

    def profile(self, training: TrainingRun, job: Job, cores: int, examples_per_sec: float) -> StepProfile | None:
        """The profile of the worker's step; None where it fails, because the windows are measured already.

        Args:
            training: has no window left to give.
            job: what it runs.
            cores: the host's usable ones.
            examples_per_sec: what its windows gave.
        """
        devices, workload = job.devices, job.workload
        kind = (devices.kind, devices.gpu_uuids[:1], workload.precision, workload.tf32, job.ranks)
        model = (workload.model, workload.unit)
        products, multiply_adds = kind not in self._rates, model not in self._multiply_adds
        try:
            found = training.profile_step(matrix_products=products, multiply_adds=multiply_adds)
        except (TfperfError, OSError):
            return None
        if found.input in (Input.ALONE, Input.OWN):  # there is no model
            return found
        if products:
            self._rates[kind] = found.products_multiply_adds_per_sec
        if multiply_adds:
            self._multiply_adds[model] = found.forward_multiply_adds
        found = replace(
            found,
            cores=cores * max(1, len({rank.host for rank in found.ranks})) if devices.kind is DeviceKind.CPU else None,
            forward_multiply_adds=self._multiply_adds[model],
            products_multiply_adds_per_sec=self._rate(kind, job),
        )
        share = products_fraction(
            found.forward_multiply_adds, found.products_multiply_adds_per_sec, examples_per_sec, workload
        )
        if share is None or share <= 1:
            return found
        self._time_products_again(training, kind)
        return replace(found, products_multiply_adds_per_sec=self._rate(kind, job))

    def _rate(self, kind: object, job: Job) -> float | None:
        """Of all the devices together; virtual devices share the CPU's cores or their GPU.

        Ranks time theirs at the same time, so their sum is known already.
        """
        rate, devices = self._rates[kind], job.devices
        shared = devices.split or devices.kind is DeviceKind.CPU
        separate = 1 if shared else devices.count // job.ranks_per_node
        return None if rate is None else rate * separate

    def _time_products_again(self, training: TrainingRun, kind: object) -> None:
        with suppress(TfperfError, OSError):
            again = training.profile_step(matrix_products=True, multiply_adds=False).products_multiply_adds_per_sec
            self._rates[kind] = max(self._rates[kind] or 0.0, again or 0.0)
