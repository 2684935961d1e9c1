"""What an outcome means for a test and for the session: DESIGN's table of outcomes, and the exit status."""

from __future__ import annotations

from typing import Final

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Consequence, Outcome

EXIT_GREEN: Final = 0
EXIT_REGRESSED: Final = 1
"""pytest's own status for failed tests."""

EXIT_INTERRUPTED: Final = 2
"""pytest's own status for Ctrl-C."""

EXIT_INTERNAL: Final = 3
"""pytest's own status for a fault of the program itself."""

EXIT_USAGE: Final = 4
"""pytest's own status for a wrong command line."""

EXIT_NOT_MEASURED: Final = 6
"""Nothing regressed as far as is known, but something could not be measured.

pytest itself uses 0 to 5, and from 9.1 on 6 where there are more warnings than `--max-warnings` allows.
"""

EXIT_MACHINE: Final = 7
"""No test regressed, but the machine itself is slower than when its baselines were recorded."""

EXIT_UNFIT: Final = 8
"""`tfperf doctor`: a measurement on this machine would be discarded, lost or wrong."""


def outcome_of(result: Measurement | Comparison) -> Outcome | None:
    """The outcome; None where it was only measured."""
    if isinstance(result, Comparison):
        return result.outcome
    return result.verdict.outcome if result.verdict else None


def consequence(result: Measurement | Comparison, *, require_baseline: bool, strict: bool) -> Consequence:
    """What an outcome does to its test; what was only measured passes, and a provisional reference fails nothing.

    Args:
        result: what a call of the test gave.
        require_baseline: `--tfperf-require-baseline`, the nightly gate.
        strict: `--tfperf-strict`.
    """
    verdict = result.verdict if isinstance(result, Measurement) else None
    if_slower = verdict.if_slower if verdict else Consequence.FAILS
    match outcome_of(result):
        case None:
            return Consequence.PASSES
        case Outcome.PASS | Outcome.IMPROVED:
            # A machine that lost a GPU has another key, and would pass above the documents' floors in every session.
            is_above_floor = verdict is not None and verdict.is_floor
            return Consequence.FAILS if require_baseline and is_above_floor else Consequence.PASSES
        case Outcome.REGRESSED:
            return if_slower
        case Outcome.INCONCLUSIVE:
            return if_slower if strict else Consequence.WARNS
        case Outcome.NO_BASELINE:
            return Consequence.FAILS if require_baseline else Consequence.PASSES
        case Outcome.INVALID:
            return Consequence.ERRORS


def exit_status(
    status: int, *, failed: int, not_measured: int, measured_nothing: bool = False, machine_slower: bool = False
) -> int:
    """The session's status: "regressed", "could not measure" and "the machine is slower" differ.

    Args:
        status: pytest's own: 1 where any test failed or errored, 0 where all is well.
        failed: tests that failed by assertion, a regression among them.
        not_measured: tests that ended in an error because they could not be measured.
        measured_nothing: a nightly gate selected throughput tests, and none of them measured anything.
        machine_slower: the session's verdict on the machine is REGRESSED.
    """
    if status not in (EXIT_GREEN, EXIT_REGRESSED) or failed:
        return status
    if machine_slower:
        return EXIT_MACHINE
    if not_measured or (status == EXIT_GREEN and measured_nothing):
        return EXIT_NOT_MEASURED
    return status
