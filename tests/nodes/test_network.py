"""A real network between two hosts: a slower one is a regression of the communication, one that is gone an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from namespaces import Network, missing, network

from tests.helpers.inner import Case, Project
from tests.helpers.patience import PATIENCE_SECONDS

# A step takes 0.1 s on any machine, and both ranks as long, whatever other tests run; only its exchange depends on the
# network.
MODEL = """
    import time

    import keras
    from nets import EachStep


    def sleeping():
        images = keras.Input((8, 8, 3))
        pixels = keras.layers.Flatten()(EachStep(lambda: time.sleep(0.1))(images))
        return keras.Model(images, keras.layers.Dense(10)(keras.layers.Dense(1000)(pixels)))
"""
EXCHANGED_MEGABITS = (8 * 8 * 3 * 1000 + 1000 + 1000 * 10 + 10) * 32 / 1e6
"""What each of two ranks sends in a step: the gradients of all variables."""

SLEEPING = """
    @pytest.mark.multinode
    def test_it(throughput, gpu_topology):
        workload = tiny(model="models:sleeping", variable_update="collective")
        throughput.check(workload, on=gpu_topology.nodes(2).take(1), steps=6)
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


def options(hosts: Network) -> list[str]:
    settings = {"listen": hosts.driver, "timeout": PATIENCE_SECONDS}
    given = [word for name, value in settings.items() for word in ("-o", f"tfperf_{name}={value}")]
    return [f"--tfperf-launcher={hosts.launcher}", *given]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if why := missing():
        pytest.skip(why)
    return tmp_path_factory.mktemp("network")


@pytest.fixture(scope="module")
def slowed(folder: Path) -> Case:
    """The test when its baseline was measured on a fast link, and the link is slow."""
    with network(folder) as hosts, Project(folder / "slowed") as project:
        project.write("models.py", MODEL)
        project.tests(SLEEPING)
        finished = project.run(*options(hosts))
        assert finished.kinds == {"test_it": "passed"}, finished.text
        first = project.measured("test_it")
        row = {"value": first.throughput.examples_per_sec, "lower": -0.2, "upper": 0.2}
        project.baseline("models:sleeping-b1-collective-device", "2x1", runs=5, between_runs=0.03, **row)
        profile = first.runs[0].step_profile
        assert profile is not None
        # The exchange then takes three times as long as the rest of the step: it is most of it, also if it takes half.
        hosts.slow_down(EXCHANGED_MEGABITS / (3 * max(rank.seconds for rank in profile.ranks)))
        # Each of eight runs times 6 steps of about 0.4 s; where they take longer, fewer are enough.
        return project.run("-o", "tfperf_max_time=6", *options(hosts)).cases["test_it"]


def test_a_slower_link_is_a_regression(slowed: Case) -> None:
    assert slowed.kind == "failure", slowed.text


def test_the_communication_is_called_what_slowed_down(slowed: Case) -> None:
    assert "  slower      the communication between the ranks" in slowed.text


def test_the_communication_is_called_the_limit(slowed: Case) -> None:
    assert "  communication the limit: " in slowed.text


def test_a_rank_that_loses_its_network_is_to_blame(folder: Path) -> None:
    with network(folder) as hosts, Project(folder / "lost") as project:
        project.write("lost.py", LOSING)
        project.tests(LOST)
        case = project.run(*options(hosts)).cases["test_it"]
        assert (case.kind, f"rank 1 of 2 on {hosts.hosts[1]}" in case.text) == ("error", True), case.text
