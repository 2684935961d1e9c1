"""What starts the ranks of a job on several nodes.

To add an engine, write one class that meets `Engine`, in a file of its own here, and name it in `engines/names.py`. It
only says which command starts the ranks: `workers/cluster_launcher.py` runs it, and talks to the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Engine(Protocol):
    """Starts ranks; one for a session.

    Attributes:
        most_nodes: how many nodes there are; None if only the engine itself knows.
        starts_ranks: False if something else starts the ranks.
        runs_programs: whether it can run a user's own program, and passes on what that prints.
    """

    most_nodes: int | None
    starts_ranks: bool
    runs_programs: bool

    def command(self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str]) -> list[str]:
        """The command that starts all ranks and ends when they have ended; empty if it starts none.

        Args:
            nodes: on how many nodes.
            ranks_per_node: how many ranks on each.
            rank: the command of one rank; it finds out its number by itself (`training/place.py`).
            variables: names of the environment variables that each rank needs.
        """

    def cancel(self) -> None:
        """End what the command left behind, after it was killed; never raises."""
