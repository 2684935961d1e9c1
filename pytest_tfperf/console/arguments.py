"""Shared by the commands' parsers: their help, and the options for folders, histories and their filters."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

from pytest_tfperf.console.measured_test import filtered_test
from pytest_tfperf.console.session_settings import folder_setting
from pytest_tfperf.core.exit_status import OF_COMMANDS
from pytest_tfperf.core.history_url import is_folder
from pytest_tfperf.core.setting import Setting, variable
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError, one_of

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import Filters, History

T = TypeVar("T")

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The result of `add_subparsers`, to which commands are added."""


class Group(StrEnum):
    """The groups in which `tfperf --help` lists commands; the values are their headings, in this order."""

    START = "start"
    EVERY_DAY = "every day"
    CHANGE = "about a change"
    MORE = "more"


def add_command(
    commands: Commands,
    run: Callable[[argparse.Namespace], int] | None,
    text: str,
    *,
    group: Group = Group.MORE,
    examples: Sequence[str],
    statuses: Mapping[int, str] | None = None,
    parents: Sequence[argparse.ArgumentParser] = (),
) -> argparse.ArgumentParser:
    """Add a command.

    `run` is None for a command that only has actions. The text is its name, a colon, and its help, of which lists of
    commands show the first sentence. `statuses` are those that have a meaning of its own.
    """
    name, _, what = text.partition(": ")
    lines = ["examples:", *(f"  {example}" for example in examples)]
    if statuses:
        lines += ["", "exit status (others: tfperf --help):", *status_lines(statuses)]
    parser = commands.add_parser(
        name,
        help=what.partition(". ")[0],
        description=wrapped(f"{what[0].upper()}{what[1:]}."),
        epilog="\n".join(lines),
        parents=list(parents),
    )
    parser.set_defaults(run=run, parser=parser, group=group)
    return parser


def wrapped(text: str, indent: str = "") -> str:
    """Wrap a paragraph to the terminal's width; the lines below its first are indented."""
    return textwrap.fill(text, shutil.get_terminal_size().columns - 2, subsequent_indent=indent)


def status_lines(statuses: Mapping[int, str] = OF_COMMANDS) -> list[str]:
    """The lines of a help that list exit statuses; by default those of every command."""
    return [wrapped(f"  {status}  {text}", " " * 5) for status, text in sorted(statuses.items())]


def folder(setting: Setting[Path], what: str) -> argparse.ArgumentParser:
    """A parent parser with an option that takes a folder; the default is the same as a session's here."""
    parser = argparse.ArgumentParser(add_help=False)
    name = setting.name
    parser.add_argument(
        f"--{name}",
        type=Path,
        default=folder_setting(setting),
        metavar="DIR",
        help=f"{what} (default: the variable {variable(name)}, pytest's ini value tfperf_{name}, "
        f"or {setting.default}/)",
    )
    return parser


def history_place(*, is_action: bool = False) -> argparse.ArgumentParser:
    """A parent parser with the option that `open_history` reads; an action keeps the value of its command."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--history",
        "--dir",
        default=argparse.SUPPRESS if is_action else str(folder_setting(Settings.dir)),
        metavar="DIR",
        help="folder of the history (default: the variable TFPERF_DIR, pytest's ini value tfperf_dir, or .tfperf/)",
    )
    return parser


def open_history(arguments: argparse.Namespace) -> History:
    """The history that the option of `history_place` names.

    Raises:
        TfperfError: it is an address, of which nothing is repeated, because it may hold a password.
    """
    from pytest_tfperf.stores.history import History

    if "://" in arguments.history or not is_folder(arguments.history):
        raise TfperfError(
            "--history names a folder, and what it was given is an address",
            next_step="Pull into a folder first: TFPERF_HISTORY_URL=... tfperf history pull",
        )
    if "opened" not in arguments:  # open it once, so that `unread` counts a row once
        arguments.opened = History(Path(arguments.history) / "history.sqlite")
    history: History = arguments.opened
    return history


def unread(arguments: argparse.Namespace) -> str:
    """A sentence about rows of the history that the command could not read; "" for none."""
    return str(arguments.opened.unread) if "opened" in arguments else ""


def checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """An argument's type from the parser of a setting."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {error}") from None

    return parsed


