"""The DGX-1 document: tensorpack against tensorflow/benchmarks, ResNet-50 on one to eight GPUs."""

import pytest

from pytest_tfperf import Workload

UPDATES = ["replicated", "parameter_server"]
RESNET50 = [Workload(model="resnet50", batch_size=64, variable_update=update) for update in UPDATES]
KERAS = [
    workload.with_(trainer="keras", input_pipeline=pipeline)
    for workload in RESNET50
    for pipeline in ["device", "host", "python"]
]


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
@pytest.mark.parametrize("workload", RESNET50 + KERAS)
def test_resnet50_synthetic(throughput, gpu_topology, workload, gpus):
    """64 images a GPU, as in the DGX-1 tables: our loop for tensorflow/benchmarks, Keras' `fit` for tensorpack."""
    throughput.check(workload, on=gpu_topology.take(gpus))
