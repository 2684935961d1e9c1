"""The Lambda document: seven models on four GPUs, synthetic and real images. Its host CPUs are machines."""

import pytest

from pytest_tfperf import Workload

BATCH_PER_GPU = {
    "resnet50": 64,
    "resnet101": 64,
    "resnet152": 32,
    "inception3": 64,
    "inception4": 16,
    "vgg16": 64,
    "alexnet": 512,
}
# The parameters on GPUs, as tf_cnn_benchmarks had them unless told otherwise; Lambda's script didn't tell it.
PARAMETER_SERVER = {"variable_update": "parameter_server", "local_parameter_device": "gpu"}
UPDATES = [PARAMETER_SERVER, {}, {"all_reduce": "nccl"}]
PIPELINES = ["device", "imagenet-consistent", "imagenet-distortions-consistent"]
WORKLOADS = [
    Workload(model=model, batch_size=batch, input_pipeline=pipeline, **update)
    for model, batch in BATCH_PER_GPU.items()
    for update in UPDATES
    for pipeline in PIPELINES
]


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [4])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_four_gpus(throughput, gpu_topology, workload, gpus):
    """Each cell of the page's nine tables."""
    throughput.check(workload, on=gpu_topology.take(gpus))
