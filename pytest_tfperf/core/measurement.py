"""One workload measured in one session: what the history keeps and every report reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.breakdown import Breakdown
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import NOTHING, Outcome, Verdict, Wants, combined, worst
from pytest_tfperf.errors import MeasurementError


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A workload measured on a topology in one session.

    Args:
        test: pytest's node id; "" of a log.
        session: the session's id, the same for all of its measurements; "" of a log.
        workload: what was trained, or the user's command that ran.
        topology: nodes x devices per node, as in "1x4".
        machine: the machine's key.
        devices: the devices in words, "2x Tesla P100" or "2 virtual CPU devices on 2 of 2 cores of ...".
        runs: the runs that count, in the order they were made.
        throughput: the runs summarised.
        discarded: disturbed runs, which count for nothing; kept to be shown.
        pairs: interleaved runs of the reference environment (a) and the current one (b).
        discarded_pairs: disturbed pairs, which count for nothing.
        gpu: the GPUs' name, "" on CPUs.
        gpu_fp32_tflops: one GPU's peak FP32 rate; None on CPUs and where it isn't known.
        gpu_memory_gb_per_sec: one GPU's peak memory rate in 10^9 bytes/s; None on CPUs and where it isn't known.
        name: what the test calls the workload in tables and messages; "" for no name of its own.
        file: the log or the exported measurement that was replayed; "" where it was measured.
        verdict: the judgement of its throughput; None where it was only measured.
        figures: what became of each figure that was asked for beside the throughput.
        recording: what a new baseline still wants; None if none is being recorded.
        is_refused: its runs were to be a baseline, and are none.
        document: a published figure for the same workload and topology, shown beside it; it may be of another machine.
        breakdown: what a step's time is spent on; None if no worker measured it.
        profile: a few more steps under TensorFlow's profiler; None where none was asked for.
        environment: software of the worker and settings of the machine, name -> version.
        commit: the git commit of the tests' repository, "" outside of one.
        time: when it finished, ISO 8601 with its zone.
        seconds: how long it took, with compilation and confirmation.
    """

    test: str
    workload: Subject
    topology: str
    machine: str
    devices: str
    runs: tuple[Run, ...]
    throughput: Throughput
    session: str = ""
    discarded: tuple[Run, ...] = ()
    pairs: tuple[Pair, ...] = ()
    discarded_pairs: tuple[Pair, ...] = ()
    gpu: str = ""
    gpu_fp32_tflops: float | None = None
    gpu_memory_gb_per_sec: float | None = None
    name: str = ""
    file: str = ""
    verdict: Verdict | None = None
    figures: tuple[Verdict, ...] = ()
    recording: Wants | None = None
    is_refused: bool = False
    document: Baseline | None = None
    breakdown: Breakdown | None = None
    profile: Profile | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    time: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> Key:
        """What identifies its baseline within the machine's file."""
        return Key(self.workload.id, self.topology)

    @property
    def wants(self) -> Wants:
        """What its new baseline or its verdicts still want."""
        if self.recording is not None:
            return self.recording
        return combined((self.verdict.wants if self.verdict else NOTHING, *(one.wants for one in self.figures)))

    @property
    def outcome(self) -> Outcome | None:
        """The worst of its throughput's and its figures'; None where it was only measured."""
        return worst((self.verdict.outcome if self.verdict else None, *(one.outcome for one in self.figures)))

    @property
    def is_valid(self) -> bool:
        """Whether its throughput can be used; a figure that is INVALID costs only its own value."""
        return self.verdict is None or self.verdict.outcome is not Outcome.INVALID

    @property
    def is_decided(self) -> bool:
        """Whether no further run is wanted, for a verdict or for a baseline."""
        return self.wants == NOTHING

    @property
    def workers(self) -> int:
        """Workers that were started for it: runs, discarded runs, and two for each pair."""
        return max(1, len(self.runs) + len(self.discarded) + 2 * (len(self.pairs) + len(self.discarded_pairs)))

    @property
    def is_test(self) -> bool:
        """Whether `test` is a pytest node id, which can be run again."""
        return "::" in self.test


class InvalidMeasurement(MeasurementError):
    """A `MeasurementError` for what was measured and does not count; `reports.invalid` words it.

    Args:
        verdict: INVALID, and why.
        subject: what was measured.
        runs: those that led to the verdict, at least one.
        where: as in a `MeasurementError`.
    """

    def __init__(self, verdict: Verdict, subject: Subject, runs: Sequence[Run], *, where: str = "") -> None:
        MeasurementError.__init__(self, f"{verdict.outcome}: {verdict.why}", where=where)
        self.verdict, self.subject, self.runs = verdict, subject, tuple(runs)

    @property
    def disturbance(self) -> Disturbance | None:
        """What disturbed the last run; None where nothing did."""
        return next((run.disturbance for run in reversed(self.runs) if run.disturbance), None)


UNSET_BY_DEFAULT = {"threads", "tf32", "xla_flags", "variables", "injected_slowdown"}
"""Names in an environment that are absent where nobody set them, so that setting one is a change."""

OUTSIDE = {"driver", "kernel", "governor", "turbo", "gpu_power_limit", "gpu_power_capped"}
"""Names in an environment that belong to the machine: a reference environment does not bring them back."""


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """One name in two environments, and its values, None where it is not set: "tensorflow 1.3.0 -> 2.21.0"."""

    name: str
    then: str | None
    now: str | None

    def __str__(self) -> str:
        then, now = ("(unset)" if value is None else value for value in (self.then, self.now))
        return f"{self.name} {then} -> {now}"


def changes_since(baseline: Baseline, environment: Mapping[str, str]) -> list[EnvironmentChange]:
    """What differs between a baseline's software and today's, sorted by name."""
    return _changes(dict(part.split("=", 1) for part in baseline.environment.split() if "=" in part), environment)


def changed_since(baseline: Baseline, environment: Mapping[str, str]) -> list[str]:
    """`changes_since` in words: "tensorflow 1.3.0 -> 2.21.0"."""
    return list(map(str, changes_since(baseline, environment)))


def environment_changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What differs between two environments in words, sorted by name."""
    return list(map(str, _changes(then, now)))


def _changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[EnvironmentChange]:
    return [
        EnvironmentChange(name, then.get(name), now.get(name))
        for name in compared_names(then, now)
        if then.get(name) != now.get(name)
    ]


def compared_names(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What two environments can be compared in, sorted.

    A version that only one of them has is left out. A setting that only one of them has was set or unset since.
    """
    names = then.keys() & now.keys()
    if then:
        names |= (then.keys() ^ now.keys()) & UNSET_BY_DEFAULT
    return sorted(names)
