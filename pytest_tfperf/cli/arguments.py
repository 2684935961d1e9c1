"""What the commands' parsers have in common: help with examples and exit statuses, and options for folders."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_INTERNAL, EXIT_NOT_MEASURED, EXIT_USAGE

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

STATUSES: Final = {
    EXIT_GREEN: "done",
    EXIT_INTERNAL: "a fault of pytest-tfperf itself",
    EXIT_USAGE: "an option, a file or a name is wrong",
    EXIT_NOT_MEASURED: "no memory, no space or no permission",
}
"""What every command can exit with."""


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int] | None,
    what: str,
    *,
    examples: Sequence[str],
    statuses: Mapping[int, str] = STATUSES,
    parents: Sequence[argparse.ArgumentParser] = (),
) -> argparse.ArgumentParser:
    """Add a command with its help; without `run` it has commands of its own."""
    lines = ["examples:", *(f"  {example}" for example in examples)]
    lines += ["", "exit status:", *(f"  {status}  {text}" for status, text in sorted(statuses.items()))]
    parser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog="\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=list(parents),
    )
    if run is not None:
        parser.set_defaults(run=run, parser=parser)
    return parser


def folder(option: str, default: str, what: str) -> argparse.ArgumentParser:
    """A parent of commands that take such a folder."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(option, type=Path, default=Path(default), metavar="DIR", help=f"{what} (default: {default}/)")
    return parser
