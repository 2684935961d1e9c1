"""`--tfperf-launcher`: engines, which start the ranks of a job on several nodes, and where ranks call this machine.

To add a launcher, write its engine: one class that meets `Engine`, in a file of `engines/`; nothing else lists it. For
`--tfperf-launcher="pbs OPTIONS"` that is the class `Pbs` in `pbs.py`, which is made with the options. It only gives the
command that starts the ranks: `rank_launcher.py` runs it, and talks to the ranks. If the command gives ranks their
numbers in variables of its own, in place of TFPERF_RANK, add these to `training/rank.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError, known_names

if TYPE_CHECKING:
    from pytest_tfperf.workers.launcher import Nodes


class Engine(Protocol):
    """Starts a session's ranks."""

    most_nodes: int | None  # the number of nodes; None if only the engine itself knows it
    starts_ranks: bool  # False if something else starts the ranks
    runs_programs: bool  # whether it can run a user's own program, and passes on its output

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        """The command that starts all ranks and ends when they have ended; empty if it starts none.

        Args:
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


def _launcher(text: str) -> str:
    split_launcher(text)
    return text


LAUNCHER: Final[Setting[str]] = Setting(
    name="launcher",
    default=LOCAL,
    parse=_launcher,
    help=f"what starts tests on several nodes, with its options: {', '.join([LOCAL, *NAMES])}",
    metavar="'NAME [OPTIONS]'",
    excludes={"split_gpu": "ranks on several nodes can't share one GPU"},
)


@dataclass(frozen=True, slots=True)
class Listen:
    """Where ranks on other nodes call this machine."""

    interface: str = ""  # the network interface, or an address of it; "" for the interface that leads to other machines
    port: int = 0  # 0 for any free port
    key_file: Path | None = None  # the key of ranks that something else starts; None for a new key


_LISTEN: Final = re.compile(r"([^\s:=]*)(?::(\d{1,5}))?(?:(?:^|\s+)key=(.+))?")


def _listen(text: str) -> Listen:
    found = _LISTEN.fullmatch(text.strip())
    if found is None or int(found[2] or 0) > 65535:
        raise ValueError("must be INTERFACE:PORT key=FILE, as in eth0:7600 key=~/tfperf.key; each part may be left out")
    return Listen(found[1], int(found[2] or 0), parse.file(found[3]) if found[3] else None)


LISTEN: Final[Setting[Listen | None]] = Setting(
    name="listen",
    default=None,
    parse=_listen,
    help="INTERFACE:PORT at which ranks on other nodes call this machine, and key=FILE with the key of ranks that "
    "--tfperf-launcher=external awaits",
    is_option=False,
)


def nodes(settings: Settings) -> Nodes | None:
    """Make the launcher of `--tfperf-launcher`; None for `local`."""
    engine = find_engine(settings.of(LAUNCHER))
    if engine is None:
        return None
    from pytest_tfperf.features.cluster.nodes import ClusterNodes

    listen = settings.of(LISTEN) or Listen()
    if listen.key_file is not None:
        listen = replace(listen, key_file=settings.root / listen.key_file)
    return ClusterNodes(
        engine, named=settings.of(LAUNCHER), listen=listen, folder=settings.dir, silence_seconds=settings.timeout
    )


FEATURE: Final = Feature(settings=(LAUNCHER, LISTEN), nodes=nodes)
