"""Asks a worker, after its last window, what its step is made of; what holds for a whole session is asked once.

But the rate of matrix products: it is what a device reaches at best, so a step that outdoes it shows that the machine
was slow when it was timed. It is then timed again, and a session keeps its best.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.breakdown import products_fraction
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.launcher import Job, TrainingRun

SPLIT_SECONDS = 2.0
"""Timed at most, after a regression: it is there to tell which part slowed down, not by how much."""


def brief(plan: Plan) -> Plan:
    """The plan of a short run beside a regression, for the parts of its step."""
    return replace(plan, max_seconds=min(plan.max_seconds, SPLIT_SECONDS))


class Examiner:
    """One for a session."""

    def __init__(self) -> None:
        self._rates: dict[object, float | None] = {}  # of one device's matrix products
        self._multiply_adds: dict[str, int | None] = {}

    def parts(self, run: TrainingRun, job: Job, cores: int, images_per_sec: float) -> StepProfile | None:
        """What the worker says; None where it can't: a measurement that came to its end is not lost by this.

        Args:
            run: has no window left to give.
            job: what it runs.
            cores: the host's usable ones.
            images_per_sec: what its windows gave.
        """
        devices, workload = job.devices, job.workload
        kind = (devices.kind, devices.gpu_uuids[:1], workload.precision, workload.tf32)
        ask = {"products": kind not in self._rates, "multiply_adds": workload.model not in self._multiply_adds}
        try:
            found = run.examine(**ask)
        except (TfperfError, OSError):
            return None
        if found.input is Input.ALONE:  # and so of no model
            return found
        if ask["products"]:
            self._rates[kind] = found.products_multiply_adds_per_sec
        if ask["multiply_adds"]:
            self._multiply_adds[workload.model] = found.forward_multiply_adds
        found = replace(
            found,
            cores=cores if devices.kind is DeviceKind.CPU else None,
            forward_multiply_adds=self._multiply_adds[workload.model],
            products_multiply_adds_per_sec=self._rate(kind, devices),
        )
        share = products_fraction(
            found.forward_multiply_adds, found.products_multiply_adds_per_sec, images_per_sec, workload
        )
        if share is None or share <= 1:
            return found
        self._time_products_again(run, kind)
        return replace(found, products_multiply_adds_per_sec=self._rate(kind, devices))

    def _rate(self, kind: object, devices: Devices) -> float | None:
        """Of all the devices together."""
        rate = self._rates[kind]
        return None if rate is None else rate * _separate(devices)

    def _time_products_again(self, run: TrainingRun, kind: object) -> None:
        """Keep what is found where it is more."""
        with suppress(TfperfError, OSError):
            again = run.examine(products=True, multiply_adds=False).products_multiply_adds_per_sec
            self._rates[kind] = max(self._rates[kind] or 0.0, again or 0.0)


def _separate(devices: Devices) -> int:
    """Devices that compute each for itself: virtual ones share the CPU's cores or their GPU."""
    return 1 if devices.split or devices.kind is DeviceKind.CPU else devices.count
