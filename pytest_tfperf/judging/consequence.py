"""The consequence of its verdicts for a test: the table of outcomes."""

from __future__ import annotations

from typing import Final

from pytest_tfperf.core.acknowledgement import Standing
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import LOSSES, Consequence, Outcome, Verdict


def consequence(measurement: Measurement, *, require_baseline: bool, strict: bool) -> Consequence:
    """Return the worst consequence that the verdicts on a measurement have for its test.

    A measurement without an outcome passes, and a provisional baseline fails nothing. A loss that the team knows of
    passes until the end of its acknowledgement; past the end it fails the nightly gate alone, `require_baseline`.
    """
    consequences = {
        _of(verdict, verdict.standing(measurement.day), require_baseline=require_baseline, strict=strict)
        for verdict in measurement.verdicts
    }
    return next((worst for worst in _WORST_FIRST if worst in consequences), Consequence.PASSES)


_WORST_FIRST: Final = (Consequence.FAILS, Consequence.ERRORS, Consequence.WARNS)


def _of(verdict: Verdict, standing: Standing | None, *, require_baseline: bool, strict: bool) -> Consequence:
    if_slower = verdict.if_slower
    # A machine that lost a GPU has another key, and would never be below the documents' floors.
    lacks_baseline = require_baseline and verdict.is_floor
    if verdict.outcome in LOSSES and standing is Standing.HOLDS and not lacks_baseline:
        return Consequence.PASSES
    match verdict.outcome:
        case None:
            return Consequence.PASSES
        case Outcome.PASS | Outcome.IMPROVED:
            return Consequence.FAILS if lacks_baseline else Consequence.PASSES
        case Outcome.REGRESSED:
            # An end that comes must not turn the sessions of bystanders red.
            return Consequence.WARNS if standing is Standing.ENDED and not require_baseline else if_slower
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
