"""Ranks that run as tasks of a Ray cluster: a placement group with a bundle for each node.

Run as a module: start the ranks, and wait for them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from pytest_tfperf.errors import TfperfError


class Ray:
    """See `Engine`; the option is the cluster's address, ["--address=auto"] by default.

    Raises:
        TfperfError: Ray is not installed, or there is another option.
    """

    most_nodes: int | None = None
    starts_ranks = True
    runs_programs = False

    def __init__(self, options: Sequence[str]) -> None:
        if importlib.util.find_spec("ray") is None:
            raise TfperfError("Ray is not installed: pip install ray")
        if any(not option.startswith("--address=") for option in options):
            raise TfperfError(f"ray takes --address=ADDRESS, found {' '.join(options)!r}")
        self._options = list(options)

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        """See `Engine.command`. Ray is imported in that process only."""
        program = [sys.executable, "-m", "pytest_tfperf.features.cluster.engines.ray", *self._options]
        named = [f"--variable={name}" for name in variables]
        wanted = [f"--nodes={nodes}", f"--ranks-per-node={ranks_per_node}", f"--gpus={gpus}"]
        return [*program, *wanted, *named, "--", *rank]

    def ended_ranks(self, output: str) -> Mapping[int, int]:
        """See `Engine.ended_ranks`; Ray's output names no ranks."""
        return {}

    def cancel(self) -> None:
        """Do nothing: Ray ends the tasks of a driver that is gone."""


def main() -> int:
    """Start the ranks and wait for them; returns 0 if all exited with 0."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="auto")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks-per-node", type=int, required=True)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--variable", action="append", default=[])
    parser.add_argument("rank", nargs="+")
    args = parser.parse_args()

    import ray
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init(address=args.address)  # it also brings back the ranks' output, for the log
    # Without its GPUs in the bundle, Ray might choose a node that has none.
    bundle = {"CPU": 1, "GPU": args.gpus} if args.gpus else {"CPU": 1}
    group = placement_group([bundle] * args.nodes, strategy="STRICT_SPREAD")
    try:
        ray.get(group.ready(), timeout=60)
    except ray.exceptions.GetTimeoutError:
        needed = f"a free CPU and {args.gpus} free GPUs" if args.gpus else "a free CPU"
        sys.exit(f"pytest-tfperf: this Ray cluster has no {args.nodes} nodes with {needed} each: see `ray status`")
    given = {name: os.environ[name] for name in args.variable if name in os.environ}
    size = args.nodes * args.ranks_per_node
    tasks = []
    for rank in range(size):
        place = {"TFPERF_RANK": str(rank), "TFPERF_SIZE": str(size)}
        on = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank // args.ranks_per_node)
        share = 1 / args.ranks_per_node
        gpus = args.gpus / args.ranks_per_node
        task = ray.remote(num_cpus=share, num_gpus=gpus, scheduling_strategy=on, max_retries=0)(run)
        tasks.append(task.remote(args.rank, {**given, **place}))
    statuses: list[int] = ray.get(tasks)
    return max(statuses)


def run(rank: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a rank in its own process: Ray's workers have modules imported, and only one OpenMP thread."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if not environment.get("CUDA_VISIBLE_DEVICES"):  # Ray hides the GPUs from tasks that asked for none
        environment.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run(rank, env={**environment, **variables}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
