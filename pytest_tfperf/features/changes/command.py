"""`tfperf history changes`: lasting changes of tests, figures and machines over the sessions of a history."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import datetime

from pytest_tfperf.console.arguments import Commands, add_command, date_or_age, history_place, open_history
from pytest_tfperf.console.filters import nothing_left
from pytest_tfperf.console.output import show, show_json, width
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.core.past import moment as parsed
from pytest_tfperf.core.session_verdicts import Change
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.changes.table import change_table


def add_to_history(actions: Commands) -> None:
    """Add the action."""
    changes = add_command(
        actions,
        "changes",
        _run,
        "list lasting changes: steps and slow declines of tests, their figures, and machines",
        examples=(
            "tfperf history changes",
            "tfperf history changes --machine=dgx1-p100 --since=30d",
            "tfperf history changes --json",
        ),
        parents=[history_place(is_action=True)],
    )
    # `tfperf history` has these options, too; their values there must not be overwritten.
    changes.add_argument("--machine", default=argparse.SUPPRESS, metavar="NAME", help="only this machine")
    changes.add_argument("--test", default=argparse.SUPPRESS, metavar="NODEID", help="only this test")
    changes.add_argument(
        "--since",
        type=date_or_age,
        default=argparse.SUPPRESS,
        metavar="TIME",
        help="only changes since this date, time or age: 2026-01-31, 30d",
    )
    changes.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="as a JSON list of objects, all fields"
    )


def _run(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.judging.changes import changes_of

    if arguments.session or arguments.until or arguments.commit:
        raise TfperfError(
            "changes are found in whole histories: give --machine, --test or --since, and no other filter"
        )
    # All tests of a machine are read, even if one is asked for: together they show changes of the machine itself.
    history = open_history(arguments)
    if error := nothing_left(history, {"machine": arguments.machine, "test": arguments.test}):
        raise error
    machine = arguments.machine
    results = [*history.results(machine=machine), *history.figure_results(machine=machine)]
    found = [change for change in changes_of(results) if _is_wanted(change, arguments.test, arguments.since)]
    if arguments.json:
        show_json([asdict(change) for change in found])
    else:
        show("\n".join(change_table(found, width())) or "no lasting change was found")
    return EXIT_GREEN


def _is_wanted(change: Change, test: str | None, since: datetime | None) -> bool:
    return (test is None or change.test == test) and (since is None or parsed(change.time) >= since)
