"""What an outcome means for its test and for the session's exit status."""

from __future__ import annotations

import pytest
from measurements import baseline, measurement, verdict

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.consequence import Consequence, consequence, exit_status
from pytest_tfperf.core.verdict import Outcome

PASSES, WARNS, FAILS, ERRORS = Consequence


@pytest.mark.parametrize(
    ("outcome", "plain", "nightly", "strict"),
    [
        (Outcome.PASS, PASSES, PASSES, PASSES),
        (Outcome.IMPROVED, PASSES, PASSES, PASSES),
        (Outcome.REGRESSED, FAILS, FAILS, FAILS),
        (Outcome.INCONCLUSIVE, WARNS, WARNS, FAILS),
        (Outcome.NO_BASELINE, PASSES, FAILS, PASSES),
        (Outcome.INVALID, ERRORS, ERRORS, ERRORS),
    ],
)
def test_an_outcome_means_what_the_table_of_outcomes_says(
    outcome: Outcome, plain: Consequence, nightly: Consequence, strict: Consequence
) -> None:
    result = measurement(verdict=verdict(outcome))
    assert consequence(result, require_baseline=False, strict=False) is plain
    assert consequence(result, require_baseline=True, strict=False) is nightly
    assert consequence(result, require_baseline=False, strict=True) is strict


@pytest.mark.parametrize(("require_baseline", "happens"), [(False, PASSES), (True, FAILS)])
def test_a_measurement_above_a_floor_fails_only_the_nightly_gate(require_baseline: bool, happens: Consequence) -> None:
    result = measurement(verdict=verdict(Outcome.PASS, is_floor=True))
    assert consequence(result, require_baseline=require_baseline, strict=False) is happens


@pytest.mark.parametrize(
    ("outcome", "happens"),
    [
        (Outcome.PASS, PASSES),
        (Outcome.IMPROVED, PASSES),
        (Outcome.REGRESSED, WARNS),
        (Outcome.INCONCLUSIVE, WARNS),
        (Outcome.INVALID, ERRORS),
    ],
)
def test_earlier_sessions_warn_and_never_fail(outcome: Outcome, happens: Consequence) -> None:
    result = measurement(verdict=verdict(outcome, baseline=baseline(provenance=Provenance.PROVISIONAL)))
    assert consequence(result, require_baseline=False, strict=True) is happens


def test_what_was_only_measured_passes() -> None:
    assert consequence(measurement(), require_baseline=True, strict=True) is PASSES


@pytest.mark.parametrize(
    ("status", "failed", "not_measured", "measured_nothing", "becomes"),
    [
        (0, 0, 0, False, 0),
        (1, 1, 0, False, 1),
        (1, 0, 1, False, 6),  # nothing regressed as far as is known
        (1, 1, 1, False, 1),  # a regression is the graver news
        (1, 0, 0, False, 1),  # another test's failure
        (0, 0, 0, True, 6),
        (1, 1, 0, True, 1),
        (5, 0, 0, True, 5),  # pytest says itself that nothing was collected
        (2, 0, 1, False, 2),  # interrupted
        (3, 0, 1, False, 3),
    ],
)
def test_the_status_tells_a_regression_from_what_could_not_be_measured(
    status: int, failed: int, not_measured: int, measured_nothing: bool, becomes: int
) -> None:
    given = exit_status(status, failed=failed, not_measured=not_measured, measured_nothing=measured_nothing)
    assert given == becomes


@pytest.mark.parametrize(
    ("status", "failed", "not_measured", "becomes"), [(0, 0, 0, 7), (1, 1, 0, 1), (1, 0, 1, 7), (2, 0, 0, 2)]
)
def test_a_slower_machine_has_a_status_of_its_own(status: int, failed: int, not_measured: int, becomes: int) -> None:
    assert exit_status(status, failed=failed, not_measured=not_measured, machine_slower=True) == becomes
