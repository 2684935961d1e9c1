"""What earlier sessions measured, as later verdicts need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Outcome


@dataclass(frozen=True, slots=True)
class PastSession:
    """The last measurement that one session made against one baseline row.

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
