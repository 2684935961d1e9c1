"""`tfperf history prune`: delete old rows, or only their whole measurements, and free the space."""

from __future__ import annotations

import argparse
from datetime import datetime

from pytest_tfperf.console.arguments import Commands, add_command, date_or_age, history_place, open_history, wanted
from pytest_tfperf.console.output import show
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.numbers import counted


def add_to_history(actions: Commands) -> None:
    """Add the action."""
    prune = add_command(
        actions,
        _prune,
        "prune: delete what is older, or only its details, and free the space",
        examples=("tfperf history prune 365d", "tfperf history prune --details 30d"),
        parents=[history_place(is_action=True)],
    )
    prune.add_argument("before", type=date_or_age, metavar="AGE", help="90d, or 2026-01-31")
    prune.add_argument(
        "--details", action="store_true", help="drop whole measurements only: their rows and figures stay"
    )


def _prune(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores.old_details import drop_details

    history = open_history(arguments)
    others = (arguments.csv, arguments.json, arguments.export, *wanted(arguments, history).values())
    if any(value not in (None, False) for value in others):
        raise TfperfError("prune deletes by age only: leave --session, --csv and the like out")
    if arguments.before > datetime.now().astimezone():
        raise TfperfError("that time is in the future, so nothing would be left: give an age, as in 365d")
    before = arguments.before.isoformat(sep=" ", timespec="minutes")
    if arguments.details:
        history.database.require()
        dropped, _ = drop_details(history.database, arguments.before)
        if dropped:
            history.database.compact()
        show(f"{history.database}: dropped the details of {counted(dropped, 'measurement')} from before {before}")
    else:
        deleted = counted(history.prune(arguments.before), "measurement")
        show(f"{history.database}: deleted {deleted} from before {before}")
    return EXIT_GREEN
