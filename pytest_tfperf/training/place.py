"""This process's rank in a job, from the environment variables that its starter set."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_tfperf.errors import TfperfError


class Place(NamedTuple):
    """A rank, from 0, and how many there are."""

    rank: int
    size: int


# Variables for rank and size, in the order in which they are believed: the nearest starter first.
_VARIABLES = (
    ("TFPERF_RANK", "TFPERF_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun
    ("PET_NODE_RANK", "PET_NNODES"),  # Kubeflow Trainer
    ("JOB_COMPLETION_INDEX", "TFPERF_SIZE"),  # a Kubernetes Job of completion mode "Indexed"
)


def find_place(environment: Mapping[str, str]) -> Place:
    """The rank and size that TF_CONFIG or a starter's variables give.

    Raises:
        TfperfError: none gives them, or one gives something impossible; names the variables.
    """
    if environment.get("TF_CONFIG"):
        return _from_tf_config(environment["TF_CONFIG"])
    for names in _VARIABLES:
        if all(name in environment for name in names):
            given = ", ".join(f"{name}={environment[name]}" for name in names)
            try:
                place = Place(*(int(environment[name]) for name in names))
            except ValueError:
                raise TfperfError(f"{given}: rank and size must be whole numbers") from None
            if not 0 <= place.rank < place.size:
                raise TfperfError(f"{given}: the rank must be from 0 to below the size")
            return place
    known = "; ".join(" with ".join(names) for names in _VARIABLES)
    raise TfperfError(
        "this process can't tell which rank it is", next_step=f"Set TFPERF_RANK and TFPERF_SIZE. Known: {known}"
    )


def _from_tf_config(text: str) -> Place:
    """The rank among chief and workers: a chief is rank 0. Parameter servers and evaluators are no ranks of ours."""
    try:
        config: Any = json.loads(text)
        is_sparse = "sparseCluster" in config  # Kubeflow writes it in place of "cluster"
        cluster = config.get("cluster", {}) if is_sparse else config["cluster"]
        kind, index = str(config["task"]["type"]), int(config["task"]["index"])
        sizes = {name: len(cluster.get(name, ())) for name in ("chief", "worker")}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise TfperfError(
            f"TF_CONFIG={text[:200]} is not a cluster with a task, as in "
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
        ) from None
    if is_sparse or isinstance(cluster.get("worker"), dict):
        raise TfperfError("TF_CONFIG holds a sparse cluster, which does not name all ranks: give all of them")
    if kind not in sizes:
        raise TfperfError(f"TF_CONFIG: a task of type {kind!r} is no rank: start ranks only as chief and worker")
    if not 0 <= index < sizes[kind]:
        raise TfperfError(f"TF_CONFIG: there is no {kind} {index}: its cluster has {sizes[kind]}")
    return Place(index + (sizes["chief"] if kind == "worker" else 0), sum(sizes.values()))


def reserve_port(host: str) -> tuple[socket.socket, str]:
    """A port of this machine that no other process gets while the socket lives, and its address "host:port".

    The socket is bound and does not listen: with SO_REUSEADDR, TensorFlow's server can then bind the same port. It
    listens on all addresses of the machine, so the port must be free on all of them.
    """
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("", 0))
    return reserved, f"{host}:{reserved.getsockname()[1]}"
