"""Does Keras' `model.fit` keep up with a loop of one's own? The DGX-1 document asked it of tensorpack."""

import pytest

from pytest_tfperf import Workload


@pytest.mark.gpu
def test_fit_on_a_gpu(throughput, gpu_topology):
    """A step of ResNet-50 is long enough to hide what `fit` does between steps."""
    loop = Workload(model="resnet50", batch_size=64)
    throughput.compare(loop, loop.with_(trainer="keras"), on=gpu_topology.take(1), tolerance=0.05)


@pytest.mark.cpu
@pytest.mark.slow
def test_fit_on_the_cpu(throughput, gpu_topology):
    """`fit` dispatches each step by itself and sums its loss: a part of a small network's step."""
    loop = Workload(model="resnet20", batch_size=32)
    throughput.compare(loop, loop.with_(trainer="keras"), on=gpu_topology.take(1), tolerance=0.2)
