from __future__ import annotations

import pytest
from measurements import record

from pytest_tfperf.core.consequence import Consequence, consequence, exit_status
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.settings import Settings

PLAIN = Settings()
NIGHTLY = Settings(require_baseline=True)
STRICT = Settings(strict=True)


@pytest.mark.parametrize("settings", [PLAIN, NIGHTLY, STRICT], ids=["plain", "nightly", "strict"])
@pytest.mark.parametrize(
    ("outcome", "happens"),
    [
        (Outcome.PASS, Consequence.PASSES),
        (Outcome.IMPROVED, Consequence.PASSES),
        (Outcome.REGRESSED, Consequence.FAILS),
        (Outcome.INVALID, Consequence.ERRORS),
    ],
)
def test_most_outcomes_mean_the_same_everywhere(settings: Settings, outcome: Outcome, happens: Consequence) -> None:
    assert consequence(record(verdict=Verdict(outcome=outcome)), settings) is happens


@pytest.mark.parametrize(
    ("settings", "happens"), [(PLAIN, Consequence.WARNS), (NIGHTLY, Consequence.WARNS), (STRICT, Consequence.FAILS)]
)
def test_a_doubt_fails_only_where_that_is_asked_for(settings: Settings, happens: Consequence) -> None:
    assert consequence(record(verdict=Verdict(outcome=Outcome.INCONCLUSIVE)), settings) is happens


@pytest.mark.parametrize(
    ("settings", "happens"), [(PLAIN, Consequence.SKIPS), (NIGHTLY, Consequence.FAILS), (STRICT, Consequence.SKIPS)]
)
def test_a_missing_baseline_fails_only_the_nightly_gate(settings: Settings, happens: Consequence) -> None:
    assert consequence(record(verdict=Verdict(outcome=Outcome.NO_BASELINE)), settings) is happens


@pytest.mark.parametrize(
    ("settings", "happens"), [(PLAIN, Consequence.PASSES), (NIGHTLY, Consequence.FAILS), (STRICT, Consequence.PASSES)]
)
def test_what_is_only_above_a_floor_fails_the_nightly_gate(settings: Settings, happens: Consequence) -> None:
    assert consequence(record(verdict=Verdict(outcome=Outcome.PASS, floor=True)), settings) is happens


def test_what_was_only_measured_passes() -> None:
    assert consequence(record(verdict=None), NIGHTLY) is Consequence.PASSES


@pytest.mark.parametrize(
    ("status", "failed", "not_measured", "measured_nothing", "becomes"),
    [
        (0, 0, 0, False, 0),
        (1, 1, 0, False, 1),
        (1, 0, 1, False, 6),  # nothing regressed as far as is known
        (1, 1, 1, False, 1),  # a regression is the graver news
        (1, 0, 0, False, 1),  # somebody else's failure
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
