"""The DGX-1 document: tensorpack against tensorflow/benchmarks, ResNet-50 on one to eight GPUs."""

import pytest

from pytest_tfperf import Workload


@pytest.mark.gpu
@pytest.mark.parametrize("variable_update", ["replicated", "parameter_server"])
@pytest.mark.parametrize("input_pipeline", ["device", "host", "python"], indirect=True)
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_resnet50_synthetic(throughput, gpu_topology, input_pipeline, variable_update, gpus):
    """ResNet-50 at 64 images a GPU, as in the DGX-1 tables."""
    workload = Workload(model="resnet50", batch_size=64, variable_update=variable_update, input_pipeline=input_pipeline)
    throughput.check(workload, on=gpu_topology.take(gpus))
