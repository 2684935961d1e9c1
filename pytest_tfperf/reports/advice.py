"""What to do about a disturbed run, a loss that is not a finite number, and a gain."""

from __future__ import annotations

from collections.abc import Collection

from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.disturbance import NO_LIMITS, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import Optimizer, Precision


def _higher(kind: DisturbanceKind) -> str:
    """The option that accepts a disturbance, with its default: "-o tfperf_busy=1 (default 0.25)"."""
    return f"-o {NO_LIMITS.of(kind)} (default {DisturbanceLimits().of(kind).partition('=')[2]})"


ADVICE = {
    DisturbanceKind.OTHER_PROCESSES: (
        f"end the other processes, or accept more of them: {_higher(DisturbanceKind.OTHER_PROCESSES)}"
    ),
    DisturbanceKind.STEAL: f"use a machine that is not shared, or accept steal time: {_higher(DisturbanceKind.STEAL)}",
    DisturbanceKind.SWAPPING: f"free memory, or accept swapping: {_higher(DisturbanceKind.SWAPPING)}",
    DisturbanceKind.GPU_SLOWED_DOWN: (
        f"check cooling and power supply, or accept it: {_higher(DisturbanceKind.GPU_SLOWED_DOWN)}"
    ),
    DisturbanceKind.GPU_SHARED: (
        "end the other process, choose another GPU with CUDA_VISIBLE_DEVICES, or accept it: "
        f"{_higher(DisturbanceKind.GPU_SHARED)}"
    ),
    DisturbanceKind.DRIVER_SILENT: "look for the cause in dmesg (for a GPU, NVRM: Xid); a hung driver needs a reboot",
    DisturbanceKind.NOT_STEADY: (
        "give the test more warmup_steps or steps (a script of yours: more readings), and look for other work on the "
        "machine"
    ),
}
"""The next step after a run that was disturbed in this way."""


def loss_advice(workload: Subject) -> str:
    """What to try after the loss of this workload became NaN or infinite, the most likely cause first."""
    if isinstance(workload, Command):
        return "look in the program's data for NaN, and try a lower learning rate"
    steps = []
    if workload.precision is Precision.MIXED_FLOAT16:
        steps.append("try precision='float32', because float16 overflows above 65,504")
    if workload.optimizer is Optimizer.MOMENTUM:
        steps.append("try optimizer='sgd', which takes smaller steps")
    steps.append("look in the input pipeline for NaN and for labels outside of the model's classes")
    steps.append("train the model without pytest-tfperf at the same learning rate, 0.01")
    return "; ".join(steps)


def is_gain(m: Measurement, red: Collection[str] = ()) -> bool:
    """Whether an IMPROVED test has a gain that a new baseline keeps.

    IMPROVED is relative to the drift common to all tests, so on a slower machine such a test may be slower than its
    baseline. `red` has the machines that are REGRESSED as a whole: nothing measured on them is worth recording.
    """
    verdict = m.verdict
    if verdict is None or verdict.outcome is not Outcome.IMPROVED:
        return False
    return (verdict.change or 0.0) > 0 and m.machine not in red
