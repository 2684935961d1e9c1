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
# Parameters and sums of gradients on GPUs: tf_cnn_benchmarks' default, which Lambda's script leaves.
ON_GPUS = {"local_parameter_device": "gpu"}
UPDATES = [{"variable_update": "parameter_server", **ON_GPUS}, ON_GPUS, {"all_reduce": "nccl"}]
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
