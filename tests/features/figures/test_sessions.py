"""Checks that are judged by figures beside their throughput, with workers, played and real, and a real program."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.run import Run
from tests.helpers.inner import ANY_THROUGHPUT, MACHINE, NOT_MEASURED, Finished, Project

pytestmark = pytest.mark.slow

WORKLOAD = "nets:tiny-b{}-replicated-device"
PROGRAM = """
    import itertools, json, time
    for step in itertools.count(1):
        time.sleep(0.05)
        print(json.dumps({"rate": 100.0 + step % 2, "loss": 1 / step, "eval": {"loss": 2.5}}), flush=True)
"""
TESTS = """
    import sys
    from pytest_tfperf import Command, Figure, Reads

    MEMORY = Figure("peak_memory", absolute=0.0)

    def test_passes(throughput, on):
        throughput.check(tiny(1), on=on, also=("peak_memory", "first_step", Figure("loss", absolute=9.0)))

    def test_needs_more_memory(throughput, on):
        throughput.check(tiny(2), on=on, also=(MEMORY,))

    def test_is_beyond_its_limit(throughput, on):
        throughput.check(tiny(3), on=on, also=(Figure("loss", limit=0.001),))

    def test_has_no_baseline_of_a_figure(throughput, on):
        throughput.check(tiny(4), on=on, also=("loss",))

    def test_misspells_a_figure(throughput, on):
        throughput.check(tiny(5), on=on, also=("peak_memry",))

    def program(throughput, on, name, *also):
        program = Command([sys.executable, "train.py"], name=name, reads=Reads(field="rate"))
        throughput.check(program, on=on, steps=5, also=also)

    def test_a_program_passes(throughput, on):
        figure = Figure("eval_loss", field="eval.loss", takes="first", limit=3.0)
        program(throughput, on, "it", "peak_memory", "first_step", "loss", figure)

    def test_a_program_never_prints_a_figure(throughput, on):
        program(throughput, on, "other", Figure("bleu", field="eval.bleu", takes="first"))
"""


def figure_row(project: Project, workload: str, figure: str, value: float, **row: Any) -> None:
    key, unit = Key(workload, "1x1", figure), Figure(figure).unit or ""
    project.baselines.update(MACHINE, {key: Baseline(machine=MACHINE, key=key, value=value, unit=unit, **row)})


@pytest.fixture(scope="module")
def project(played: Project) -> Project:
    played.tests(TESTS)
    played.write("train.py", PROGRAM)
    for batch in range(1, 6):
        played.baseline(WORKLOAD.format(batch), **ANY_THROUGHPUT)
    played.baseline("it", unit="examples", **ANY_THROUGHPUT)
    for figure, value in (("peak_memory", 2.0**50), ("first_step", 1e6), ("loss", 2.3)):
        figure_row(played, WORKLOAD.format(1), figure, value)
        is_loss = figure == "loss"
        note = "read at reading 4" if is_loss else ""
        figure_row(played, "it", figure, 0.25 if is_loss else value, note=note)
    figure_row(played, WORKLOAD.format(2), "peak_memory", 1.0)
    figure_row(played, WORKLOAD.format(4), "peak_memory", 1.0)
    return played


@pytest.fixture(scope="module")
def session(project: Project) -> Finished:
    return project.run()


KINDS = {
    "test_passes": "passed",
    "test_needs_more_memory": "failure",
    "test_is_beyond_its_limit": "failure",
    "test_has_no_baseline_of_a_figure": "passed",
    "test_misspells_a_figure": "error",
    "test_a_program_passes": "passed",
    "test_a_program_never_prints_a_figure": "error",
}


@pytest.mark.parametrize("name", KINDS)
def test_a_figures_outcome_is_its_tests(session: Finished, name: str) -> None:
    assert session.cases[name].kind == KINDS[name], session.text


def test_a_regression_of_a_figure_is_named_first_and_confirmed_in_fresh_runs(session: Finished) -> None:
    text = session.cases["test_needs_more_memory"].text
    assert text.startswith("peak memory ")
    assert "  confirmed   8 fresh runs: " in text


def test_a_figure_that_is_never_printed_is_an_error_that_names_the_fields(session: Finished) -> None:
    text = session.cases["test_a_program_never_prints_a_figure"].text
    assert "the figure bleu was never printed" in text
    assert "they have rate, loss, eval" in text


def test_a_row_that_no_test_asks_for_is_named_as_stale(session: Finished) -> None:
    stale = f"{MACHINE}.csv: the baseline of peak_memory of {WORKLOAD.format(4)} on 1x1 is stale"
    assert [line for line in session.text.splitlines() if "is stale" in line and stale in line]


def test_the_history_keeps_figures_as_rows(project: Project, session: Finished) -> None:
    assert session.cases
    (path,) = project.folder.glob(".tfperf/history.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "select figure, outcome from tfperf_results where workload = 'it' and figure != ''"
        ).fetchall()
    expected = {("peak_memory", "IMPROVED"), ("first_step", "IMPROVED"), ("loss", "PASS"), ("eval_loss", "PASS")}
    assert set(found) == expected, Path(path)


def test_a_whole_suite_asks_for_a_figure_and_the_nightly_gate_requires_its_baseline(project: Project) -> None:
    found = project.run("-k", "test_passes", "-o", "tfperf_also=loss", "--tfperf-require-baseline")
    assert found.status == 0, found.text
    found = project.run("-k", "test_needs", "-o", "tfperf_also=loss", "--tfperf-require-baseline")
    assert found.cases["test_needs_more_memory"].kind == "failure"


def test_a_figure_that_nobody_knows_in_the_ini_file_is_a_usage_error(project: Project) -> None:
    found = project.run("-o", "tfperf_also=memory")
    assert found.status not in (0, NOT_MEASURED)
    assert "unknown figure 'memory'" in found.text


# Real workers

DRAWS = """
    import os, time
    import numpy as np
    import tensorflow as tf

    class Job:
        examples_per_step = 8

        def __init__(self, first):
            self.first = tf.Variable(first)

        def run(self, steps):
            time.sleep(0.1 * steps)
            return float(tf.reduce_mean(tf.nn.dropout(self.first, 0.5) ** 2))

    class Caches(Job):
        def run(self, steps):
            time.sleep(0.1 * steps)
            return float(os.environ.get("TRITON_ALWAYS_COMPILE", 0))

    def seeded(batch_size, devices):
        return Job(tf.random.normal((64,)))

    def unseeded(batch_size, devices):
        return Job(np.random.default_rng().normal(size=64))

    def caches(batch_size, devices):
        return Caches(0.0)
