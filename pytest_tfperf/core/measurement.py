"""One finished measurement, with everything that history and reports read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.breakdown import Breakdown
from pytest_tfperf.core.canary import Canaries
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.run import Trial
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import Verdict
from pytest_tfperf.core.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A workload measured on a topology.

    Args:
        test: pytest's node id; "" of a log.
        file: the log or the recorded trial that was replayed; "" where it was measured.
        workload: what was trained.
        topology: nodes x devices per node, as in "1x4".
        machine: the machine's key.
        devices: the devices in words, "2 x Tesla P100" or "2 virtual CPU devices".
        gpu: the GPUs' name, "" on CPUs.
        gpu_fp32_tflops: one GPU's peak FP32 rate; None on CPUs and where it isn't known.
        trial: the raw windows.
        throughput: what came of them.
        verdict: what it was judged to be; None where it was only measured.
        runs_wanted: fresh runs in all that it takes, for a verdict or for a baseline.
        document: a published figure for the same workload and topology, maybe of another machine, to show beside it.
        canaries: what the machine gave by itself meanwhile; None where nobody looked.
        breakdown: where the time went; None where no worker was asked.
        environment: software of the worker and the machine, name -> version.
        commit: the git commit of the tests' repository, "" outside of one.
        time: when it finished, ISO 8601 with its zone.
        seconds: how long it took, compiling and confirming included.
    """

    test: str
    workload: Workload
    topology: str
    machine: str
    devices: str
    trial: Trial
    throughput: Throughput
    gpu: str = ""
    gpu_fp32_tflops: float | None = None
    file: str = ""
    verdict: Verdict | None = None
    document: Baseline | None = None
    runs_wanted: int = 0
    canaries: Canaries | None = None
    breakdown: Breakdown | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    time: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> Key:
        """What identifies its baseline within the machine's file."""
        return Key(self.workload.id, self.topology)

    @property
    def undecided(self) -> bool:
        """Whether it takes more fresh runs than there are, or waits for the night's other tests."""
        waits = self.verdict is not None and self.verdict.waits
        return waits or self.runs_wanted > len(self.trial.attempts)

    @property
    def is_test(self) -> bool:
        """Whether `test` is a pytest node id, which can be run again."""
        return "::" in self.test

    def to_json(self) -> dict[str, Any]:
        """Plain values, the workload as its id; numbers that JSON lacks become words, as in a `Comparison`."""
        whole: dict[str, Any] = plain(dataclasses.asdict(self) | {"workload": self.workload.id})
        return whole


# These said what TensorFlow was built with, and read as if they were what it runs with.
_RENAMED = {"cuda": "cuda_build", "cudnn": "cudnn_build"}


def environment_of(baseline: Baseline) -> dict[str, str]:
    """A baseline's software, name to version."""
    return dict(part.split("=", 1) for part in baseline.environment.split() if "=" in part)


SETTINGS = {"threads", "tf32", "xla_flags", "variables", "injected_slowdown"}
"""Names in an environment that are absent where nobody set them, so that setting one is a change."""


def changed_since(baseline: Baseline, environment: Mapping[str, str]) -> list[str]:
    """What differs between a baseline's software and today's: "tensorflow 1.3.0 -> 2.21.0", sorted by name.

    Of a version that only one of the two knows nothing is said; a setting that only one has was set, or unset.
    """
    then, now = _by_todays_names(environment_of(baseline)), _by_todays_names(environment)
    names = then.keys() & now.keys()
    if then:
        names |= (then.keys() ^ now.keys()) & SETTINGS
    return [
        f"{name} {then.get(name, '(unset)')} -> {now.get(name, '(unset)')}"
        for name in sorted(names)
        if then.get(name) != now.get(name)
    ]


def _by_todays_names(environment: Mapping[str, str]) -> dict[str, str]:
    return {_RENAMED.get(name, name): value for name, value in environment.items()}
