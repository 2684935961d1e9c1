"""How long tests will take, from what is known of them and of tests like them."""

from __future__ import annotations

import pytest

from pytest_tfperf.bench.rerun_queue import runs_missing
from pytest_tfperf.core.verdict import Outcome, Want, Wants
from pytest_tfperf.session.expected_time import seconds_of_a_run
from tests.helpers.measurements import interleaved, measurement, pair, run, verdict


@pytest.mark.parametrize(
    ("result", "seconds"),
    [
        (measurement(seconds=12.0), 12.0),
        (measurement(seconds=12.0, runs=(run(), run()), pairs=(pair(0.0),)), 3.0),
        (interleaved(seconds=30.0), 5.0),
    ],
)
def test_a_run_takes_its_share_of_a_result(result: object, seconds: float) -> None:
    assert seconds_of_a_run(result) == seconds  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("result", "missing"),
    [
        (measurement(verdict=verdict()), 0),
        (measurement(verdict=verdict(Outcome.INCONCLUSIVE, wants=Wants(Want.RUNS, 3))), 2),
        (measurement(verdict=verdict(Outcome.INCONCLUSIVE, wants=Wants(Want.PAIRS, 2))), 4),
        (measurement(verdict=verdict(Outcome.INCONCLUSIVE, wants=Wants(Want.COMMON_DRIFT))), 0),
        (measurement(recording=Wants(Want.RUNS, 5)), 4),
        (interleaved(), 0),
    ],
)
def test_an_undecided_result_misses_runs(result: object, missing: int) -> None:
    assert runs_missing(result) == missing  # type: ignore[arg-type]
