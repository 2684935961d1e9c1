"""What a trial keeps of a test's measurements."""

from __future__ import annotations

import math

import pytest

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.trial.sessions import result_of
from tests.helpers.measurements import baseline, measurement, verdict


def test_of_a_tests_calls_the_largest_change_and_the_worst_outcome_are_kept() -> None:
    calls = [verdict(Outcome.REGRESSED, -0.1), verdict(Outcome.PASS, -0.2)]
    kept = result_of([measurement(verdict=of_call) for of_call in calls])
    assert (kept.outcome, kept.change) == (Outcome.REGRESSED, pytest.approx(math.log(0.8)))


def test_a_verdict_against_earlier_sessions_is_no_outcome_of_a_trial() -> None:
    provisional = verdict(Outcome.REGRESSED, -0.2, baseline=baseline(provenance=Provenance.PROVISIONAL))
    kept = result_of([measurement(verdict=provisional)])
    assert (kept.outcome, kept.throughput_outcome) == (None, None)


def test_the_drift_that_all_tests_share_is_no_noise_of_a_test() -> None:
    drifted = verdict(Outcome.PASS, -0.1, common_drift=math.log(0.9))
    assert result_of([measurement(verdict=drifted)]).change == pytest.approx(0.0)
