"""What the commands' parsers share: help with examples and exit statuses, and options for folders and histories."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pytest_tfperf.console.session_settings import folder_setting
from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_INTERNAL, EXIT_NOT_MEASURED, EXIT_USAGE
from pytest_tfperf.core.history_url import HistoryUrl, is_url

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add_subparsers` gives; commands are added to it."""

STATUSES: Final = {
    EXIT_GREEN: "done",
    EXIT_INTERNAL: "a fault of pytest-tfperf itself",
    EXIT_USAGE: "an option, a file or a name is wrong",
    EXIT_NOT_MEASURED: "no memory, no space or no permission",
}
"""The exit statuses of every command."""


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
    """Add a command with its help; `run` is None for a command that only has subcommands."""
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
    """A parent parser with an option that takes a folder; its default is that of a session here."""
    parser = argparse.ArgumentParser(add_help=False)
    name = option.removeprefix("--")
    parser.add_argument(
        option,
        type=Path,
        default=folder_setting(name, default),
        metavar="DIR",
        help=f"{what} (default: the variable TFPERF_{name.upper()}, pytest's ini value tfperf_{name}, or {default}/)",
    )
    return parser


def history_place(*, is_action: bool = False) -> argparse.ArgumentParser:
    """A parent parser with the option that `open_history` reads.

    Args:
        is_action: for a subcommand of a command that has the same option, whose value must not be overwritten.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--history",
        "--dir",
        default=argparse.SUPPRESS if is_action else str(folder_setting("dir", ".tfperf")),
        metavar="DIR|URL",
        help="folder of the history, or a team's server, postgresql://HOST/DATABASE (default: the variable TFPERF_DIR, "
        "pytest's ini value tfperf_dir, or .tfperf/)",
    )
    return parser


def open_history(arguments: argparse.Namespace) -> History:
    """The history that the option of `history_place` names.

    Raises:
        TfperfError: the URL is not valid.
    """
    from pytest_tfperf.stores.history import History

    place: str = arguments.history
    if "opened" not in arguments:  # once, so that `unread` counts a row once
        arguments.opened = History(HistoryUrl(place) if is_url(place) else Path(place) / "history.sqlite")
    history: History = arguments.opened
    return history


def unread(arguments: argparse.Namespace) -> str:
    """The sentence on rows of the history that the command left out; "" for none."""
    return str(arguments.opened.unread) if "opened" in arguments else ""


def date_or_age(text: str) -> datetime:
    """Parse a date, a time, or an age in hours, days or weeks. Without a zone it is in local time.

    Raises:
        argparse.ArgumentTypeError: the text is none of these.
    """
    return _parsed(text)


def end(text: str) -> datetime:
    """Like `date_or_age`, but a date stands for the end of its day."""
    is_date = re.fullmatch(r"\d{4}-\d{2}-\d{2}", text)
    return _parsed(text, timedelta(days=1) if is_date else timedelta())


def _parsed(text: str, later: timedelta = timedelta()) -> datetime:
    try:
        if age := re.fullmatch(r"(\d+)([hdw])", text):
            return datetime.now().astimezone() - int(age[1]) * _AGES[age[2]]
        return (datetime.fromisoformat(text) + later).astimezone()  # a local day may have 23 or 25 hours
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write 2026-01-31, 2026-01-31T06:00, 2026-01-31T06:00+01:00, or 30d for 30 days ago"
        ) from None


_AGES: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