def date_or_age(text: str, later: timedelta = timedelta()) -> datetime:
    """Parse a date, a time, or an age in hours, days or weeks. Without a zone it is in local time.

    Raises:
        argparse.ArgumentTypeError: the text is none of these.
    """
    try:
        if age := re.fullmatch(r"(\d+)([hdw])", text):
            return datetime.now().astimezone() - timedelta(hours=int(age[1]) * _HOURS[age[2]])
        return (datetime.fromisoformat(text) + later).astimezone()  # a local day may have 23 or 25 hours
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write 2026-01-31, 2026-01-31T06:00, 2026-01-31T06:00+01:00, or 30d for 30 days ago"
        ) from None


def end(text: str) -> datetime:
    """Like `date_or_age`, but a date stands for the end of its day."""
    is_date = re.fullmatch(r"\d{4}-\d{2}-\d{2}", text)
    return date_or_age(text, timedelta(days=1) if is_date else timedelta())


_HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24}
_MOST_NAMED: Final = 10
LATEST: Final = ("latest", "previous")  # names of sessions, the last session first


def history_filters() -> argparse.ArgumentParser:
    """A parent parser with the options that `wanted` reads."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--session", metavar="ID", help="only this session: its id, latest or previous")
    parser.add_argument("--test", metavar="TEST", help="only this test: its id, or its end")
    parser.add_argument("--machine", metavar="NAME", help="only this machine")
    parser.add_argument(
        "--since", type=date_or_age, metavar="TIME", help="only from this date, time or age on: 2026-01-31, 30d"
    )
    parser.add_argument("--until", type=end, metavar="TIME", help="only up to this date (its whole day), time or age")
    parser.add_argument("--commit", metavar="HASH", help="only the commit that begins with HASH")
    return parser


def wanted(arguments: argparse.Namespace, history: History) -> Filters:
    """The values of the options, as the methods of History take them.

    Raises:
        TfperfError: there is no `latest` or `previous` session, or no history, or the test's name means several.
    """
    return {
        "machine": arguments.machine,
        "test": filtered_test(history, arguments.test),
        "session": session_id(history, arguments.session, arguments.machine),
        "commit": arguments.commit,
        "since": arguments.since,
        "until": arguments.until,
    }


def session_id(
    history: History, name: str | None, machine: str | None = None, *, alone_only: bool = False
) -> str | None:
    """The id of the session `latest` or `previous`; any other name is an id.

    `latest` is the last session, or the last of the given machine. `previous` is the session before it on the same
    machines. With `alone_only` sessions that measured only beside another side are not counted.

    Raises:
        TfperfError: there is no such session, or no history.
    """
    if name not in LATEST:
        return name
    newest = next((session for session, _ in history.newest_sessions(machine, alone_only=alone_only)), None)
    if newest is None:
        raise TfperfError(f"{name}: the history has 0 sessions", next_step="Run pytest first")
    if name == LATEST[0]:
        return newest
    # A team's server has sessions of other machines, too.
    machines = history.values_of("machine", session=newest, machine=machine)
    for session, own in history.newest_sessions(machine, alone_only=alone_only):
        if own in machines and session != newest:
            return session
    raise TfperfError(
        f"{name}: the history has 1 session of {', '.join(sorted(machines))}", next_step="Run pytest first"
    )


def nothing_left(history: History, wanted: Filters) -> TfperfError | None:
    """The error for the first filter that leaves no measurement; None if some are left, or without filters."""
    given = {name: value for name, value in wanted.items() if value is not None and name != "is_interleaved"}
    if not given or not history.has(is_interleaved=False):
        return None
    met: Filters = {}
    for name, value in given.items():
        left = cast("Filters", met | {name: value})
        alone: Filters = {**left, "is_interleaved": False}
        if not history.has(**alone):
            others = ", ".join(f"--{earlier}" for earlier in met)
            return TfperfError(f"--{name}{f' (with {others})' if others else ''}: {_why(name, value, history, met)}")
        met = left
    return None


def _why(name: str, value: object, history: History, met: Filters) -> str:
    """Why this filter leaves none of the measurements that met the filters before."""
    # The indexes know no sides, and names that were only compared are worth naming, too.
    if isinstance(value, datetime):
        first, last = history.times_of(**met)
        which, other = ("since", f"last is of {last}") if name == "since" else ("before", f"first is of {first}")
        return f"nothing was measured {which} {value:%Y-%m-%d %H:%M}; the {other}"
    given = str(value)
    known = list(filter(None, history.values_of(name, **met)))
    if not known:
        return f"no measurement has a {name}"
    nearest = get_close_matches(given, known, n=1) + [text for text in known if given in text]
    shown = list(dict.fromkeys([*nearest, *known]))[:_MOST_NAMED]
    more = f" And {len(known) - len(shown)} more: `tfperf history --csv`" if len(known) > len(shown) else ""
    return f"{one_of(name, given, shown)}{more}"
