"""`tfperf history push`: send the measurements that a team's server lacks."""

from __future__ import annotations

import argparse

from pytest_tfperf.console.arguments import Commands, add_command, history_place, open_history
from pytest_tfperf.console.output import show
from pytest_tfperf.console.session_settings import setting
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.team.plugin import HISTORY_URL
from pytest_tfperf.reports.numbers import counted


def add_to_history(actions: Commands) -> None:
    """Add the action."""
    push = add_command(
        actions,
        "push",
        _push,
        "send what a team's server lacks",
        examples=(f"{VARIABLE}=postgresql://... tfperf history push", "tfperf history push postgresql://db/tfperf"),
        parents=[history_place(is_action=True)],
    )
    push.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help=f"the server (default: the variable {VARIABLE}, which no process list shows, unlike a URL given here)",
    )
    push.add_argument("--new", action="store_true", help="send only what no earlier push delivered to this server")


def _push(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.team.push import push
    from pytest_tfperf.stores.history_database import Database

    local = open_history(arguments)
    url = HistoryUrl(arguments.url) if arguments.url else setting(HISTORY_URL)
    if url is None:
        raise TfperfError(f"no server to send to: set {VARIABLE}=postgresql://USER@HOST/DATABASE, or name it: push URL")
    if local.database.path is None:
        raise TfperfError("--history: a push sends the history of a folder, not a server's")
    server = Database(url)
    sent = push(local.database, server, only_new=arguments.new)
    show(f"{server}: sent {counted(sent, 'measurement')}")
    return EXIT_GREEN
