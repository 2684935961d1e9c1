"""One test measured in one session, alone or beside another side. The history keeps it, and reports read it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import Self

from pytest_tfperf.core.acknowledgement import Standing
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.profile import Breakdown, Profile
from pytest_tfperf.core.run import Pair, Run, StepParts
from pytest_tfperf.core.speed_variables import FACT, each_apart, is_variable
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import LOSSES, NOTHING, Against, Outcome, Reason, Verdict, Wants, combined, worst
from pytest_tfperf.errors import MeasurementError


class Interleaving(StrEnum):
    """How the two runs of a pair were interleaved."""

    WINDOWS = "interleaved windows"
    RUNS = "alternating runs"


class Ended(StrEnum):
    """The reason why an undecided comparison took no further pair."""

    MAX_PAIRS = "max_pairs is reached"
    MAX_SECONDS = "the next pair would end after max_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSide:
    """The other side of an interleaved measurement: side a. Side b is the measurement's own workload."""

    workload: Subject
    throughput: Throughput  # over side a's run of each pair
    environment: Mapping[str, str]  # software of its workers, name -> version
    topology: str = ""  # its nodes x devices per node, where it ran on other devices than b; "" elsewhere
    name: str = ""  # the workload's name in tables and messages; "" where the test gives none
    breakdown: Breakdown | None = None  # of a step's time; None where no worker measured it
    interleaving: Interleaving = Interleaving.WINDOWS  # how the runs of a pair were interleaved
    fallback: str = ""  # why runs alternated although the pipelines allow interleaved windows; "" otherwise
    ended: Ended | None = None  # why an undecided comparison took no further pair; None where the pairs decide
    at_least: float | None = None  # the ratio b / a that the test requires; None where none is
    document: Baseline | None = None  # the published figure that this ratio is of; None where it is the test's own
    doubt: str = ""  # why it is not proved that each side ran its own code, and what to do; "" where it is
    # whether it is the session's other side, as with --tfperf-base; False for `throughput.compare`, whose two sides
    # both run the current code
    is_of_session: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A workload measured on a topology in one session: runs, or pairs with another side.

    Args:
        test: pytest's node id; "" for a log.
        session: the session's id, the same for all of its measurements; "" for a log.
        workload: the workload that was trained, or the user's command that ran.
        topology: nodes x devices per node, as in "1x4".
        machine: the machine's key.
        devices: the devices in words, "2x Tesla P100" or "2 virtual CPU devices on 2 of 2 cores of ...".
        runs: the runs that count, in order; none beside another side, which is measured in pairs.
        throughput: the summary of the runs; beside another side, of b's run of each pair.
        discarded: disturbed runs, which do not count but are shown.
        pairs: interleaved runs of the other side or the reference environment (a), and of the current code (b).
        discarded_pairs: disturbed pairs, which do not count but are shown.
        gpu: the GPUs' name, "" on CPUs.
        gpu_fp32_tflops: peak FP32 rate of each GPU; None on CPUs and where it isn't known.
        gpu_memory_gb_per_sec: peak memory rate of each GPU in 10^9 bytes/s; None on CPUs and where it isn't known.
        name: the workload's name in tables and messages; "" where the test gives none.
        file: the log or the exported measurement that was replayed; "" where it was measured.
        verdicts: on the throughput, then on each further figure; without an outcome where nothing was judged.
        other: the other side; None where the workload was measured alone.
        recording: the runs that a new baseline still wants; None if none is being recorded.
        is_refused: whether its runs were refused as a baseline.
        document: a published figure for the same workload and topology, perhaps of another machine, to be shown.
        breakdown: of a step's time; None if no worker measured it.
        profile: of a few more steps under TensorFlow's profiler; None where none was asked for.
        environment: software of the worker and settings of the machine, name -> version.
        commit: the git commit of the tests' repository, "" outside of one.
        owner: whom the test belongs to, by its mark, `tfperf_owners` or CODEOWNERS; "" where none of them says.
        time: when it finished, ISO 8601 with its zone.
        seconds: the duration, compilation and confirmation included.
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
    owner: str = ""
    time: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> Key:
        """The key of its baseline within the machine's file."""
        return Key(self.workload.id, self.topology)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the throughput; None where it was only measured."""
        return self.verdicts[0] if self.verdicts and self.verdicts[0].outcome is not None else None

    @property
    def figures(self) -> tuple[Verdict, ...]:
        """The verdicts on the figures beside the throughput."""
        return self.verdicts[1:]

    @property
    def ratio(self) -> float:
        """The throughput divided by the other side's, b / a; NaN without another side."""
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
        """The worst outcome of the verdicts; None where it was only measured."""
        return worst(verdict.outcome for verdict in self.verdicts)

    @property
    def day(self) -> date:
        """The day, in UTC, on which it was measured; the first of all days where that is not known."""
        with suppress(ValueError):
            return date.fromisoformat(self.time[:10])
        return date.min

    @property
    def is_unrecorded(self) -> bool:
        """Whether it has a verdict for which no baseline is recorded."""
        verdict = self.verdict
        return verdict is not None and (
            verdict.against is Against.EARLIER_SESSIONS or verdict.outcome is Outcome.NO_BASELINE
        )

    @property
    def is_acknowledged(self) -> bool:
        """Whether its outcome is a loss that the team knows of, so that it fails nothing."""
        causes = [verdict for verdict in self.verdicts if verdict.outcome is self.outcome]
        return self.outcome in LOSSES and all(verdict.standing(self.day) is Standing.HOLDS for verdict in causes)

    @property
    def is_valid(self) -> bool:
        """Whether the throughput can be used; another figure that is INVALID loses only its own value."""
        return not any(v.outcome is Outcome.INVALID or v.reason is Reason.DIVERGED for v in self.verdicts[:1])

    @property
    def free(self) -> Self:
        """Itself with those of its runs alone that a baseline may rest on.

        Runs of pairs are not among them, because a held program is not at its own speed, nor disturbed runs, nor the
        first run where others followed: it was picked because it was slow.
        """
        is_picked = self.verdict is not None and (len(self.runs) > 1 or bool(self.pairs))
        values = list(zip(self.runs, self.throughput.runs, strict=False))[is_picked:] if self.other is None else []
        kept = [(run, value) for run, value in values if run.disturbance is None]
        throughput = replace(self.throughput, runs=tuple(value for _, value in kept))
        return replace(self, runs=tuple(run for run, _ in kept), throughput=throughput)

    @property
    def is_decided(self) -> bool:
        """Whether no further run is wanted, for a verdict or for a baseline."""
        return self.wants == NOTHING

    @property
    def workers(self) -> int:
        """The number of workers that were started: for runs, discarded runs, and two for each pair."""
        return max(1, len(self.runs) + len(self.discarded) + 2 * (len(self.pairs) + len(self.discarded_pairs)))

    @property
    def is_test(self) -> bool:
        """Whether `test` is a pytest node id, which can be run again."""
        return "::" in self.test


