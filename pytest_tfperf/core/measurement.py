"""One test measured in one session, by itself or beside another side: what the history keeps and reports read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.breakdown import Breakdown
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import NOTHING, Outcome, Verdict, Wants, combined, worst
from pytest_tfperf.errors import MeasurementError


class Interleaving(StrEnum):
    """How the two runs of a pair were interleaved."""

    WINDOWS = "interleaved windows"
    RUNS = "alternating runs"


class Ended(StrEnum):
    """Why no further pair was taken although the pairs decide nothing."""

    MAX_PAIRS = "max_pairs is reached"
    MAX_SECONDS = "the next pair would end after max_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSide:
    """The other side of an interleaved measurement: side a. Side b is the measurement's own workload.

    Args:
        workload: what ran there.
        throughput: over the other side's run of each pair.
        environment: software of its workers, name -> version.
        name: what tables and messages call the workload; "" for no name of its own.
        breakdown: what a step's time is spent on; None where no worker was asked.
        interleaving: how the runs of a pair were interleaved.
        fallback: why windows were not interleaved although the pipelines allow it; "" where they were, or do not.
        ended: why there are no more pairs although they decide nothing; None where they decide.
        is_of_session: whether it is the session's other side, as with --tfperf-base; False for a `throughput.compare`,
            whose two sides both run the current code.
    """

    workload: Subject
    throughput: Throughput
    environment: Mapping[str, str]
    name: str = ""
    breakdown: Breakdown | None = None
    interleaving: Interleaving = Interleaving.WINDOWS
    fallback: str = ""
    ended: Ended | None = None
    is_of_session: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A workload measured on a topology in one session: runs, or pairs with another side.

    Args:
        test: pytest's node id; "" of a log.
        session: the session's id, the same for all of its measurements; "" of a log.
        workload: what was trained, or the user's command that ran.
        topology: nodes x devices per node, as in "1x4".
        machine: the machine's key.
        devices: the devices in words, "2x Tesla P100" or "2 virtual CPU devices on 2 of 2 cores of ...".
        runs: the runs that count, in the order they were made; none beside another side, which is measured in pairs.
        throughput: the runs summarised; beside another side, b's run of each pair.
        discarded: disturbed runs, which count for nothing; kept to be shown.
        pairs: interleaved runs of the other side or the reference environment (a), and of the current code (b).
        discarded_pairs: disturbed pairs, which count for nothing.
        gpu: the GPUs' name, "" on CPUs.
        gpu_fp32_tflops: one GPU's peak FP32 rate; None on CPUs and where it isn't known.
        gpu_memory_gb_per_sec: one GPU's peak memory rate in 10^9 bytes/s; None on CPUs and where it isn't known.
        name: what the test calls the workload in tables and messages; "" for no name of its own.
        file: the log or the exported measurement that was replayed; "" where it was measured.
        verdicts: on the throughput, then on each figure that was asked for; without an outcome where nothing was
            judged.
        other: the other side; None where the workload was measured by itself.
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
    verdicts: tuple[Verdict, ...] = ()
    other: MeasuredSide | None = None
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
    def verdict(self) -> Verdict | None:
        """The verdict on its throughput; None where that was only measured."""
        return next((verdict for verdict in self.verdicts[:1] if verdict.outcome is not None), None)

    @property
    def figures(self) -> tuple[Verdict, ...]:
        """The verdicts on its figures beside the throughput."""
        return self.verdicts[1:]

    @property
    def ratio(self) -> float:
        """Its throughput over the other side's, b / a; NaN without another side."""
        return math.nan if self.other is None else 1 + (self.verdicts[0].change or 0.0)

    @property
    def ratio_interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of `ratio`; infinite or NaN where it is not known."""
        if self.other is None:
            return math.nan, math.nan
        low, high = self.verdicts[0].interval or (-1.0, math.inf)
        return 1 + low, 1 + high

    @property
    def wants(self) -> Wants:
        """The runs or pairs that its new baseline or its verdicts still want."""
        return self.recording or combined(verdict.wants for verdict in self.verdicts)

    @property
    def outcome(self) -> Outcome | None:
        """The worst outcome of its verdicts; None where it was only measured."""
        return worst(verdict.outcome for verdict in self.verdicts)

    @property
    def is_valid(self) -> bool:
        """Whether its throughput can be used; a figure that is INVALID costs only its own value."""
        return not any(verdict.outcome is Outcome.INVALID for verdict in self.verdicts[:1])

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
