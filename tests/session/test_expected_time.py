"""How long tests will take, from what is known of them and of tests like them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.bench.rerun_queue import runs_missing
from pytest_tfperf.core.verdict import Outcome, Want, Wants
from pytest_tfperf.session.expected_time import run_seconds, seconds_of_a_run
from tests.helpers.measurements import interleaved, measurement, pair, run, verdict

GUESSES = {"a.py::f[1]": 6.0, "a.py::f[2]": 6.0, "a.py::g": 6.0, "b.py::h": 15.0}


def test_a_test_that_was_never_timed_takes_as_long_as_those_most_like_it() -> None:
    known = {"a.py::f[1]": 10.0, "a.py::other": 20.0}
    assert run_seconds(GUESSES, known, {}) == {
        "a.py::f[1]": 10.0,
        "a.py::f[2]": 10.0,
        "a.py::g": 15.0,
        "b.py::h": 15.0,
    }


def test_what_this_session_measured_counts_most() -> None:
    assert run_seconds(GUESSES, {"a.py::f[1]": 10.0}, {"a.py::f[1]": 4.0})["a.py::f[1]"] == 4.0


def test_a_session_at_half_the_speed_is_expected_to_stay_so() -> None:
    known = dict.fromkeys(GUESSES, 5.0)
    spent = {test: 10.0 for test in GUESSES if test != "b.py::h"}
    assert run_seconds(GUESSES, known, spent)["b.py::h"] == 10.0


@given(
    st.dictionaries(st.sampled_from(sorted(GUESSES)), st.floats(0.1, 1e3)),
    st.dictionaries(st.sampled_from(sorted(GUESSES)), st.floats(0.1, 1e3)),
)
def test_each_test_takes_some_time(known: dict[str, float], spent: dict[str, float]) -> None:
    found = run_seconds(GUESSES, known, spent)
    assert found.keys() == GUESSES.keys()
    assert all(seconds > 0 for seconds in found.values())


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
