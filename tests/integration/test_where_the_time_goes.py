"""Each result says what it is bound by; a regression, which part slowed down; and what the machine was like."""

from __future__ import annotations

import re

import pytest
from inner import WHATEVER_IT_IS, Finished, Project

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    class TestOnCpus:
        def test_paced(self, throughput, gpu_topology):
            paced = Workload(model="nets:tiny", batch_size=4, input_pipeline="nets:paced")
            throughput.check(paced, on=gpu_topology.take(1))

        def test_resnet(self, throughput, gpu_topology):
            throughput.check(Workload(model="resnet20", batch_size=8), on=gpu_topology.take(1))

        def test_is_asked_twice(self, throughput, gpu_topology):
            throughput.measure(Workload(model="nets:tiny", batch_size=8), on=gpu_topology.take(1))

        def test_dies_over_it(self, throughput, gpu_topology):
            throughput.check(Workload(model="nets:tiny", batch_size=4), on=gpu_topology.take(1))
"""

# One test's worker dies when it is asked what its step is made of; another is asked once more.
FAILING = """
    import os
    import signal
    from pytest_tfperf.workers.worker_run import WorkerRun

    def profile_step(run, **asked):
        if "dies_over_it" in os.environ["PYTEST_CURRENT_TEST"]:
            os.kill(run.process.pid, signal.SIGKILL)
        if "asked_twice" in os.environ["PYTEST_CURRENT_TEST"]:
            profiled(run, **asked)
        return profiled(run, **asked)

    profiled, WorkerRun.profile_step = WorkerRun.profile_step, profile_step
"""


@pytest.fixture(scope="module")
def night(shared: Project) -> Finished:
    """20 batches of 4 a second come, and 800 images did when the row was recorded."""
    shared.write("test_it.py", TESTS)
    shared.write("conftest.py", FAILING)
    shared.baseline("nets:tiny-b4-replicated-nets:paced", reference=800.0, source="a test")
    shared.baseline("resnet20-b8-replicated-device", **WHATEVER_IT_IS)
    shared.baseline("nets:tiny-b4-replicated-device", **WHATEVER_IT_IS)
    return shared.run()


def test_a_throttled_pipeline_is_called_the_limit(night: Finished) -> None:
    assert re.search(r"\n  input       the limit: the pipeline alone gives \d", night.cases["test_paced"].text)


def test_the_pipeline_alone_is_read_at_its_own_rate(shared: Project, night: Finished) -> None:
    # 80 images/s at most; one that lay ready would be read at a thousand times that.
    (record,) = shared.records("test_paced")
    assert 0 < record["breakdown"]["pipeline_images_per_sec"] < 2 * 80


def test_a_slower_pipeline_is_named_after_the_regression(night: Finished) -> None:
    assert "\n  slower      the input pipeline: on data that lies on" in night.cases["test_paced"].text


def test_the_split_is_no_further_result(shared: Project, night: Finished) -> None:
    assert (night.status, len(shared.finished_results())) == (1, 4)


def test_a_model_on_device_data_is_compute_bound(shared: Project, night: Finished) -> None:
    (record,) = shared.records("test_resnet")
    assert record["breakdown"]["bound"] == "compute-bound"


def test_training_counts_three_times_the_references_forward_pass(shared: Project, night: Finished) -> None:
    (record,) = shared.records("test_resnet")
    assert round(record["breakdown"]["multiply_adds_per_image"] / 3 / 1e9, 4) == 0.0406


def test_the_table_says_the_share_of_the_matrix_products_rate(night: Finished) -> None:
    assert re.search(r"resnet20-b8\S+ .* compute >?\d+ % +PASS", night.text)


def test_a_worker_answers_as_often_as_it_is_asked(shared: Project, night: Finished) -> None:
    (record,) = shared.records("test_is_asked_twice")
    assert record["breakdown"]["bound"] == "compute-bound"


def test_a_regression_tells_of_the_machine(night: Finished) -> None:
    assert re.search(r"\n  machine     .*load [\d.]+, others \d+ % of the CPU", night.cases["test_paced"].text)


def test_every_attempt_is_kept_with_what_the_machine_was_like(shared: Project, night: Finished) -> None:
    (record,) = shared.records("test_paced")
    kept = [attempt["conditions"] for attempt in record["trial"]["attempts"]]
    assert f" of {len(kept)} fresh workers" in night.cases["test_paced"].text
    assert all(one["memory_available_bytes_min"] > 0 for one in kept)


def test_a_worker_that_dies_over_it_changes_no_outcome(shared: Project, night: Finished) -> None:
    assert night.cases["test_dies_over_it"].kind == "passed"
    (record,) = shared.records("test_dies_over_it")
    assert record["breakdown"] is None
