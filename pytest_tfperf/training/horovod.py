"""Horovod: ranks that each train one device and sum their gradients by its all-reduce, under Gloo without MPI."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import keras
import tensorflow as tf

from pytest_tfperf.core.job import Cluster
from pytest_tfperf.core.workload import AllReduce, Workload
from pytest_tfperf.errors import WorkloadError

_MOST_BYTES = 64 * 1024


class Horovod:
    """This process's rank in Horovod, which it starts; make one in a process. `size` is the number of ranks.

    Raises:
        WorkloadError: Horovod has no NCCL, and the workload asks for it.
    """

    def __init__(self, workload: Workload, cluster: Cluster, *, on_gpus: bool) -> None:
        import horovod.tensorflow as hvd

        if workload.all_reduce is AllReduce.NCCL and not hvd.nccl_built():
            raise WorkloadError(
                f"Horovod {_version()} was built without NCCL",
                next_step="Build it with HOROVOD_GPU_OPERATIONS=NCCL, or leave all_reduce out",
            )
        # Under mpirun, Horovod that was built with MPI needs no rendezvous.
        by_mpi = bool(hvd.mpi_built()) and "OMPI_COMM_WORLD_RANK" in os.environ
        if not by_mpi:
            if cluster.rank == 0:
                serve_rendezvous(cluster.addresses[0])
            wait_for_rendezvous(cluster)
            os.environ.update(_gloo_variables(cluster))
        self._hvd = hvd
        hvd.init()
        self.size: int = hvd.size()
        exchange = "nccl" if on_gpus and hvd.nccl_built() else "mpi" if by_mpi else "gloo"
        self.environment = {"horovod": f"{_version()} {exchange}"}  # for the run's environment: "0.28.1 gloo"

    def broadcast(self, model: keras.Model) -> None:
        """Give every rank the variables of rank 0."""
        self._hvd.broadcast_variables([variable.value for variable in model.variables], root_rank=0)

    def sum(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The sum of each gradient over all ranks."""
        # One by one: Horovod itself packs ready gradients into its fusion buffer.
        return [self._hvd.allreduce(g, op=self._hvd.Sum, name=f"gradient_{i}") for i, g in enumerate(gradients)]

    def mean(self, value: tf.Tensor) -> tf.Tensor:
        """The mean of a scalar over all ranks."""
        return self._hvd.allreduce(value, op=self._hvd.Average, name="loss")


def wait_for_rendezvous(cluster: Cluster) -> None:
    """Return when rank 0 serves, or raise a DeadlineExceededError: Horovod itself waits for a second and a half."""
    host, _, port = cluster.addresses[0].rpartition(":")
    deadline = time.monotonic() + cluster.timeout_seconds
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    fact = f"HorovodInternalError: rank 0 does not serve at {cluster.addresses[0]}"
    raise tf.errors.DeadlineExceededError(None, None, fact)


def serve_rendezvous(address: str) -> None:
    """Serve the values that Gloo's ranks store while they find each other, in a thread of this process."""
    host, _, port = address.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), _Rendezvous)
    threading.Thread(target=server.serve_forever, name="tfperf-rendezvous", daemon=True).start()


class _Rendezvous(BaseHTTPRequestHandler):
    """A store with PUT, GET (404 while a value is missing) and DELETE, as Horovod's own launcher serves it."""

    values: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        length = int(self.headers["Content-Length"])
        if length > _MOST_BYTES:  # Gloo's values are smaller
            self._answer(413)
            return
        self.values[self.path] = self.rfile.read(length)
        self._answer(200)

    def do_GET(self) -> None:
        value = self.values.get(self.path)
        self._answer(404 if value is None else 200, value or b"")

    def do_DELETE(self) -> None:
        self._answer(200)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: a rank asks many times a second."""


def _gloo_variables(cluster: Cluster) -> dict[str, str]:
    host, _, port = cluster.addresses[0].rpartition(":")
    own = cluster.addresses[cluster.rank].rpartition(":")[0]
    hosts = list(dict.fromkeys(cluster.hosts))
    return {
        "HOROVOD_RANK": str(cluster.rank),
        "HOROVOD_SIZE": str(cluster.size),
        "HOROVOD_LOCAL_RANK": str(cluster.local_rank),
        "HOROVOD_LOCAL_SIZE": str(cluster.local_size),
        "HOROVOD_CROSS_RANK": str(hosts.index(cluster.hosts[cluster.rank])),
        "HOROVOD_CROSS_SIZE": str(len(hosts)),
        "HOROVOD_HOSTNAME": own,
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
        "HOROVOD_GLOO_IFACE": interface_of(own),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(max(1, round(cluster.timeout_seconds))),
    }


def interface_of(address: str) -> str:
    """The network interface with this IP address; "" without one."""
    import psutil  # only Horovod's ranks need it: other workers may run under a Python that has TensorFlow alone

    ip = socket.gethostbyname(address)
    for name, addresses in psutil.net_if_addrs().items():
        if any(own.address == ip for own in addresses):
            return name
    return ""


def _version() -> str:
    import horovod

    return str(horovod.__version__)
