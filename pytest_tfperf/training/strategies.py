"""The tf.distribute strategy for a workload's variable update, and the scope in which its variables are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

from pytest_tfperf.core.job import Cluster
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import AllReduce, ParameterDevice, Trainer, VariableUpdate, Workload
from pytest_tfperf.training.loop import Loop


def strategy_for(workload: Workload, devices: list[str], cluster: Cluster | None = None) -> tf.distribute.Strategy:
    """The strategy that trains `workload` with one replica on each of `devices`, named as `devices.configure` does.

    With Horovod each rank trains its one device, and `horovod.Horovod` exchanges the gradients. The driver has checked
    before that they can train it (`catalogue.require_trainable`).
    """
    if workload.variable_update is VariableUpdate.COLLECTIVE:
        return _collective(workload, devices, cluster)
    if workload.variable_update is VariableUpdate.PARAMETER_SERVER:
        return _central_storage(workload, devices)
    if len(devices) == 1:
        return tf.distribute.OneDeviceStrategy(devices[0])
    # With `independent`, `steps.CrossEntropyStep` leaves the exchange between the mirrored variables out.
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=_cross_device_ops(workload, devices))


def _central_storage(workload: Workload, devices: list[str]) -> tf.distribute.Strategy:
    """Parameters on the CPU, or on the first GPU; tf_cnn_benchmarks, whose default is "gpu", spreads them over all."""
    on_cpu = workload.local_parameter_device is ParameterDevice.CPU
    parameter_device = "CPU:0" if on_cpu else devices[0]
    if devices == [parameter_device]:
        return tf.distribute.OneDeviceStrategy(parameter_device)
    strategy = tf.distribute.experimental.CentralStorageStrategy(devices, parameter_device=parameter_device)
    # TensorFlow sums gradients on the host, wherever the parameters are; tf_cnn_benchmarks sums them beside these.
    strategy.extended._cross_device_ops = tf.distribute.ReductionToOneDevice(reduce_to_device=parameter_device)
    return strategy


def _cross_device_ops(workload: Workload, devices: list[str]) -> tf.distribute.CrossDeviceOps:
    # 0 packs by default, as tf_cnn_benchmarks without gradient_repacking: packing copies every gradient twice more.
    match workload.all_reduce:
        case AllReduce.COPY if workload.local_parameter_device is ParameterDevice.GPU:
            return _CopyInTurn(devices)
        case AllReduce.COPY:
            return tf.distribute.ReductionToOneDevice(reduce_to_device="CPU:0")
        case AllReduce.HIERARCHICAL:
            return tf.distribute.HierarchicalCopyAllReduce(num_packs=workload.num_packs)
        case AllReduce.NCCL:
            return tf.distribute.NcclAllReduce(num_packs=workload.num_packs)


class _CopyInTurn(tf.distribute.CrossDeviceOps):  # type: ignore[misc]  # TensorFlow ships no types
    """Sums the gradients of a step on the devices in turn: the first gradient on the first device, and so on.

    As tf_cnn_benchmarks does with its parameters on GPUs. ReductionToOneDevice would sum all of them on the first GPU,
    whose links would then carry everything.
    """

    def __init__(self, devices: list[str]) -> None:
        tf.distribute.CrossDeviceOps.__init__(self)
        self._on_each = [tf.distribute.ReductionToOneDevice(reduce_to_device=device) for device in devices]

    def reduce_implementation(self, reduce_op: Any, per_replica_value: Any, destinations: Any, options: Any) -> Any:
        """A single value, on the first device."""
        return self._on_each[0].reduce_implementation(reduce_op, per_replica_value, destinations, options)

    def batch_reduce_implementation(self, reduce_op: Any, value_destination_pairs: Any, options: Any) -> Any:
        """Each value on the next device."""
        return [
            each.reduce_implementation(reduce_op, value, destinations, options)
            for each, (value, destinations) in zip(cycle(self._on_each), value_destination_pairs, strict=False)
        ]

    def _gather_implementation(self, per_replica_value: Any, destinations: Any, axis: Any, options: Any) -> Any:
        return self._on_each[0]._gather_implementation(per_replica_value, destinations, axis, options)


def _collective(workload: Workload, devices: list[str], cluster: Cluster | None) -> tf.distribute.Strategy:
    """MultiWorkerMirroredStrategy over all ranks; over this process's devices alone without a cluster of several."""
    implementation = tf.distribute.experimental.CommunicationImplementation(workload.all_reduce.value.upper())
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({}))
    timeout = None
    if cluster is not None and cluster.size > 1:
        ranks = tf.train.ClusterSpec({"worker": list(cluster.addresses)})
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(ranks, task_type="worker", task_id=cluster.rank)
        timeout = cluster.timeout_seconds  # otherwise a rank waits for ever for a rank that is gone
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation, timeout_seconds=timeout)
    # By itself it takes every GPU that the process sees, but one CPU device, however many there are.
    extended: Any = CollectiveAllReduceExtended
    before = extended._initialize_local_devices
    extended._initialize_local_devices = lambda _self, _resolver, worker_device: (
        tuple(f"{worker_device}/device:{name}" for name in devices),
        devices[0].partition(":")[0],
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
    finally:
        extended._initialize_local_devices = before


def is_plain_fit(workload: Workload, strategy: tf.distribute.Strategy) -> bool:
    """Whether `model.fit` trains on one device, as without tf.distribute; the model is then made in no scope.

    In a strategy's scope `fit` first builds the whole model by its `call`, on a batch's inputs. Many models with a
    `train_step` of their own have no `call`, or one that takes something else.
    """
    return workload.trainer is Trainer.KERAS and isinstance(strategy, tf.distribute.OneDeviceStrategy)


@contextmanager
def variable_scope(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """The strategy's scope, in which each replica can update a variable that isn't trained (a moving statistic).

    Keras gives such variables no aggregation, and CentralStorageStrategy then refuses to update them.
    """
    with strategy.scope(), tf.variable_creator_scope(_aggregated):
        yield


def _aggregated(next_creator: Any, **kwargs: Any) -> tf.Variable:
    if kwargs.get("trainable") is False and kwargs.get("aggregation") in (None, tf.VariableAggregation.NONE):
        # Counters and the state of random generators are integers, which have no mean.
        floating = kwargs.get("dtype") is not None and tf.as_dtype(kwargs["dtype"]).is_floating
        kwargs["aggregation"] = tf.VariableAggregation.MEAN if floating else tf.VariableAggregation.ONLY_FIRST_REPLICA
        kwargs["synchronization"] = tf.VariableSynchronization.ON_READ
    return next_creator(**kwargs)


_JOB = "worker"


def connect(cluster: Cluster, devices: list[str]) -> list[str]:
    """Make rank 0 of this process, to which the others lend `devices`; returns the devices of all ranks, by rank."""
    tf.config.experimental_connect_to_cluster(_spec(cluster), job_name=_JOB, task_index=0)
    return [f"/job:{_JOB}/replica:0/task:{rank}/device:{name}" for rank in range(cluster.size) for name in devices]


class DeviceServer(Loop):
    """A rank whose devices rank 0 trains on; it does nothing by itself."""

    def __init__(self, cluster: Cluster, devices: Devices, workload: Workload, threads: int) -> None:
        self.replicas = devices.count * cluster.size
        self.examples_per_step = workload.batch_size * self.replicas
        self.unit = "images"
        config = tf.compat.v1.ConfigProto()
        config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = threads
        config.gpu_options.allow_growth = True
        config.device_count["CPU"] = devices.count
        if devices.kind is DeviceKind.GPU:
            config.device_count["CPU"] = 1
            seen = len(tf.config.list_physical_devices("GPU"))
            first = cluster.local_rank * devices.count if (cluster.local_rank + 1) * devices.count <= seen else 0
            config.gpu_options.visible_device_list = ",".join(str(first + i) for i in range(devices.count))
        self._server = tf.distribute.Server(_spec(cluster), _JOB, cluster.rank, config=config)

    def run(self, steps: int) -> None:
        """Do nothing: rank 0 takes the steps."""


def _spec(cluster: Cluster) -> tf.train.ClusterSpec:
    return tf.train.ClusterSpec({_JOB: list(cluster.addresses)})
