"""Does Keras' `model.fit` keep up with a loop of one's own? The DGX-1 document asked it of tensorpack."""

import pytest

from pytest_tfperf import Workload

LARGE_CARD = 38e9  # bytes, what drivers report of a card of 40 GB or more


@pytest.mark.gpu
def test_fit_on_a_gpu(throughput, gpu_topology):
    """A step of ResNet-50 is long enough to hide what `fit` does between steps, and nearly what it does in them.

    In a step `fit` launches about 2,360 kernels, and our loop 1,055: Keras has a regulariser and an update of several
    operations for each of the 161 variables, and our loop one addition and one update. 1,300 launches are about 4 ms,
    which a P100 hides; on a card that takes 80 ms for 256 images they are 5 %. So large cards get large batches, and
    10 % are accepted. Nothing of this was measured on a GPU yet.
    """
    on = gpu_topology.take(1)
    is_large = all((gpu.memory_bytes or 0) > LARGE_CARD for gpu in on.gpus)
    loop = Workload(model="resnet50", batch_size=256 if is_large else 64)
    throughput.compare(loop, loop.with_(trainer="keras"), on=on, tolerance=0.1)


@pytest.mark.cpu
@pytest.mark.slow
def test_fit_on_the_cpu(throughput, gpu_topology):
    """`fit` dispatches each step by itself and sums its loss: a part of a small network's step."""
    loop = Workload(model="resnet20", batch_size=32)
    throughput.compare(loop, loop.with_(trainer="keras"), on=gpu_topology.take(1), tolerance=0.2)
