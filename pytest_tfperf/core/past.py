"""Values that are read from the history: earlier results, for tables, plots and later verdicts; lasting changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum, auto
from typing import Final, Self

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Better, Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import NOTHING, Against, Outcome

_PROVISIONAL: Final = " (provisional)"


def moment(time: str) -> datetime:
    """Parse an ISO time; without a zone it is taken as UTC, and any other text is the oldest of all times."""
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """The throughput of an earlier measurement, or one of its other figures, as the history's columns have it."""

    id: str  # the measurement's, the same in every history that holds it; `session` is the session's id
    session: str
    time: str  # when it finished, ISO 8601 with its zone
    test: str  # pytest's node id; `name` is the workload's in the test, "" where the test gives none
    machine: str
    # workload, topology: the workload's id, and nodes x devices per node
    workload: str
    topology: str
    unit: str  # of the throughput, as in `Run`: "images", "tokens"; of another figure its own
    value: float  # the throughput in units per second; another figure's value, which may be 0 or negative, in its unit
    # low, high: its 95 % confidence interval; of another figure the value twice, because no interval is known
    low: float
    high: float
    outcome: Outcome | None  # of this figure alone; None where it was not judged, or not decided yet
    runs: int  # fresh runs that count; `seconds` is the time of all workers
    seconds: float
    name: str = ""
    # the worst outcome of the test's figures, as tables show it: "PASS (provisional)"; "" for none
    test_outcome: str = ""
    baseline: float | None = None  # the baseline that it was judged against; None where there was none
    commit: str = ""  # of the tests' repository, "" outside of one
    is_slowed_on_purpose: bool = False  # whether `--tfperf-inject-slowdown` was given
    is_provisional: bool = False  # whether it was judged against earlier sessions, for lack of a row
    place: str = ""  # where a program printed the values, as "at step 400"; "" for a measured figure
    figure: Figure | None = None  # the figure, as the test asks for it now; None for the throughput

    @classmethod
    def of(cls, measurement: Measurement) -> Self:
        """Make the result of a measurement's throughput; `id` is empty."""
        m, t = measurement, measurement.throughput
        verdict = m.verdict if m.verdict is not None and m.verdict.is_decided else None
        is_slowed = "injected_slowdown" in m.environment
        is_provisional = verdict is not None and verdict.against is Against.EARLIER_SESSIONS
        worst_of_all = m.outcome if m.is_decided else None
        is_of_rate = verdict is not None and verdict.outcome is worst_of_all
        has_row = verdict is not None and verdict.against is Against.BASELINE and not is_slowed
        return cls(
            id="",
            session=m.session,
            time=m.time,
            test=m.test,
            name=m.name,
            machine=m.machine,
            workload=m.workload.id,
            topology=m.topology,
            unit=t.unit,
            value=t.examples_per_sec,
            low=t.low,
            high=t.high,
            outcome=verdict.outcome if verdict else None,
            is_provisional=is_provisional,
            test_outcome=_word(worst_of_all, is_provisional=is_provisional and is_of_rate),
            baseline=verdict.baseline.value if verdict and verdict.baseline and has_row else None,
            runs=len(m.runs or m.pairs),
            seconds=m.seconds,
            commit=m.commit,
            is_slowed_on_purpose=is_slowed,
        )

    @classmethod
    def of_figures(cls, measurement: Measurement) -> list[Self]:
        """Make the result of each further figure that has a value; `id` is empty."""
        whole = cls.of(measurement)
        return [
            replace(
                whole,
                unit=verdict.figure.unit or "",
                value=verdict.value,
                low=verdict.value,
                high=verdict.value,
                outcome=verdict.outcome if verdict.is_decided else None,
                is_provisional=False,
                baseline=verdict.compared_with,
                place=" and ".join(verdict.places),
                figure=verdict.figure,
            )
            for verdict in measurement.figures
            if verdict.value is not None
        ]

    @property
    def better(self) -> Better:
        """The direction in which it is better."""
        return Better.HIGHER if self.figure is None else Better(self.figure.better or "")

    @property
    def outcome_word(self) -> str:
        """Its own outcome as tables show it, "PASS (provisional)"; "" for none."""
        return _word(self.outcome, is_provisional=self.is_provisional)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Its own outcome and its test's; the test's may be of a figure that could not be measured."""
        of_test = self.test_outcome.removesuffix(_PROVISIONAL)
        return tuple(Outcome(word) for word in (self.outcome, of_test) if word)

    @property
    def key(self) -> Key:
        """Workload, topology and figure: the key of the result among those of its machine."""
        return Key(self.workload, self.topology, self.figure.name if self.figure else "")


def _word(outcome: Outcome | None, *, is_provisional: bool) -> str:
    return f"{outcome}{_PROVISIONAL if is_provisional else ''}" if outcome else ""


@dataclass(frozen=True, slots=True)
class SessionChanges:
    """The changes of an earlier session's runs from a baseline row, by the last measurement against that row."""

    session: str
    # ln(images/s / baseline) of each run, less the drift common to all tests of that session
    changes: tuple[float, ...]
    outcome: Outcome
    code: str = ""  # commit and environment, as one text; "" where they are not known, such as of a changed work tree


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierMeasurement:
    """A measurement of an earlier session, for a provisional baseline."""

    session: str
    date: str  # ISO date
    unit: str
    gpu: str  # the GPUs' name, "" on CPUs
    runs: tuple[RunValue, ...]  # the values of its undisturbed runs
    environment: Mapping[str, str]
    commit: str = ""

    @classmethod
    def of(cls, measurement: Measurement) -> Self:
        """Make the value that a later session will read."""
        values = zip(measurement.runs, measurement.throughput.runs, strict=True)
        return cls(
            session=measurement.session,
            date=measurement.time[:10],
            unit=measurement.throughput.unit,
            gpu=measurement.gpu,
            runs=tuple(value for run, value in values if run.disturbance is None),
            environment=measurement.environment,
            commit=measurement.commit,
        )


