"""Ranks that something else starts: Kubernetes, Kubeflow, or a person in several terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_tfperf.errors import TfperfError


class External:
    """See `Engine`. The ranks run `python -m pytest_tfperf.training.rank --repeat`, and call again for each job.

    Its option is the number of nodes, as in ["--nodes=2"].

    Raises:
        TfperfError: other options.
    """

    starts_ranks = False
    runs_programs = False

    def __init__(self, options: Sequence[str]) -> None:
        words = dict(option.partition("=")[::2] for option in options)
        nodes = words.pop("--nodes", "")
        if words or not nodes.isdecimal() or int(nodes) < 1:
            raise TfperfError(f"external takes --nodes=N, found {' '.join(options) or 'nothing'!r}")
        self.most_nodes: int | None = int(nodes)

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        """Return no command: the ranks call without it."""
        return []

    def ended_ranks(self, output: str) -> Mapping[int, int]:
        """See `Engine.ended_ranks`; nothing here sees them end."""
        return {}

    def cancel(self) -> None:
        """Do nothing: a rank ends its job when the driver closes the connection."""