"""
DRAWING = """
    @pytest.mark.parametrize("name", ["seeded", "unseeded"])
    def test_loss(throughput, on, name):
        throughput.check(tiny(model=f"draws:{name}", trainer="own"), on=on, tolerance=0.5, also=("loss",))

    @pytest.mark.parametrize("also", [("loss",), ("loss", "first_step", "peak_memory")], ids=len)
    def test_caches(throughput, on, also):
        throughput.check(tiny(model="draws:caches", trainer="own"), on=on, also=also)
"""


@pytest.fixture(scope="module")
def trained(shared: Project) -> Project:
    shared.write("draws.py", DRAWS)
    shared.tests(DRAWING)
    return shared


@pytest.fixture(scope="module")
def recorded(trained: Project) -> Finished:
    return trained.run("-k", "test_loss", "--update-baselines")


def test_recording_says_that_a_loss_differs_between_runs_of_one_seed(recorded: Finished) -> None:
    text = recorded.cases["test_loss[unseeded]"].text
    assert "the loss differs between runs of the same seed by more than its tolerance: " in text
    assert "the model may draw random numbers without the seed" in text


def test_each_run_of_ones_own_training_begins_with_the_same_seed(trained: Project, recorded: Finished) -> None:
    assert recorded.kinds["test_loss[seeded]"] == "passed"
    losses = [run.figures["loss"] for run in trained.measured("test_loss[seeded]").runs]
    assert len(losses) >= 5  # a noisy machine takes more
    assert len(set(losses)) == 1


@pytest.fixture(scope="module")
def caches(trained: Project) -> list[Run]:
    """Runs without and with a judged first step."""
    trained.run("-k", "test_caches")
    return [trained.measured(f"test_caches[{figures}]").runs[0] for figures in (1, 3)]


def test_a_worker_whose_first_step_is_judged_compiles_without_caches(caches: list[Run]) -> None:
    assert [run.figures["loss"] for run in caches] == [0, 1]


def test_a_worker_tells_its_first_step_and_its_memory_where_they_are_judged(caches: list[Run]) -> None:
    assert [set(run.figures) for run in caches] == [{"loss"}, {"loss", "first_step", "peak_memory"}]
