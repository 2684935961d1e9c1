"""What the history knows: earlier measurements, for tables, plots and later verdicts, and lasting changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, Self

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Better, Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Against, Outcome

_PROVISIONAL: Final = " (provisional)"


@lru_cache(maxsize=2**18)  # a year of 300 tests, each read several times
def moment(time: str) -> datetime:
    """An ISO time; one without a zone is taken as UTC, and text that is no time as the oldest of all."""
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """What the history knows about a measurement, or about one of its figures, without reading all of it.

    Args:
        id: of the measurement, the same in every history that holds it.
        session: the session's id.
        time: when it finished, ISO 8601 with its zone.
        test: pytest's node id.
        name: what the test called the workload; "" for no name of its own.
        machine: the machine's key.
        workload, topology: the workload's id, and nodes x devices per node.
        unit: what was counted: "images", "tokens".
        value: the throughput in units per second; of a figure its value in its unit, which may be 0 or negative.
        low, high: its 95 % confidence interval; of a figure the value twice, because none is known.
        outcome: of the throughput or the figure alone; None where it was not judged, or not decided yet.
        is_provisional: whether it was judged against earlier sessions, for want of a row.
        test_outcome: the worst of the throughput's and all figures' outcomes, as tables show it: "PASS (provisional)";
            "" for none.
        reference: of the row that it was judged against; None where there is none.
        runs: fresh runs that count.
        seconds: that all of its workers took.
        commit: the git commit of the tests' repository, "" outside of one.
        is_slowed_on_purpose: whether `--tfperf-inject-slowdown` was given.
        place: where a program printed a figure's values, as "at step 400"; "" for what is measured.
        figure: what unit, values, outcome and reference are of, as the test asks for it now; None for the throughput.
    """

    id: str
    session: str
    time: str
    test: str
    machine: str
    workload: str
    topology: str
    unit: str
    value: float
    low: float
    high: float
    outcome: Outcome | None
    runs: int
    seconds: float
    name: str = ""
    test_outcome: str = ""
    reference: float | None = None
    commit: str = ""
    is_slowed_on_purpose: bool = False
    is_provisional: bool = False
    place: str = ""
    figure: Figure | None = None

    @classmethod
    def of(cls, measurement: Measurement) -> Self:
        """What a history that keeps this measurement says of it; `id` is empty."""
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
            reference=verdict.baseline.reference if verdict and verdict.baseline and has_row else None,
            runs=len(m.runs or m.pairs),
            seconds=m.seconds,
            commit=m.commit,
            is_slowed_on_purpose=is_slowed,
        )

    @classmethod
    def of_figures(cls, measurement: Measurement) -> list[Self]:
        """The same of each of its figures that was measured."""
        whole = cls.of(measurement)
        return [
            replace(
                whole,
                unit=one.figure.unit or "",
                value=one.value,
                low=one.value,
                high=one.value,
                outcome=one.outcome if one.is_decided else None,
                is_provisional=False,
                reference=one.compared_with,
                place=" and ".join(one.places),
                figure=one.figure,
            )
            for one in measurement.figures
            if one.value is not None
        ]

    def is_like(self, other: PastResult) -> bool:
        """Whether the two are of one series: they count the same, and were printed at the same place."""
        return (self.unit, self.place) == (other.unit, other.place)

    @property
    def better(self) -> Better:
        """Which change is good."""
        return Better.HIGHER if self.figure is None else Better(self.figure.better or "")

    @property
    def outcome_word(self) -> str:
        """Its own outcome as tables show it, "PASS (provisional)"; "" for none."""
        return _word(self.outcome, is_provisional=self.is_provisional)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Its own outcome and its test's; the test's may be of a figure that could not be measured."""
        of_test = self.test_outcome.removesuffix(_PROVISIONAL)
        return tuple(Outcome(one) for one in (self.outcome, of_test) if one)

    @property
    def key(self) -> Key:
        """Workload, topology and figure, which one machine's results are told apart by."""
        return Key(self.workload, self.topology, self.figure.name if self.figure else "")


def _word(outcome: Outcome | None, *, is_provisional: bool) -> str:
    return f"{outcome}{_PROVISIONAL if is_provisional else ''}" if outcome else ""


@dataclass(frozen=True, slots=True)
class SessionChanges:
    """How the runs of an earlier session changed against a baseline row: its last measurement against it.

    Args:
        session: the session's id.
        changes: of each run ln(images/s / reference), less the drift common to all tests of that session.
        outcome: what the session decided.
    """

    session: str
    changes: tuple[float, ...]
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierMeasurement:
    """What one measurement of an earlier session gave, for a provisional reference.

    Args:
        session: the session's id.
        date: ISO date.
        unit: what was counted, as in `Run`.
        gpu: the GPUs' name, "" on CPUs.
        runs: the values of its undisturbed runs.
        environment, commit: as in `Measurement`.
    """

    session: str
    date: str
    unit: str
    gpu: str
    runs: tuple[RunValue, ...]
    environment: Mapping[str, str]
    commit: str = ""

    @classmethod
    def of(cls, measurement: Measurement) -> Self:
        """What a later session will know of this measurement."""
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


class ChangeKind(StrEnum):
    """`step`: from one session to the next; `decline`, `rise`: little by little, over a week or longer."""

    STEP = "step"
    DECLINE = "decline"
    RISE = "rise"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastingChange:
    """One lasting change of a throughput or a figure that the history shows.

    Args:
        machine: the machine's key.
        test: pytest's node id; None where all tests of the machine changed together.
        key: workload, topology and figure; None where `test` is.
        kind: a step, or a slow decline or rise.
        session, time: the first session after the step, or of the slow change.
        last_session: the last session of a slow change; the same as `session` for a step.
        found_session: the session that first had enough points to tell.
        commit_before, commit_after: commits of the tests' repository, in the last session before and in `session`.
        size: as a fraction of the value before, -0.03 for 3 % slower; over the whole of a slow change.
        low, high: its 95 % confidence interval.
        sessions_since: sessions with a measurement of it from `session` on, that one included.
        better: which change is good.
    """

    machine: str
    test: str | None
    key: Key | None
    kind: ChangeKind
    session: str
    time: str
    last_session: str
    found_session: str
    commit_before: str
    commit_after: str
    size: float
    low: float
    high: float
    sessions_since: int
    better: Better = Better.HIGHER

    @property
    def is_worse(self) -> bool:
        """Whether it is a change for the worse; each one is of a figure that should stay the same."""
        return self.better is Better.SAME or (self.size < 0) == (self.better is Better.HIGHER)
