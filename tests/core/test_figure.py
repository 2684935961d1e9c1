"""What a test may write in also=."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.core.baseline import require_plausible
from pytest_tfperf.core.figure import (
    BUILT_IN,
    COLD_CACHES,
    Better,
    Figure,
    Source,
    built_in_of,
    figures_of,
    with_cold_caches,
    with_default,
)
from pytest_tfperf.core.run import Plan
from pytest_tfperf.errors import BaselineError, WorkloadError
from tests.helpers.measurements import KEY, baseline


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
        pytest.param({"name": "first_step", "at_step": 3}, "leave at_step out", id="measured-at-step"),
        pytest.param({"name": "peak_memory", "steps": (1, 3)}, "leave steps out", id="measured-over-steps"),
        pytest.param({"name": "x", "at_step": 0}, "at_step=0 must be a whole number from 1", id="step"),
        pytest.param({"name": "x", "at_step": 1.5}, "at_step=1.5 must be a whole number", id="half-a-step"),
        pytest.param({"name": "x", "at_step": 5, "takes": "first"}, "leave takes or at_step out", id="first-at-step"),
        pytest.param({"name": "loss", "steps": 50}, "as \\(50, 100\\)", id="one-step"),
        pytest.param({"name": "loss", "steps": (100, 50)}, "as \\(50, 100\\)", id="steps-backwards"),
        pytest.param({"name": "loss", "steps": (0, 50)}, "as \\(50, 100\\)", id="step-0"),
        pytest.param(
            {"name": "loss", "steps": (5, 9), "at_step": 7}, "leave at_step and takes out", id="steps-and-step"
        ),
        pytest.param({"name": "loss", "steps": (5, 9), "takes": "median"}, "leave at_step and takes out", id="median"),
        pytest.param({"name": "x", "counts": "["}, "counts='\\[' is no regular expression", id="counts"),
        pytest.param({"name": "x", "counts": "a", "field": "a"}, "field and counts are given", id="counts-and-field"),
        pytest.param({"name": "x", "counts": "a", "takes": "median"}, "leave takes out", id="median-of-a-count"),
        pytest.param({"name": "x", "counts": "a", "steps": (5, 9)}, "leave steps out", id="count-over-steps"),
        pytest.param({"name": "loss", "counts": "a"}, "give the count a name of its own", id="built-in-count"),
    ],
)
def test_a_figure_that_can_not_be_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        Figure(**arguments)


@pytest.mark.parametrize(
    ("also", "source", "says"),
    [
        pytest.param(("peak_memry",), Source.WORKER, "Did you mean 'peak_memory'", id="unknown"),
        pytest.param(("eval_loss",), Source.OUTPUT, "Figure\\('eval_loss', field=", id="own-by-name"),
        pytest.param((Figure("x", field="x"),), Source.WORKER, "a Command prints figures of its own", id="workload"),
        pytest.param((Figure("loss", at_step=5),), Source.WORKER, "is that of step 10, or with", id="step-of-workload"),
        pytest.param(
            (Figure("loss", takes="median"),), Source.PROBE, "is that of step 10, or with", id="takes-of-steps"
        ),
        pytest.param((Figure("loss", steps=(1, 9)),), Source.WORKER, "must begin at 2: step 1 compiles", id="step-1"),
        pytest.param((Figure("x"),), Source.OUTPUT, "say how it is read", id="not-read"),
        pytest.param(("loss", Figure("loss", limit=3)), Source.OUTPUT, "loss is given twice", id="twice"),
        pytest.param(("input_wait",), Source.WORKER, "is not known of a workload, which has", id="of-steps"),
        pytest.param(
            ("recompiles",), Source.OUTPUT, "A Command without reads= is measured by its steps", id="of-output"
        ),
        pytest.param(("retraces",), Source.WORKER, "Write 'compilations'.* record its baselines again", id="renamed"),
        pytest.param((Figure("retraces"),), None, "Write 'compilations'", id="renamed-figure"),
        pytest.param((Figure("throughput", field="x"),), Source.OUTPUT, "give yours another name", id="throughput"),
        pytest.param((3,), Source.OUTPUT, "must be the name of a figure", id="no-figure"),
        pytest.param(3, Source.OUTPUT, "must be a tuple", id="no-tuple"),
    ],
)
def test_what_also_can_not_be_is_refused(also: object, source: Source | None, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        figures_of(also, source)


@pytest.mark.parametrize(
    ("source", "lacks"),
    [
        (Source.WORKER, {"input_wait", "recompiles", "graph_breaks"}),
        (Source.PROBE, set()),
        (Source.OUTPUT, {"input_wait", "compilations", "recompiles", "graph_breaks"}),
    ],
)
def test_what_is_measured_has_its_figures(source: Source, lacks: set[str]) -> None:
    has = built_in_of(source)
    assert set(has) == set(BUILT_IN) - lacks
    assert [figure.name for figure in figures_of(has, source)] == list(has)


def test_one_name_alone_is_one_figure() -> None:
    assert figures_of("loss", Source.WORKER) == (Figure("loss"),)


def test_a_test_overrides_a_figure_of_the_whole_suite() -> None:
    own = Figure("loss", tolerance=0.2)
    suite = (Figure("loss"), Figure("peak_memory"), Figure("compilations"))
    assert with_default((own,), suite, Source.WORKER) == (own, *suite[1:])
    assert with_default((own,), suite, Source.OUTPUT) == (own, Figure("peak_memory"))


def test_the_drivers_cache_stays_on_because_it_holds_tensorflows_own_kernels() -> None:
    assert "CUDA_CACHE_DISABLE" not in COLD_CACHES


EARLY = Plan(counts_readings=True)
"""Of a program that is ended when its rate is known."""


@pytest.mark.parametrize(
    "figure",
    [
        Figure("x", field="x"),
        Figure("x", field="x", takes="median"),
        Figure("loss", takes="median"),
        Figure("x", counts="x"),
    ],
    ids=["last", "median", "loss", "count"],
)
def test_a_figure_that_is_read_to_the_end_is_refused_where_programs_are_ended_early(figure: Figure) -> None:
    with pytest.raises(WorkloadError, match="at another step in each run") as refused:
        replace(EARLY, also=(figure,))
    assert "until_end=True in Reads(...)" in str(refused.value)
    assert replace(EARLY, until_end=True, also=(figure,)).also == (figure,)


@pytest.mark.parametrize(
    "figure",
    [
        Figure("x", field="x", at_step=9),
        Figure("x", field="x", takes="first"),
        Figure("loss"),
        Figure("peak_memory"),
        Figure("x", counts="x", at_step=9),
        Figure("loss", steps=(5, 9)),
    ],
    ids=["step", "first", "loss", "memory", "count", "mean"],
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


def test_a_count_is_exact() -> None:
    count = Figure("warnings", counts="WARNING", at_step=200)
    assert (count.accepted(100.0), count.is_count, count.better) == (0.0, True, Better.LOWER)
    assert Figure("compilations").accepted(3.0) == 0.0


def test_the_mean_over_steps_is_worse_in_both_directions() -> None:
    assert Figure("loss", steps=(50, 100)).signs == (-1, 1)


@pytest.mark.parametrize(
    ("name", "unit", "value", "says"),
    [
        ("retraces", "", 1.0, "figure 'retraces': no figure has this name any more. Write 'compilations'"),
        ("compilations", "", -1.0, "compilations is at least 0"),
        ("input_wait", "share", 1.5, "a share, from 0 to 1"),
        ("input_wait", "%", 0.5, "input_wait is in share"),
        ("first_step", "s", 0.0, "first_step is above 0 s"),
    ],
)
def test_a_row_whose_value_its_figure_can_not_have_is_refused(name: str, unit: str, value: float, says: str) -> None:
    with pytest.raises(BaselineError, match=says):
        require_plausible(baseline(value, key=KEY._replace(figure=name), unit=unit))


@pytest.mark.parametrize(("name", "unit"), [("compilations", ""), ("input_wait", "share")])
def test_a_row_of_a_count_or_a_share_may_be_0(name: str, unit: str) -> None:
    require_plausible(baseline(0.0, key=KEY._replace(figure=name), unit=unit))
