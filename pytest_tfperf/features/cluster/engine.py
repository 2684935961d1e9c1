"""What starts the ranks of a job on several nodes, and the engines by name, as `--tfperf-launcher` gives them.

To add an engine, write one class that meets `Engine`, in a file of `engines/`. Class and file have its name, and
nothing else lists it. It only says which command starts the ranks: `launcher.py` runs it, and talks to the ranks.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from pytest_tfperf.errors import TfperfError, known_names


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

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        """The command that starts all ranks and ends when they have ended; empty if it starts none.

        Args:
            nodes: on how many nodes.
            ranks_per_node: how many ranks on each.
            rank: the command of one rank; it finds out its number by itself (`training/place.py`).
            variables: names of the environment variables that each rank needs.
            gpus: that the ranks of a node need together, where the engine chooses the nodes.
        """

    def cancel(self) -> None:
        """End what the command left behind, after it was killed; never raises."""


LOCAL: Final = "local"
NAMES: Final = sorted(path.stem for path in (Path(__file__).parent / "engines").glob("[!_]*.py"))


def split_launcher(text: str) -> tuple[str, list[str]]:
    """Split the setting into the engine's name and its options.

    Raises:
        ValueError: the name is unknown, a quote is not closed, or `local` has options.
    """
    try:
        name, *options = shlex.split(text) or [""]
    except ValueError as error:
        raise ValueError(f"can't be split into words: {error}") from None
    if name not in (LOCAL, *NAMES):
        raise ValueError(f"is not a launcher. {known_names(name, [LOCAL, *NAMES])}")
    if name == LOCAL and options:
        raise ValueError(f"has options, and {LOCAL} takes none")
    return name, options


def find_engine(text: str) -> Engine | None:
    """The engine that this setting names; None for `local`.

    Raises:
        TfperfError: it is not installed here, or does not take these options.
    """
    name, options = split_launcher(text)
    if name == LOCAL:
        return None
    try:
        engine: Engine = getattr(import_module(f"{__package__}.engines.{name}"), name.capitalize())(options)
    except TfperfError as error:
        raise TfperfError(f"--tfperf-launcher={text}: {error}") from None
    return engine
