"""Engines, which start the ranks of a job on several nodes, by the names that `--tfperf-launcher` takes.

To add a launcher, write its engine: one class that meets `Engine`, in a file of `engines/`; nothing else lists it. For
`--tfperf-launcher="pbs OPTIONS"` that is the class `Pbs` in `pbs.py`, which is made with the options. It only gives the
command that starts the ranks: `rank_launcher.py` runs it, and talks to the ranks. If the command gives ranks their
numbers in variables of its own, in place of TFPERF_RANK, add these to `training/rank.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from pytest_tfperf.errors import TfperfError, known_names


class Engine(Protocol):
    """Starts a session's ranks.

    Attributes:
        most_nodes: the number of nodes; None if only the engine itself knows it.
        starts_ranks: False if something else starts the ranks.
        runs_programs: whether it can run a user's own program, and passes on its output.
    """

    most_nodes: int | None
    starts_ranks: bool
    runs_programs: bool

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        """The command that starts all ranks and ends when they have ended; empty if it starts none.

        Args:
            nodes: the number of nodes.
            ranks_per_node: the number of ranks on each.
            rank: the command of a rank, which finds out its number by itself (`training/rank.py`).
            variables: names of the environment variables that each rank needs.
            gpus: the number of GPUs that the ranks of a node need together, where the engine chooses the nodes.
        """

    def ended_ranks(self, output: str) -> Mapping[int, int]:
        """The exit statuses of ranks that the command's output names, negative for signals, in the order of their ends.

        Empty where the command's own exit status is that of the first rank that failed.
        """

    def cancel(self) -> None:
        """End processes that the killed command left behind; never raises."""


LOCAL: Final = "local"
NAMES: Final = sorted(path.stem for path in (Path(__file__).parent / "engines").glob("[!_]*.py"))


def is_empty(option: str) -> bool:
    """Whether an option lacks its value, because a variable in it is not set: "--host=", or an empty word."""
    return not option.strip() or (option.startswith("--") and option.endswith("="))


def split_launcher(text: str) -> tuple[str, list[str]]:
    """Split the setting into the engine's name and its options.

    Raises:
        ValueError: the name is unknown, a quote is not closed, an option is empty, or `local` has options.
    """
    try:
        name, *options = shlex.split(text) or [""]
    except ValueError as error:
        raise ValueError(f"can't be split into words: {error}") from None
    if name not in (LOCAL, *NAMES):
        raise ValueError(f"is not a launcher. {known_names(name, [LOCAL, *NAMES])}")
    if name == LOCAL and options:
        raise ValueError(f"has options, and {LOCAL} takes none")
    if empty := [option for option in options if is_empty(option)]:
        raise ValueError(f"has an option without its value: {empty[0]!r}")
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
        raise error.at(f"--tfperf-launcher={text}") from None
    return engine
