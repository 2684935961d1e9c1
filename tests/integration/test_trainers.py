"""Keras' `fit` in a worker: measured, compared and judged as our loop is; what can't be trained yet is skipped."""

from __future__ import annotations

import pytest
from inner import WHATEVER_IT_IS, Finished, Project

MEASURED = [(1, "device"), (2, "nets:synthetic")]


@pytest.fixture(scope="module")
def finished(shared: Project) -> Finished:
    shared.write(
        "test_it.py",
        """
        import pytest
        from pytest_tfperf import Workload

        LOOP = Workload(model="nets:tiny", batch_size=1)
        FIT = LOOP.with_(trainer="keras")

        @pytest.mark.cpu
        class TestOnCpus:
            @pytest.mark.parametrize(("devices", "input_pipeline"), [(1, "device"), (2, "nets:synthetic")])
            def test_fit(self, throughput, gpu_topology, devices, input_pipeline):
                on = gpu_topology.take(devices)
                found = throughput.check(FIT.with_(input_pipeline=input_pipeline), on=on)
                assert (found.steps, found.images_per_step) == (15, devices)

            def test_turns(self, throughput, gpu_topology):
                found = throughput.compare(LOOP, FIT, on=gpu_topology.take(1), max_seconds=1e-9)
                assert found.how == "turns"

        @pytest.mark.cpu
        @pytest.mark.parametrize("workload", [LOOP.with_(variable_update="horovod")])
        def test_horovod(throughput, gpu_topology, workload):
            throughput.check(workload, on=gpu_topology.take(1))
        """,
    )
    for devices, pipeline in MEASURED:
        shared.baseline(f"nets:tiny-b1-replicated-{pipeline}-keras", f"1x{devices}", **WHATEVER_IT_IS)
    return shared.run()


@pytest.mark.parametrize(("devices", "pipeline"), MEASURED)
def test_fit_is_measured_and_judged(finished: Finished, devices: int, pipeline: str) -> None:
    assert finished.cases[f"test_fit[{devices}-{pipeline}]"].kind == "passed", finished.text


def test_fit_and_the_loop_take_turns(finished: Finished) -> None:
    assert finished.cases["test_turns"].kind == "passed", finished.text


def test_horovod_is_skipped_with_the_reason(finished: Finished) -> None:
    case = finished.cases["test_horovod[nets:tiny-b1-horovod-device]"]
    assert case.kind == "skipped"
    assert "horovod takes a process for each GPU, which this version doesn't drive" in case.message
