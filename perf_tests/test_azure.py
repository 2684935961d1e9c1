"""The Azure K80 document: ResNet-50 under Horovod, on one and two machines of one and two GPUs."""

import pytest

from pytest_tfperf import Workload


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [Workload(model="resnet50", batch_size=64, variable_update="horovod")])
@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.multinode)])
def test_horovod(throughput, gpu_topology, workload, gpus, nodes):
    """The page's seven tests: these four topologies, on machines of several kinds."""
    throughput.check(workload, on=gpu_topology.take(gpus, nodes=nodes))
