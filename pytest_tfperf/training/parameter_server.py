"""A parameter server for several nodes: rank 0 runs the training, on the devices of all ranks; the others lend theirs.

So one compiled call still holds a whole window, and the update is tf_cnn_benchmarks' synchronous one: the gradients of
all replicas are summed where the variables are. ParameterServerStrategy with its coordinator would schedule each step
of each worker from Python, and update without waiting for the slowest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from pytest_tfperf.core.job import Cluster
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload

_JOB = "worker"


def connect(cluster: Cluster, devices: list[str]) -> list[str]:
    """Make rank 0 of the cluster of this process; returns the devices of all ranks, by rank.

    Args:
        cluster: all ranks; the others lend their devices.
        devices: of each rank, as `devices.configure` names them.
    """
    tf.config.experimental_connect_to_cluster(_spec(cluster), job_name=_JOB, task_index=0)
    return [f"/job:{_JOB}/replica:0/task:{rank}/device:{name}" for rank in range(cluster.size) for name in devices]


class Lender:
    """A rank whose devices rank 0 trains on; it meets `Loop`, and does nothing by itself.

    Args:
        cluster: all ranks.
        devices: what this one lends.
        workload: what rank 0 trains.
        threads: that its operations may use; None: as many as there are cores.
    """

    def __init__(self, cluster: Cluster, devices: Devices, workload: Workload, threads: int | None) -> None:
        self.replicas = devices.count * cluster.size
        self.examples_per_step = workload.batch_size * self.replicas
        self.unit = "images"
        self.fetch: Callable[[], Any] | None = None
        config = tf.compat.v1.ConfigProto()
        config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = threads or 0
        config.gpu_options.allow_growth = True
        config.device_count["CPU"] = devices.count
        if devices.kind is DeviceKind.GPU:
            config.device_count["CPU"] = 1
            seen = len(tf.config.list_physical_devices("GPU"))
            first = cluster.local_rank * devices.count if (cluster.local_rank + 1) * devices.count <= seen else 0
            config.gpu_options.visible_device_list = ",".join(str(first + i) for i in range(devices.count))
        self._server = tf.distribute.Server(_spec(cluster), _JOB, cluster.rank, config=config)

    def run(self, steps: int) -> None:
        """Nothing: rank 0 takes the steps."""


def _spec(cluster: Cluster) -> tf.train.ClusterSpec:
    return tf.train.ClusterSpec({_JOB: list(cluster.addresses)})
