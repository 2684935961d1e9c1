"""Each result says what it is bound by; a regression, which part slowed down, and how busy the machine was.

The session is a verbose one, which shows each run as tf_cnn_benchmarks does.
"""

from __future__ import annotations

import re

import pytest

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Bound
from pytest_tfperf.features.replay import tf_cnn_log
from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

pytestmark = pytest.mark.slow

TESTS = """
    def test_paced(throughput, on):
        throughput.check(tiny(4, input_pipeline="nets:paced"), on=on)

    def test_one_step(throughput, on):
        throughput.check(tiny(4), on=on, steps=1, warmup_steps=0)

    def test_dies_in_the_profile(throughput, on):
        throughput.check(tiny(4, input_pipeline="nets:deadly"), on=on)
"""


@pytest.fixture(scope="module")
def session(shared: Project) -> Finished:
    """20 batches of 4 a second come, and 800 images did when the row was recorded."""
    shared.tests(TESTS)
    shared.baseline("nets:tiny-b4-replicated-nets:paced", value=800.0, source="a test")
    for pipeline in ("device", "nets:deadly"):
        shared.baseline(f"nets:tiny-b4-replicated-{pipeline}", **ANY_THROUGHPUT)
    return shared.run("-v")


@pytest.fixture(scope="module")
def paced(session: Finished, shared: Project) -> Measurement:
    return shared.measured("test_paced")


def test_a_throttled_pipeline_is_called_the_limit(session: Finished) -> None:
    assert re.search(r"\n  input       the limit: the pipeline alone gives \d", session.cases["test_paced"].text)


def test_the_pipeline_alone_is_measured_at_its_own_rate(paced: Measurement) -> None:
    # 80 images/s at most; a batch that lay ready would be read at a thousand times that.
    assert paced.breakdown is not None
    assert 0 < (paced.breakdown.pipeline_examples_per_sec or 0) < 2 * 80


def test_a_regression_of_the_pipeline_is_followed_by_a_run_on_device_data(session: Finished) -> None:
    assert "\n  slower      the input pipeline: on device data " in session.cases["test_paced"].text


def test_each_run_of_a_test_is_labelled_with_what_it_is(session: Finished) -> None:
    labels = re.findall(r"^(.+): compiled in \d+\.\d s$", session.text, re.MULTILINE)
    assert labels == [*["run 1"] * 3, *[f"confirmation run {number}" for number in range(2, 9)], "on device data"]


@pytest.fixture
def first_run(session: Finished) -> str:
    """What was written of it in tf_cnn_benchmarks' lines."""
    heading = "Step\tImg/sec\ttotal_loss\n"
    return heading + session.text.split(heading)[1]


def test_a_run_shows_the_lines_of_tf_cnn_benchmarks(first_run: str) -> None:
    step = r"(\d+)\timages/sec: \d+\.\d \+/- \d+\.\d \(jitter = \d+\.\d\)\t\d+\.\d{3}"
    assert re.findall(f"^{step}$", first_run, re.MULTILINE) == ["1", "10", "15"]


def test_the_lines_of_a_run_can_be_replayed(first_run: str) -> None:
    run = tf_cnn_log.parse(first_run, "pytest's output").run(1)
    assert sum(window.steps for window in run.windows) == 15


def test_a_log_has_no_escape_codes(session: Finished) -> None:
    assert "\x1b" not in session.text


def test_the_run_on_device_data_is_not_part_of_the_result(session: Finished, shared: Project) -> None:
    assert (session.status, len(list(shared.history.rows()))) == (1, 3)


def test_a_test_in_doubt_runs_again_after_all_others_and_shows_its_earlier_run(
    session: Finished, paced: Measurement
) -> None:
    names = re.findall(r"^test_it\.py::(\w+) (?:PASSED|FAILED)", session.text, re.MULTILINE)
    assert names == ["test_one_step", "test_dies_in_the_profile", "test_paced"]
    first = f"{paced.throughput.runs[0].examples_per_sec:.2f}"
    assert f"\n  confirmed   8 of 8 fresh runs: {first}  " in session.cases["test_paced"].text


def test_one_step_has_a_breakdown_and_a_verdict_because_it_is_no_smoke_run(session: Finished, shared: Project) -> None:
    measured = shared.measured("test_one_step")
    assert measured.throughput.steps == 1
    assert measured.breakdown is not None
    assert (measured.breakdown.bound, measured.verdict is None) == (Bound.COMPUTE, False)
    assert "smoke" not in session.text


def test_the_table_shows_the_share_of_the_rate_of_matrix_products(session: Finished) -> None:
    assert re.search(
        r"^PASS +tiny-b4-replicated-device .* compute: >?\d+ % of the matmul rate", session.text, re.MULTILINE
    )


def test_a_regression_shows_how_busy_the_machine_was(session: Finished, paced: Measurement) -> None:
    assert re.search(r"\n  machine     .*load [\d.]+", session.cases["test_paced"].text)
    telemetry = [run.telemetry for run in paced.runs]
    assert all(run is not None and (run.memory_available_bytes_min or 0) > 0 for run in telemetry)


def test_a_worker_that_dies_in_the_profile_changes_no_outcome(session: Finished, shared: Project) -> None:
    assert session.cases["test_dies_in_the_profile"].kind == "passed", session.text
    assert shared.measured("test_dies_in_the_profile").breakdown is None
