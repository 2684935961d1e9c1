"""A measurement's whole trial with all that its verdict rests on, so that it can be judged again without training."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.run import Run, Trial
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.common_drift import Night
from pytest_tfperf.judging.noise import Noise

_MOST = 1e12  # of anything that is counted or timed here; beyond it logarithms of the ratios may overflow
_FASTEST = 1e24  # of multiply-adds a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What one measurement gave, and against what the night judged it.

    Args:
        test, workload, topology, machine, devices, environment, commit, time, seconds: as in a `Measurement`.
        trial: the raw windows of every attempt, those that were set aside too.
        steps, warmup_steps, max_seconds: the plan of each attempt, as in `windows.Plan`.
        tolerance: what the test itself asked for; None where it left that to the row or to the default.
        default_tolerance: what holds where neither says.
        invalid: why the measurement was given up; "" where it was not.
        baseline, floor, noise, document: as in `reference.Reference`, on that night.
        gpu_fp32_tflops: peak rate of the weakest GPU taken; None where no document's figure can be a floor.
        tests: throughput tests of the session, which shared its false alarms.
        credited: what of the night's common shift was not held against it when it was judged last.
        nights: the nights before it, oldest first.
        hold: whether a regression had to show on two of three nights.
        device_data_images_per_sec: as in a `Breakdown`.

    Raises:
        TfperfError: figures that no measurement gives.
    """

    test: str
    workload: Workload
    topology: str
    machine: str
    devices: str
    trial: Trial
    steps: int
    warmup_steps: int
    max_seconds: float = math.inf
    tolerance: Tolerance | None = None
    default_tolerance: Tolerance = Tolerance()
    invalid: str = ""
    baseline: Baseline | None = None
    floor: bool = False
    noise: Noise | None = None
    document: Baseline | None = None
    gpu_fp32_tflops: float | None = None
    tests: int = 1
    credited: float = 0.0
    nights: tuple[Night, ...] = ()
    hold: bool = False
    device_data_images_per_sec: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    time: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise TfperfError(fault)

    def _faults(self) -> Iterator[str]:
        if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d{0,5}", self.topology, re.ASCII):
            yield f"topology {self.topology!r}: it reads nodes x devices per node, as in '2x4'"
        attempts = self.trial.attempts + self.trial.set_aside
        if not attempts:
            yield "trial: it holds no attempt"
        for number, attempt in enumerate(attempts, start=1):
            for fault in _faults_of(attempt):
                yield f"trial: attempt {number}: {fault}"
        if (self.baseline is None) != (self.noise is None):
            yield "a baseline comes with its noise, and noise with a baseline"
        if self.noise is not None and not (0 <= self.noise.spread <= 10 and self.noise.degrees_of_freedom > 0):
            yield "noise: a spread lies between 0 and 10, and its degrees of freedom above 0"
        if self.tests < 1 or not abs(self.credited) < 100 or not 0 <= self.seconds < _MOST:
            yield "tests is 1 or more, credited a difference of logarithms, seconds a time"
        if not all(night.drops and all(abs(drop) < 100 for drop in night.drops) for night in self.nights):
            yield "nights: each holds its runs' drops, differences of logarithms"
        if not _is_rate(self.device_data_images_per_sec):
            yield f"device_data_images_per_sec {self.device_data_images_per_sec!r} is no throughput"


def _faults_of(attempt: Run) -> Iterator[str]:
    if not attempt.windows:
        yield "it has no windows"
    if not 1 <= attempt.images_per_step <= _MOST:
        yield f"images_per_step {attempt.images_per_step!r} is 1 or more"
    if attempt.stated_images_per_sec is not None and not 0 < attempt.stated_images_per_sec < _MOST:
        yield f"stated_images_per_sec {attempt.stated_images_per_sec!r} is no throughput"
    for window in (*attempt.warmup, *attempt.windows):
        if not (1 <= window.steps <= _MOST and 1 / _MOST < window.seconds < _MOST):
            yield f"{window.steps} steps in {window.seconds} seconds are no window"
    if (parts := attempt.parts) is not None:
        if not all(map(_is_rate, (parts.pipeline_images_per_sec, parts.products_multiply_adds_per_sec))):
            yield "parts: a rate that is none"
        counts = (parts.pipeline_core_seconds_per_image, parts.forward_multiply_adds)
        if not all(count is None or 0 <= count < _FASTEST for count in counts):
            yield "parts: CPU time and multiply-adds are numbers from 0"
        if parts.cores is not None and not 1 <= parts.cores <= _MOST:
            yield f"parts: cores {parts.cores!r} is 1 or more"


def _is_rate(value: float | None) -> bool:
    return value is None or 0 < value < _FASTEST
