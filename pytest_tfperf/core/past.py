"""Values that are read from the history: earlier results, for tables, plots and later verdicts; lasting changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum, auto
from typing import Final, NamedTuple, Self

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Better, Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import NOTHING, Against, Outcome

PROVISIONAL: Final = " (provisional)"
"""The end of the word of an outcome against earlier sessions."""


def moment(time: str) -> datetime:
    """Parse an ISO time; without a zone it is taken as UTC, and any other text is the oldest of all times."""
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


class Series(NamedTuple):
    """The identity of a series: values with the same one, one or more of each session, are its points."""

    machine: str
    test: str  # pytest's node id
    # workload, topology: the workload's id, and nodes x devices per node
    workload: str
    topology: str
    figure: str = ""  # "" for the throughput

    @property
    def key(self) -> Key:
        """The key of its baseline within the machine's file."""
        return Key(self.workload, self.topology, self.figure)


class Value(NamedTuple):
    """The throughput of an earlier measurement, or one of its other figures: a row of the history."""

    series: Series
    session: str  # the session's id
    at: int  # when the measurement finished, in seconds since 1970, UTC
    unit: str  # of the throughput, as in `Run`: "images", "tokens"; of another figure its own
    value: float  # the throughput in units per second; another figure's value, which may be 0 or negative, in its unit
    # low, high: its 95 % confidence interval; of another figure the value twice, because no interval is known
    low: float
    high: float
    outcome: Outcome | None  # of this figure alone; None where it was not judged, or not decided yet
    runs: int  # fresh runs or pairs that count
    seconds: float  # of all workers of the measurement
    # the worst outcome of the test's figures, as tables show it: "PASS (provisional)"; "" for none
    test_outcome: str = ""
    baseline: float | None = None  # the baseline that it was judged against; None where there was none
    commit: str = ""  # of the tests' repository, "" outside of one
    is_slowed_on_purpose: bool = False  # whether `--tfperf-inject-slowdown` was given
    is_provisional: bool = False  # whether it was judged against earlier sessions, for lack of a row
    place: str = ""  # where a program printed the values, as "at step 400"; "" for a measured figure
    name: str = ""  # the workload's name in the test, "" where the test gives none
    figure: Figure | None = None  # the figure, as the test asks for it now; None for the throughput
    number: int = 0  # the measurement's in this history, in the order of recording; 0 outside of one

    @classmethod
    def of(cls, measurement: Measurement) -> Value:
        """Make the value of a measurement's throughput."""
        m, t = measurement, measurement.throughput
        verdict = m.verdict if m.verdict is not None and m.verdict.is_decided else None
        is_slowed = "injected_slowdown" in m.environment
        is_provisional = verdict is not None and verdict.against is Against.EARLIER_SESSIONS
        worst_of_all = m.outcome if m.is_decided else None
        is_of_rate = verdict is not None and verdict.outcome is worst_of_all
        has_row = verdict is not None and verdict.against is Against.BASELINE and not is_slowed
        return cls(
            series=series_of(m),
            session=m.session,
            at=seconds_of(m.time),
            unit=t.unit,
            value=t.examples_per_sec,
            low=t.low,
            high=t.high,
            outcome=verdict.outcome if verdict else None,
            runs=len(m.runs or m.pairs),
            seconds=m.seconds,
            test_outcome=_word(worst_of_all, is_provisional=is_provisional and is_of_rate),
            baseline=verdict.baseline.value if verdict and verdict.baseline and has_row else None,
            commit=m.commit,
            is_slowed_on_purpose=is_slowed,
            is_provisional=is_provisional,
            name=m.name,
        )

    @classmethod
    def of_figures(cls, measurement: Measurement) -> list[Value]:
        """Make the value of each further figure that was measured."""
        of_rate = cls.of(measurement)
        return [
            of_rate._replace(
                series=of_rate.series._replace(figure=verdict.figure.name),
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
    def machine(self) -> str:
        """The machine's name."""
        return self.series.machine

    @property
    def test(self) -> str:
        """Pytest's node id."""
        return self.series.test

    @property
    def workload(self) -> str:
        """The workload's id."""
        return self.series.workload

    @property
    def topology(self) -> str:
        """Nodes x devices per node."""
        return self.series.topology

    @property
    def key(self) -> Key:
        """Workload, topology and figure: the key of the value among those of its machine."""
        return self.series.key

    @property
    def time(self) -> str:
        """When the measurement finished, ISO 8601 in UTC."""
        return time_of(self.at)

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
        of_test = self.test_outcome.removesuffix(PROVISIONAL)
        return tuple(Outcome(word) for word in (self.outcome, of_test) if word)


def series_of(measurement: Measurement) -> Series:
    """Return the series of a measurement's throughput."""
    m = measurement
    return Series(*map(storable, (m.machine, m.test, m.workload.id, m.topology)))


def storable(text: str) -> str:
    r"""Return a text that a history accepts: lone surrogates are escaped as `\udc80`."""
    return text.encode(errors="backslashreplace").decode()


def seconds_of(time: str) -> int:
    """Return an ISO time in seconds since 1970; see `moment`."""
    return math.floor(moment(time).timestamp())


def time_of(at: int) -> str:
    """Return a time in seconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def _word(outcome: Outcome | None, *, is_provisional: bool) -> str:
    return f"{outcome}{PROVISIONAL if is_provisional else ''}" if outcome else ""


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
