from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from measurements import KEY, WORKLOAD, attempt, baseline, record, throughput

from pytest_tfperf.core.measurement import changed_since
from pytest_tfperf.core.run import Trial
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import Noise


def plain(**more: Any) -> Any:
    """A record through JSON as it stands in the history: strict readers know no NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(json.dumps(record(**more).to_json()), parse_constant=refuse)


def test_the_key_is_workload_and_topology() -> None:
    assert record().key == KEY


def test_a_node_id_is_a_test() -> None:
    assert record(test="perf_tests/test_a.py::test_b").is_test


def test_a_log_is_no_test() -> None:
    assert not record(test="logs/azure-test1.log").is_test


def test_a_workload_becomes_its_id() -> None:
    assert plain()["workload"] == WORKLOAD.id


def test_what_is_no_finite_number_becomes_a_word_as_in_a_comparison() -> None:
    found = plain(now=throughput(1.0, high=math.inf, low=-math.inf, loss=math.nan))["throughput"]
    assert (found["high"], found["low"], found["loss"]) == ("inf", "-inf", "nan")


def test_the_windows_are_kept_as_they_were() -> None:
    found = plain(trial=Trial((attempt([0.25, 0.5]),)))
    assert [w["seconds"] for w in found["trial"]["attempts"][0]["windows"]] == [0.25, 0.5]


def test_a_verdict_is_kept_with_its_numbers() -> None:
    noise = Noise(0.01, math.inf, "assumed")
    found = plain(verdict=judge(throughput(870.0), baseline(), Tolerance(), noise, most_runs=1))["verdict"]
    assert (found["outcome"], found["baseline"]["reference"], found["noise"]["spread"]) == ("REGRESSED", 1000.0, 0.01)


@given(st.lists(st.floats(), min_size=1), st.text(), st.dictionaries(st.text(), st.text()))
def test_any_record_is_json(seconds: list[float], test: str, environment: dict[str, str]) -> None:
    windows = plain(trial=Trial((attempt(seconds),)), test=test, environment=environment)
    assert windows["environment"] == environment


def test_what_changed_since_a_baseline_is_told_by_name() -> None:
    row = baseline(environment="tensorflow=1.3.0 cuda_build=12 keras=3.15.1")
    today = {"tensorflow": "2.21.0", "keras": "3.15.1", "cuda_build": "13"}
    assert changed_since(row, today) == ["cuda_build 12 -> 13", "tensorflow 1.3.0 -> 2.21.0"]


def test_a_row_of_before_two_facts_were_renamed_is_still_held_against_todays() -> None:
    row = baseline(environment="cuda=12.5.1 cudnn=9")
    today = {"cuda_build": "12.5.1", "cudnn_build": "10", "cuda_loaded": "12.9", "cudnn_loaded": "9.28.0"}
    assert changed_since(row, today) == ["cudnn_build 9 -> 10"]


def test_what_only_one_side_knows_has_not_changed() -> None:
    assert changed_since(baseline(environment="tensorflow=1.3.0"), {"keras": "3"}) == []


def test_a_setting_that_only_one_side_has_was_set_or_unset() -> None:
    row = baseline(environment="tensorflow=2.21.0 xla_flags=--a")
    found = changed_since(row, {"tensorflow": "2.21.0", "threads": "4", "variables": "NCCL_ALGO=Ring"})
    assert found == ["threads (unset) -> 4", "variables (unset) -> NCCL_ALGO=Ring", "xla_flags --a -> (unset)"]


def test_a_row_that_recorded_nothing_tells_of_no_change() -> None:
    assert changed_since(baseline(environment=""), {"threads": "4"}) == []


def test_a_value_may_hold_an_equals_sign() -> None:
    assert changed_since(baseline(environment="options=a=1"), {"options": "a=2"}) == ["options a=1 -> a=2"]


@given(st.text())
def test_any_text_of_a_baseline_is_read(environment: str) -> None:
    assert all(line.endswith("-> (unset)") for line in changed_since(baseline(environment=environment), {}))
