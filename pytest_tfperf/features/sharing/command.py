"""`tfperf history pull`, `push` and `import`: exchange sessions with other histories."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pytest_tfperf.console.arguments import Commands, add_command, history_place, open_history
from pytest_tfperf.console.output import show, warn
from pytest_tfperf.console.session_settings import root, setting
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_USAGE
from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.features.sharing.plugin import HISTORY_URL
from pytest_tfperf.reports.numbers import counted

_MOST_BYTES_OF_A_FILE = 2**30  # whoever names a file trusts it


def add_to_history(actions: Commands) -> None:
    """Add the actions."""
    pull = add_command(
        actions,
        _pull,
        "pull: bring the sessions that others pushed",
        examples=(f"{VARIABLE}=git+. tfperf history pull", "tfperf history pull git+ssh://git@host/team/speed.git"),
        parents=[history_place(is_action=True)],
    )
    push = add_command(
        actions,
        _push,
        "push: send the sessions that the place lacks",
        statuses={EXIT_NOT_MEASURED: "a session's rows are damaged"},
        examples=("tfperf history push git+.", "tfperf history push /mnt/shared/speed"),
        parents=[history_place(is_action=True)],
    )
    for action, what in ((pull, "this machine's sessions first"), (push, "only this machine's sessions")):
        action.add_argument("--machine", action="append", default=[], metavar="NAME", help=what)
        action.add_argument(
            "url",
            nargs="?",
            metavar="URL",
            help=f"the place (default: {VARIABLE}, which no process list shows, or ini tfperf_history_url)",
        )
    read = add_command(
        actions,
        _import,
        "import: add sessions from files: documents of a place, or exports of one session",
        examples=("tfperf history import session.json.gz", "tfperf history import artifacts/*.json"),
        parents=[history_place(is_action=True)],
    )
    read.add_argument("files", nargs="+", type=Path, metavar="FILE")


def _pull(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.sharing.destination import destination_of
    from pytest_tfperf.features.sharing.sync import pull

    url, database = _url(arguments), open_history(arguments).database
    place = destination_of(url, folder=database.path.parent, root=root())
    added, refused = 0, list[str]()
    for added, why in pull(database, place, arguments.machine):
        show(f"{url}: brought {counted(added, 'session')}")  # a session that ends the pull says the last one
        if len(why) > len(refused):
            warn(_in_one_line(why))
        refused = list(why)
    if not added and not refused:
        show(f"{url}: nothing new")
    return EXIT_GREEN


def _in_one_line(why: Sequence[str]) -> str:
    return why[0] if len(why) == 1 else f"{why[0]}; and {len(why) - 1} more"


def _push(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.sharing.destination import destination_of
    from pytest_tfperf.features.sharing.sync import push
    from pytest_tfperf.stores import documents

    url, database = _url(arguments), open_history(arguments).database
    database.require()
    place = destination_of(url, folder=database.path.parent, root=root())
    sent, faults = push(database, place, documents.sessions_of(database, arguments.machine))
    show(f"{url}: sent {counted(sent, 'session')}")
    if faults:
        warn(_in_one_line(faults))
    return EXIT_NOT_MEASURED if faults else EXIT_GREEN


def _import(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores import documents

    def read(path: Path) -> tuple[str, bytes]:
        with worded(path, "read", "Name a document of a session"):
            return str(path), path.read_bytes()

    database = open_history(arguments).database
    *_, (added, refused) = documents.add(database, map(read, arguments.files), most_bytes=_MOST_BYTES_OF_A_FILE)
    if refused:
        warn(_in_one_line(refused))
    show(f"{database}: added {counted(added, 'session')}")
    return EXIT_USAGE if refused else EXIT_GREEN


def _url(arguments: argparse.Namespace) -> HistoryUrl:
    url = HistoryUrl(arguments.url) if arguments.url else setting(HISTORY_URL)
    if url is None:
        raise TfperfError(
            f"no place is named: set {VARIABLE}, or give it", next_step="For a branch of this repository: git+."
        )
    return url
