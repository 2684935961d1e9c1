"""What an outcome means for its test."""

from __future__ import annotations

import pytest

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.verdict import Consequence, Outcome, Verdict
from pytest_tfperf.judging.consequence import consequence
from tests.helpers.measurements import acknowledged, baseline, measurement, verdict

PASSES, WARNS, FAILS, ERRORS = Consequence


@pytest.mark.parametrize(
    ("outcome", "plain", "nightly", "strict"),
    [
        (Outcome.PASS, PASSES, PASSES, PASSES),
        (Outcome.IMPROVED, PASSES, PASSES, PASSES),
        (Outcome.REGRESSED, FAILS, FAILS, FAILS),
        (Outcome.INCONCLUSIVE, WARNS, WARNS, FAILS),
        (Outcome.TOO_NOISY, WARNS, ERRORS, ERRORS),
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


@pytest.mark.parametrize(
    ("outcome", "plain"),
    [
        (Outcome.PASS, PASSES),
        (Outcome.IMPROVED, PASSES),
        (Outcome.INCONCLUSIVE, WARNS),
        (Outcome.TOO_NOISY, WARNS),
    ],
)
def test_a_floor_is_no_baseline_for_the_nightly_gate(outcome: Outcome, plain: Consequence) -> None:
    result = measurement(verdict=verdict(outcome, is_floor=True))
    assert consequence(result, require_baseline=False, strict=False) is plain
    assert consequence(result, require_baseline=True, strict=False) is FAILS


@pytest.mark.parametrize(
    ("outcome", "happens"),
    [
        (Outcome.PASS, PASSES),
        (Outcome.IMPROVED, PASSES),
        (Outcome.REGRESSED, WARNS),
        (Outcome.INCONCLUSIVE, WARNS),
        (Outcome.TOO_NOISY, WARNS),
        (Outcome.INVALID, ERRORS),
    ],
)
def test_earlier_sessions_warn_and_never_fail(outcome: Outcome, happens: Consequence) -> None:
    result = measurement(verdict=verdict(outcome, baseline=baseline(provenance=Provenance.PROVISIONAL)))
    assert consequence(result, require_baseline=False, strict=True) is happens


def test_what_was_only_measured_passes() -> None:
    assert consequence(measurement(), require_baseline=True, strict=True) is PASSES


THE_SAME, WORSE, RECOVERED = (-0.15, -0.11), (-0.25, -0.21), (-0.01, 0.01)
AFTER_THE_END = "2027-01-16T03:00:00+00:00"


@pytest.mark.parametrize(
    ("outcome", "interval", "plain", "nightly", "strict"),
    [
        (Outcome.REGRESSED, THE_SAME, PASSES, PASSES, PASSES),
        (Outcome.REGRESSED, WORSE, FAILS, FAILS, FAILS),
        (Outcome.INCONCLUSIVE, THE_SAME, PASSES, PASSES, PASSES),
        (Outcome.INCONCLUSIVE, WORSE, WARNS, WARNS, FAILS),
        (Outcome.PASS, RECOVERED, PASSES, PASSES, PASSES),
        (Outcome.TOO_NOISY, THE_SAME, WARNS, ERRORS, ERRORS),
        (Outcome.INVALID, None, ERRORS, ERRORS, ERRORS),
    ],
)
def test_an_acknowledged_loss_passes_unless_it_is_worse(
    outcome: Outcome,
    interval: tuple[float, float] | None,
    plain: Consequence,
    nightly: Consequence,
    strict: Consequence,
) -> None:
    result = measurement(verdict=verdict(outcome, interval=interval, acknowledged=acknowledged()))
    assert consequence(result, require_baseline=False, strict=False) is plain
    assert consequence(result, require_baseline=True, strict=False) is nightly
    assert consequence(result, require_baseline=False, strict=True) is strict


def test_past_its_end_an_acknowledged_loss_fails_the_nightly_gate_alone() -> None:
    of_loss = verdict(Outcome.REGRESSED, interval=THE_SAME, acknowledged=acknowledged())
    result = measurement(verdict=of_loss, time=AFTER_THE_END)
    assert consequence(result, require_baseline=False, strict=True) is WARNS
    assert consequence(result, require_baseline=True, strict=False) is FAILS


def test_an_acknowledged_loss_below_a_floor_lacks_its_baseline_all_the_same() -> None:
    result = measurement(
        verdict=verdict(Outcome.REGRESSED, is_floor=True, interval=THE_SAME, acknowledged=acknowledged())
    )
    assert consequence(result, require_baseline=False, strict=False) is PASSES
    assert consequence(result, require_baseline=True, strict=False) is FAILS


def test_another_figure_that_nobody_acknowledged_fails() -> None:
    known = verdict(Outcome.REGRESSED, interval=THE_SAME, acknowledged=acknowledged())
    result = measurement(verdict=known, figures=(Verdict(outcome=Outcome.REGRESSED, figure=Figure("peak_memory")),))
    assert consequence(result, require_baseline=False, strict=False) is FAILS
