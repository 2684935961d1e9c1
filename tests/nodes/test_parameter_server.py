"""A parameter server for two nodes: rank 0 trains on the devices of both, and rank 1 is to blame where it goes."""

from __future__ import annotations

import pytest
from launchers import LOCAL_SILENCE_SECONDS

from tests.helpers.inner import Finished, Project

PIPELINES = """
    import os
    import signal

    import psutil
    import tensorflow as tf


    def _other():
        siblings = psutil.Process().parent().children()
        return next(process.pid for process in siblings if process.pid != os.getpid())


    def _ending(how):
        def batches(spec):
            for count in range(1_000_000):
                if count == 20:
                    os.kill(_other(), how)
                yield spec.synthetic()

        def pipeline(spec):
            return tf.data.Dataset.from_generator(lambda: batches(spec), output_signature=spec.signature)
        return pipeline


    killing = _ending(signal.SIGKILL)
    stopping = _ending(signal.SIGSTOP)
"""

TESTS = """
    @pytest.mark.multinode
    @pytest.mark.parametrize("input_pipeline", ["device", "host", "faults:killing", "faults:stopping"])
    def test_it(throughput, gpu_topology, input_pipeline):
        workload = tiny(4, variable_update="parameter_server", input_pipeline=input_pipeline)
        throughput.check(workload, on=gpu_topology.nodes(2).take(2), steps=100)


    @pytest.mark.multinode
    def test_texts(throughput, gpu_topology):
        texts = tiny(4, model="bert-tiny", variable_update="parameter_server", unit="tokens")
        throughput.check(texts, on=gpu_topology.nodes(2).take(1), steps=20)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    with Project(tmp_path_factory.mktemp("server")) as project:
        project.write("faults.py", PIPELINES)
        project.tests(TESTS)
        return project.run("-o", f"tfperf_timeout={LOCAL_SILENCE_SECONDS}")


@pytest.mark.parametrize("input_pipeline", ["device", "host"])
def test_it_trains_on_the_devices_of_all_nodes(finished: Finished, input_pipeline: str) -> None:
    case = finished.cases[f"test_it[{input_pipeline}]"]
    assert (case.kind, " measured in " in finished.text) == ("passed", True), finished.text
    assert "2x2" in finished.text


def test_rank_0_counts_the_tokens_of_all(finished: Finished) -> None:
    assert finished.cases["test_texts"].kind == "passed", finished.text


@pytest.mark.parametrize(
    ("fault", "said"), [("faults:killing", "was ended by SIGKILL"), ("faults:stopping", "said nothing for")]
)
def test_a_rank_that_lends_its_devices_and_goes_is_named(finished: Finished, fault: str, said: str) -> None:
    case = finished.cases[f"test_it[{fault}]"]
    assert (case.kind, "rank 1 of 2 on " in case.text, said in case.text) == ("error", True, True), case.text
