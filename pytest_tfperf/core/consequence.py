"""What an outcome means for a test and for the session: DESIGN's table of outcomes, and the exit status."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.settings import Settings

EXIT_GREEN: Final = 0
EXIT_REGRESSED: Final = 1
"""pytest's own status for failed tests."""

EXIT_USAGE: Final = 4
"""pytest's own for what can't be asked for."""

EXIT_NOT_MEASURED: Final = 6
"""Nothing regressed as far as is known, but something could not be measured; pytest itself uses 0 to 5."""


class Consequence(StrEnum):
    """What happens to the test."""

    PASSES = "passes"
    WARNS = "warns"
    FAILS = "fails"
    SKIPS = "skips"
    ERRORS = "errors"


def outcome_of(judged: Measurement | Comparison) -> Outcome | None:
    """The outcome; None where it was only measured."""
    if isinstance(judged, Comparison):
        return judged.outcome
    return judged.verdict.outcome if judged.verdict else None


def consequence(judged: Measurement | Comparison, settings: Settings) -> Consequence:
    """What an outcome does to its test; what was only measured passes."""
    match outcome_of(judged):
        case None:
            return Consequence.PASSES
        case Outcome.PASS | Outcome.IMPROVED:
            return Consequence.FAILS if settings.require_baseline and _above_a_floor(judged) else Consequence.PASSES
        case Outcome.REGRESSED:
            return Consequence.FAILS
        case Outcome.INCONCLUSIVE:
            return Consequence.FAILS if settings.strict else Consequence.WARNS
        case Outcome.NO_BASELINE:
            return Consequence.FAILS if settings.require_baseline else Consequence.SKIPS
        case Outcome.INVALID:
            return Consequence.ERRORS


def _above_a_floor(judged: Measurement | Comparison) -> bool:
    """Whether a document's figure for weaker GPUs is all that it was held against: that is no baseline of this machine.

    A machine that lost a GPU has another key, and would else pass against the documents every night.
    """
    return isinstance(judged, Measurement) and judged.verdict is not None and judged.verdict.floor


def exit_status(status: int, *, failed: int, not_measured: int, measured_nothing: bool = False) -> int:
    """The session's status: "regressed" and "could not measure" differ.

    Args:
        status: pytest's own: 1 where any test failed or errored, 0 where all is well.
        failed: tests that failed by assertion, a regression among them.
        not_measured: tests that ended in a MeasurementError.
        measured_nothing: a nightly gate selected throughput tests, and not one came to a measurement.
    """
    if status == EXIT_REGRESSED and not failed and not_measured:
        return EXIT_NOT_MEASURED
    if status == EXIT_GREEN and measured_nothing:
        return EXIT_NOT_MEASURED
    return status
