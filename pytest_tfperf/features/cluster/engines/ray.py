"""Ranks that run as tasks of a Ray cluster."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from pytest_tfperf.errors import TfperfError


class Ray:
    """See `Engine`.

    Args:
        options: the cluster's address, as in ["--address=auto"], its default.

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
        program = [sys.executable, "-m", "pytest_tfperf.features.cluster.ray_job", *self._options]
        named = [f"--variable={name}" for name in variables]
        wanted = [f"--nodes={nodes}", f"--ranks-per-node={ranks_per_node}", f"--gpus={gpus}"]
        return [*program, *wanted, *named, "--", *rank]

    def cancel(self) -> None:
        """Do nothing: Ray ends the tasks of a driver that is gone."""
