"""`tfperf history prune-details`: drop all whole measurements that are old enough, and free their space."""

from __future__ import annotations

import argparse

from pytest_tfperf.console.arguments import Commands, add_command, date_or_age, history_place, open_history
from pytest_tfperf.console.output import show
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.reports.numbers import counted


def add_to_history(actions: Commands) -> None:
    """Add the action."""
    prune = add_command(
        actions,
        "prune-details",
        _prune,
        "drop whole measurements of long ago, whose figures stay, and free their space",
        examples=(
            "tfperf history prune-details",
            "tfperf history prune-details 30d",
            "tfperf history --history=postgresql://db.example.com/tfperf prune-details 365d",
        ),
        parents=[history_place(is_action=True)],
    )
    prune.add_argument(
        "before",
        nargs="?",
        type=date_or_age,
        default="90d",
        metavar="AGE",
        help="drop what is older: 90d (default), or 2026-01-31",
    )


def _prune(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores.old_details import drop_details

    database = open_history(arguments).database
    database.require()
    dropped = drop_details(database, arguments.before).measurements
    if dropped:
        database.compact()
    before = arguments.before.isoformat(sep=" ", timespec="minutes")
    show(f"{database}: dropped the details of {counted(dropped, 'measurement')} from before {before}")
    return EXIT_GREEN