class NotProvisional(StrEnum):
    """The reasons why no provisional baseline rests on a measurement."""

    SLOWED_ON_PURPOSE = auto()
    REFUSED = auto()
    """As a recorded baseline, or the recording did not come to its end."""
    UNDECIDED = auto()
    REGRESSED = auto()
    INVALID = auto()
    DISTURBED = auto()
    """Each of its runs was."""


def not_provisional(m: Measurement) -> NotProvisional | None:
    """Return why no later session's provisional baseline rests on a measurement; None where it may."""
    if "injected_slowdown" in m.environment:
        return NotProvisional.SLOWED_ON_PURPOSE
    if m.is_refused or m.recording not in (None, NOTHING):
        return NotProvisional.REFUSED
    if not m.is_decided:
        return NotProvisional.UNDECIDED
    match m.verdict.outcome if m.verdict else None:
        case Outcome.REGRESSED:
            return NotProvisional.REGRESSED
        case Outcome.INVALID:
            return NotProvisional.INVALID
    return None if any(run.disturbance is None for run in m.runs) else NotProvisional.DISTURBED


class ChangeKind(StrEnum):
    """`step`: from one session to the next; `decline`, `rise`: gradually, over a week or longer."""

    STEP = "step"
    DECLINE = "decline"
    RISE = "rise"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastingChange:
    """A lasting change of a throughput or another figure over sessions."""

    machine: str
    test: str | None  # pytest's node id; None where all tests of the machine changed together
    key: Key | None  # workload, topology and figure; None where `test` is
    kind: ChangeKind
    # session, time: the first session after the step, or of the slow change
    session: str
    time: str
    last_session: str  # the last session of a slow change; the same as `session` for a step
    found_session: str  # the session that first had enough points to detect it
    # commit_before, commit_after: commits of the tests' repository, in the last session before and in `session`
    commit_before: str
    commit_after: str
    size: float  # fraction of the value before, -0.03 for 3 % slower; of a slow change over its whole course
    # low, high: its 95 % confidence interval
    low: float
    high: float
    sessions_since: int  # sessions that measured it from `session` on, which is included
    better: Better = Better.HIGHER  # the direction in which the figure is better
    # before, now: the level before it and that of the latest sessions, in the figure's unit; of a test's throughput
    # without the drift of its machine, whose own levels are ratios
    before: float = 0.0
    now: float = 0.0

    @property
    def is_worse(self) -> bool:
        """Whether it is a change for the worse, as every change is of a figure that should stay the same."""
        return self.better is Better.SAME or (self.size < 0) == (self.better is Better.HIGHER)
