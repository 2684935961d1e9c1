"""What a test may write in also=."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.core.figure import COLD_CACHES, Better, Figure, figures_of, with_cold_caches, with_default
from pytest_tfperf.core.run import Plan
from pytest_tfperf.errors import WorkloadError


def test_a_built_in_figure_has_its_own_defaults() -> None:
    memory = Figure("peak_memory")
    assert (memory.unit, memory.better, memory.tolerance, memory.absolute) == ("bytes", Better.LOWER, 0.02, 64 * 2**20)


def test_a_user_changes_one_default_of_a_built_in_figure() -> None:
    assert Figure("first_step", tolerance=0.5).absolute == 2.0


def test_the_larger_tolerance_is_accepted() -> None:
    figure = Figure("x", field="x", tolerance=0.1, absolute=5.0)
    assert [figure.accepted(target) for target in (10.0, 100.0, -100.0)] == [5.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param({"name": "Eval Loss"}, "lower-case letters", id="name"),
        pytest.param({"name": 3}, "lower-case letters", id="no-text"),
        pytest.param({"name": "x", "better": "up"}, "unknown better 'up'", id="better"),
        pytest.param({"name": "x", "takes": "mean"}, "unknown takes 'mean'", id="takes"),
        pytest.param({"name": "x", "tolerance": -0.1}, "tolerance=-0.1", id="negative"),
        pytest.param({"name": "x", "tolerance": 5}, "tolerance=5 must be a fraction from 0 to below 1", id="percent"),
        pytest.param({"name": "x", "tolerance": True}, "tolerance=True", id="bool"),
        pytest.param({"name": "x", "absolute": float("inf")}, "absolute=inf", id="infinite"),
        pytest.param({"name": "x", "limit": float("nan")}, "limit=nan", id="limit"),
        pytest.param({"name": "x", "limit": "3"}, "limit='3'", id="limit-text"),
        pytest.param({"name": "x", "tolerance": 0}, "noise would fail it", id="no-tolerance"),
        pytest.param({"name": "x", "field": "a", "pattern": "(?P<x>a)"}, "give the one that tells it", id="both"),
        pytest.param({"name": "x", "pattern": "("}, "no regular expression", id="pattern"),
        pytest.param({"name": "x", "pattern": "(a)"}, "one named group", id="group"),
        pytest.param({"name": "peak_memory", "field": "mem"}, "is measured, and not read", id="measured"),
        pytest.param({"name": "first_step", "at_step": 3}, "leave takes and at_step out", id="measured-at-step"),
        pytest.param({"name": "x", "at_step": 0}, "at_step=0 must be a whole number from 1", id="step"),
        pytest.param({"name": "x", "at_step": 1.5}, "at_step=1.5 must be a whole number", id="half-a-step"),
        pytest.param({"name": "x", "at_step": 5, "takes": "first"}, "leave takes or at_step out", id="first-at-step"),
    ],
)
def test_a_figure_that_can_not_be_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        Figure(**arguments)


@pytest.mark.parametrize(
    ("also", "of_a_program", "says"),
    [
        pytest.param(("peak_memry",), False, "Did you mean 'peak_memory'", id="unknown"),
        pytest.param(("eval_loss",), True, "Figure\\('eval_loss', field=", id="own-by-name"),
        pytest.param((Figure("x", field="x"),), False, "a Command prints figures of its own", id="workload"),
        pytest.param((Figure("loss", at_step=5),), False, "is always that of step 10", id="step-of-workload"),
        pytest.param((Figure("loss", takes="median"),), False, "is always that of step 10", id="takes-of-workload"),
        pytest.param((Figure("x"),), True, "say how it is read", id="not-read"),
        pytest.param(("loss", Figure("loss", limit=3)), True, "loss is given twice", id="twice"),
        pytest.param(("retraces",), True, "counted in training that check drives", id="of-workloads"),
        pytest.param((Figure("throughput", field="x"),), True, "give yours another name", id="throughput"),
        pytest.param((3,), True, "must be the name of a figure", id="no-figure"),
        pytest.param(3, True, "must be a tuple", id="no-tuple"),
    ],
)
def test_what_also_can_not_be_is_refused(also: object, of_a_program: bool, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        figures_of(also, of_a_program=of_a_program)


def test_one_name_alone_is_one_figure() -> None:
    assert figures_of("loss", of_a_program=False) == (Figure("loss"),)


def test_a_test_overrides_a_figure_of_the_whole_suite() -> None:
    own = Figure("loss", tolerance=0.2)
    suite = (Figure("loss"), Figure("peak_memory"), Figure("retraces"))
    assert with_default((own,), suite, of_a_program=False) == (own, *suite[1:])
    assert with_default((own,), suite, of_a_program=True) == (own, Figure("peak_memory"))


def test_the_drivers_cache_stays_on_because_it_holds_tensorflows_own_kernels() -> None:
    assert "CUDA_CACHE_DISABLE" not in COLD_CACHES


EARLY = Plan(counts_readings=True)
"""Of a program that is ended when its rate is known."""


@pytest.mark.parametrize(
    "figure",
    [Figure("x", field="x"), Figure("x", field="x", takes="median"), Figure("loss", takes="median")],
    ids=["last", "median", "loss"],
)
def test_a_figure_that_is_read_to_the_end_is_refused_where_programs_are_ended_early(figure: Figure) -> None:
    with pytest.raises(WorkloadError, match="at another step in each run") as refused:
        replace(EARLY, also=(figure,))
    assert "reads=Reads(until_end=True)" in str(refused.value)
    assert replace(EARLY, until_end=True, also=(figure,)).also == (figure,)


@pytest.mark.parametrize(
    "figure",
    [Figure("x", field="x", at_step=9), Figure("x", field="x", takes="first"), Figure("loss"), Figure("peak_memory")],
    ids=["step", "first", "loss", "memory"],
)
def test_a_figure_of_a_fixed_place_is_read_where_programs_are_ended_early(figure: Figure) -> None:
    assert replace(EARLY, also=(figure,)).also == (figure,)


def test_our_example_of_a_pattern_reads_a_number_with_an_exponent() -> None:
    with pytest.raises(WorkloadError, match="one named group") as refused:
        Figure("x", pattern="eval loss (.*)")
    example = re.search("r'(.*)'", str(refused.value))
    assert example
    found = re.search(example[1], "eval loss 1.2e-3 after 5 epochs")
    assert found
    assert found["x"] == "1.2e-3"


def test_a_program_whose_first_step_is_judged_compiles_without_caches() -> None:
    assert with_cold_caches([Figure("loss"), Figure("first_step")], {"A": "b"}) == {**COLD_CACHES, "A": "b"}
    assert with_cold_caches([Figure("loss")], {"A": "b"}) == {"A": "b"}


def test_a_test_that_sets_a_cache_itself_has_its_way() -> None:
    assert with_cold_caches([Figure("first_step")], {"TRITON_ALWAYS_COMPILE": "0"})["TRITON_ALWAYS_COMPILE"] == "0"
