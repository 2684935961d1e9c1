"""A real network between two hosts: a slower one is a regression of the communication, one that is gone an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import namespaces
import pytest
from inner import Project

TESTS = """
    @pytest.mark.multinode
    def test_it(throughput, gpu_topology):
        workload = Workload(model="resnet20", batch_size=8, variable_update="collective")
        throughput.check(workload, on=gpu_topology.nodes(2).take(1), steps=20)
"""

LOSING = """
    import subprocess

    import tensorflow as tf


    def _batches(spec):
        for count in range(1_000_000):
            if count == 20 and spec.input_pipeline_id == 1:
                subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
            yield spec.synthetic()


    def losing(spec):
        return tf.data.Dataset.from_generator(lambda: _batches(spec), output_signature=spec.signature)
"""

LOST = """
    @pytest.mark.multinode
    def test_it(throughput, gpu_topology):
        workload = tiny(4, variable_update="collective", input_pipeline="lost:losing")
        throughput.check(workload, on=gpu_topology.nodes(2).take(1), steps=200)
"""


@pytest.fixture
def options(tmp_path: Path) -> Iterator[list[str]]:
    if why := namespaces.missing():
        pytest.skip(why)
    with namespaces.hosts(tmp_path) as launcher:
        yield [f"--tfperf-launcher={launcher}", "-o", f"tfperf_interface={namespaces.DRIVER}"]


def test_a_slower_link_is_a_regression_of_the_communication(project: Project, options: list[str]) -> None:
    project.tests(TESTS)
    first = project.run(*options)
    fast = project.measured("test_it").throughput.images_per_sec
    project.baseline(
        "resnet20-b8-collective-device", "2x1", reference=fast, lower=-0.2, upper=0.2, runs=5, between_runs=0.03
    )
    namespaces.slow_down(200)
    case = project.run(*options).cases["test_it"]
    assert (first.kinds, case.kind) == ({"test_it": "skipped"}, "failure"), case.text
    assert "  slower      the communication between the ranks" in case.text
    assert "  communication the limit: " in case.text


def test_a_rank_that_loses_its_network_is_to_blame(project: Project, options: list[str]) -> None:
    project.write("lost.py", LOSING)
    project.tests(LOST)
    case = project.run("-o", "tfperf_timeout=15", *options).cases["test_it"]
    assert (case.kind, "rank 1 of 2 on tfperf-b" in case.text) == ("error", True), case.text
