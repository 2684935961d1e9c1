"""Ratios of the documents' figures: required on GPUs like a document's; elsewhere a lower one is a warning."""

import pytest

from pytest_tfperf import Workload

RESNET50 = Workload(model="resnet50", batch_size=64)
PARAMETER_SERVER = RESNET50.with_(variable_update="parameter_server")
HOROVOD = RESNET50.with_(variable_update="horovod")
# Lambda's, which sums gradients on the GPUs in turn.
RESNET50_OF_LAMBDA = RESNET50.with_(local_parameter_device="gpu")
ALEXNET_OF_LAMBDA = Workload(model="alexnet", batch_size=512, local_parameter_device="gpu")


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize("workload", [RESNET50, PARAMETER_SERVER])
def test_scaling(throughput, gpu_topology, workload, gpus):
    """Several GPUs over one: 7.0 times on eight of a DGX-1."""
    one, several = gpu_topology.take(1), gpu_topology.take(gpus)
    throughput.compare(workload, workload, on=one, b_on=several, at_least="published")


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_python_against_device(throughput, gpu_topology, gpus):
    """Images from Python over images that lie on the GPUs, under Keras' `fit` where the document has tensorpack."""
    device = RESNET50.with_(trainer="keras")
    python = device.with_(input_pipeline="python")
    throughput.compare(device, python, on=gpu_topology.take(gpus), at_least="published")


@pytest.mark.gpu
@pytest.mark.parametrize("input_pipeline", ["imagenet-consistent", "imagenet-distortions-consistent"])
@pytest.mark.parametrize("workload", [RESNET50_OF_LAMBDA, ALEXNET_OF_LAMBDA])
def test_real_against_synthetic(throughput, gpu_topology, workload, input_pipeline):
    """ResNet-50 hides its input's cost, AlexNet can't."""
    real = workload.with_(input_pipeline=input_pipeline)
    throughput.compare(workload, real, on=gpu_topology.take(4), at_least="published")


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_parameter_server_against_replicated(throughput, gpu_topology, gpus):
    """One copy of the parameters, on the CPU, over a copy on each GPU."""
    throughput.compare(RESNET50, PARAMETER_SERVER, on=gpu_topology.take(gpus), at_least="published")


@pytest.mark.gpu
@pytest.mark.multinode
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (2, 1), (2, 2)])
def test_horovod_scaling(throughput, gpu_topology, nodes, gpus):
    """Two and four of Azure's K80s over one: 1.94 times on two nodes, 3.6 times on two nodes of two GPUs."""
    one, several = gpu_topology.take(1), gpu_topology.take(gpus, nodes=nodes)
    throughput.compare(HOROVOD, HOROVOD, on=one, b_on=several, at_least="published")
