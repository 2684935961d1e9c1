"""What any machine can run: small models on virtual CPU devices."""

import pytest

from pytest_tfperf import Workload


@pytest.mark.cpu
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("input_pipeline", ["device", "host", "python"], indirect=True)
@pytest.mark.parametrize("variable_update", ["replicated", "parameter_server"])
def test_resnet20_on_cpu(throughput, gpu_topology, variable_update, input_pipeline, devices):
    """CIFAR's ResNet-20 at 32 images a device: each update mode, over each input pipeline."""
    workload = Workload(model="resnet20", batch_size=32, variable_update=variable_update, input_pipeline=input_pipeline)
    throughput.check(workload, on=gpu_topology.take(devices), steps=40)


@pytest.mark.cpu
def test_trivial_on_cpu(throughput, gpu_topology):
    """Next to no work a step, so that what a step costs by itself shows."""
    throughput.check(Workload(model="trivial", batch_size=32), on=gpu_topology.take(1), steps=500, warmup_steps=50)


@pytest.mark.cpu
@pytest.mark.parametrize("input_pipeline", ["imagenet", "imagenet-only"], indirect=True)
def test_photographs_on_cpu(throughput, gpu_topology, input_pipeline):
    """Real images, under a small model and by themselves; skipped where --tfperf-data-dir names none."""
    workload = Workload(model="resnet20", batch_size=32, input_pipeline=input_pipeline)
    throughput.check(workload, on=gpu_topology.take(1), steps=40)


@pytest.mark.cpu
@pytest.mark.slow
def test_resnet50_on_cpu(throughput, gpu_topology):
    """ImageNet's ResNet-50 at 8 images a step: about a second each on two cores."""
    throughput.check(Workload(model="resnet50", batch_size=8), on=gpu_topology.take(1), steps=20, warmup_steps=2)
