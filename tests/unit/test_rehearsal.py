from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import record, throughput

from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.new_baseline import baseline_of, runs_wanted

CALM = [1000.0, 1010.0, 990.0, 1005.0, 995.0]
WILD = [1000.0, 700.0, 1300.0, 800.0, 1200.0]
A_SPELL = [*CALM, 800.0]


def runs(rates: list[float]) -> list[RunValue]:
    return [RunValue(math.log(rate), 0.001, 100) for rate in rates]


def row(rates: list[float], **more: Any) -> Any:
    return baseline_of(replace(record(throughput(*rates)), **more))


def test_runs_that_agree_are_enough() -> None:
    assert runs_wanted(runs(CALM), 5) == 5


def test_fewer_runs_than_asked_for_are_too_few() -> None:
    assert runs_wanted(runs(CALM[:3]), 5) == 5


def test_a_run_in_a_slow_spell_is_made_up_for() -> None:
    assert runs_wanted(runs([*CALM[:4], 800.0]), 5) == 6


def test_runs_that_differ_ask_for_one_more() -> None:
    assert runs_wanted(runs(WILD), 5) == 6


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=20), st.integers(2, 10))
def test_twice_as_many_runs_are_the_end(rates: list[float], least: int) -> None:
    assert runs_wanted(runs(rates), least) <= max(2 * least, len(rates))


def test_the_reference_is_the_runs_middle() -> None:
    assert row(CALM).reference == pytest.approx(1000.0, rel=1e-4)


def test_a_slow_spell_is_left_out() -> None:
    made = row(A_SPELL)
    assert (made.runs, made.reference) == (5, row(CALM).reference)


def test_what_was_left_out_is_noted() -> None:
    assert row(A_SPELL).note == "left out, in slow spells of the machine: 800 images/s"


def test_the_spread_is_the_standard_deviation_of_log_rates() -> None:
    assert row([1000.0, 1000.0 * math.exp(0.02)]).spread == pytest.approx(0.02 / math.sqrt(2), rel=0.01)


def test_runs_that_differ_too_much_are_no_baseline() -> None:
    with pytest.raises(MeasurementError, match="too noisy for a baseline, which was left as it is"):
        row(WILD)


def test_the_commit_is_the_source() -> None:
    assert row(CALM, commit="abc").source == "--update-baselines at abc"


def test_the_environment_is_kept_by_name() -> None:
    assert row(CALM, environment={"tensorflow": "2.21.0", "cuda": "12"}).environment == "cuda=12 tensorflow=2.21.0"


def test_the_gpus_are_carried_over() -> None:
    made = row(CALM, gpu="Tesla P100", gpu_fp32_tflops=10.6)
    assert (made.gpu, made.gpu_fp32_tflops) == ("Tesla P100", 10.6)
