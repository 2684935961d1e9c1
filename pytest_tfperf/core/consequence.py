"""What an outcome means for a test and for the session: the table of outcomes, and the exit status."""

from __future__ import annotations

from typing import Final

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Consequence, Outcome, Verdict

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


def consequence(measurement: Measurement, *, require_baseline: bool, strict: bool) -> Consequence:
    """What the verdicts on a measurement do to its test: the worst of their consequences.

    What was only measured passes, and a provisional baseline fails nothing.

    Args:
        measurement: of a call of the test.
        require_baseline: `--tfperf-require-baseline`, the nightly gate.
        strict: `--tfperf-strict`.
    """
    each = {_of(verdict, require_baseline=require_baseline, strict=strict) for verdict in measurement.verdicts}
    return next((one for one in _WORST_FIRST if one in each), Consequence.PASSES)


_WORST_FIRST: Final = (Consequence.FAILS, Consequence.ERRORS, Consequence.WARNS)


def _of(verdict: Verdict, *, require_baseline: bool, strict: bool) -> Consequence:
    if_slower = verdict.if_slower
    # A machine that lost a GPU has another key, and would never be below the documents' floors.
    lacks_baseline = require_baseline and verdict.is_floor
    match verdict.outcome:
        case None:
            return Consequence.PASSES
        case Outcome.PASS | Outcome.IMPROVED:
            return Consequence.FAILS if lacks_baseline else Consequence.PASSES
        case Outcome.REGRESSED:
            return if_slower
        case Outcome.INCONCLUSIVE:
            return if_slower if strict or lacks_baseline else Consequence.WARNS
        case Outcome.TOO_NOISY:
            if lacks_baseline:
                return Consequence.FAILS
            is_error = require_baseline or (strict and if_slower is Consequence.FAILS)
            return Consequence.ERRORS if is_error else Consequence.WARNS
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