class InvalidMeasurement(MeasurementError):
    """A `MeasurementError` whose runs, at least one, were all INVALID; `reports.invalid` words it."""

    def __init__(self, verdict: Verdict, subject: Subject, runs: Sequence[Run], *, where: str = "") -> None:
        MeasurementError.__init__(self, f"{verdict.outcome}: {verdict.why}", where=where)
        self.verdict, self.subject, self.runs = verdict, subject, tuple(runs)

    @property
    def disturbance(self) -> Disturbance | None:
        """The last disturbance of a run; None where no run was disturbed."""
        return next((run.disturbance for run in reversed(self.runs) if run.disturbance), None)


_UNSET_BY_DEFAULT = {"threads", "tf32", "injected_slowdown"}
"""Names that an environment lacks unless the user sets them, so that their presence is a change."""

MATMUL = "matmul"
"""The name of the matmul rate among the facts that a row was recorded with: measured, so it differs in each session."""

STEP_PARTS = "step_ms"
"""The name of the parts of a program's step among these facts, as in "input:0.478,compute:0.655,other:0.442"."""

MEASURED = "measured"
"""The name of the way in which a program was measured, among the facts of its runs: by its output, or by its steps."""

BY_OUTPUT = "output"

OF_A_RUN = {"gpu_power_capped", "mig_neighbours", "log_warnings"}
"""Names in an environment that the machine's state decides, and that may change from run to run."""

OUTSIDE = {MATMUL, FACT, "driver", "kernel", "governor", "turbo", "gpu_power_limit", "gpu_links", *OF_A_RUN}
"""Names in an environment that belong to the machine or its shell, which a reference environment does not restore."""


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """A name whose value, None where unset, differs between two environments: "tensorflow 1.3.0 -> 2.21.0"."""

    name: str
    then: str | None
    now: str | None

    @property
    def is_outside(self) -> bool:
        """Whether a reference environment does not undo it."""
        return self.name in OUTSIDE or is_variable(self.name)

    def __str__(self) -> str:
        then, now = ("(unset)" if value is None else value for value in (self.then, self.now))
        return f"{self.name} {then} -> {now}"


def changes_since(baseline: Baseline, environment: Mapping[str, str]) -> list[EnvironmentChange]:
    """Return the changes from a baseline's software to today's, sorted by name."""
    return environment_changes(recorded_with(baseline), environment)


def recorded_with(baseline: Baseline) -> dict[str, str]:
    """Return the versions and facts that a row was recorded with, by name."""
    return dict(part.split("=", 1) for part in baseline.environment.split() if "=" in part)


def recorded_parts(baseline: Baseline) -> StepParts | None:
    """Return the parts of a step when a row was recorded; None where it has none, or damaged ones."""
    with suppress(ValueError, TypeError, KeyError):
        parts = (part.split(":") for part in recorded_with(baseline)[STEP_PARTS].split(","))
        return StepParts(**{name: float(milliseconds) / 1e3 for name, milliseconds in parts})
    return None


def parts_fact(parts: StepParts) -> str:
    """Write the parts of a step as a row keeps them, in milliseconds."""
    return ",".join(f"{name}:{1e3 * seconds:.3g}" for name, seconds in asdict(parts).items())


def environment_changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[EnvironmentChange]:
    """Return the changes between two environments, sorted by name.

    A version that only one of them has is left out; a setting or a variable that only one of them has is a change.
    """
    names = (then.keys() & now.keys()) - {MATMUL, STEP_PARTS, FACT}
    if then:
        names |= (then.keys() ^ now.keys()) & _UNSET_BY_DEFAULT
    if FACT in then and FACT in now:
        then, now = each_apart(then), each_apart(now)
        names |= {name for name in then.keys() | now.keys() if is_variable(name)}
    changes = [EnvironmentChange(name, then.get(name), now.get(name)) for name in sorted(names)]
    return [change for change in changes if change.then != change.now]
