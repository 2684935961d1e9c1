"""`tfperf history changes`: lasting changes of tests, figures and machines over the sessions of a history."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from pytest_tfperf.console.arguments import (
    Commands,
    add_command,
    date_or_age,
    history_place,
    nothing_left,
    open_history,
)
from pytest_tfperf.console.measured_test import filtered_test
from pytest_tfperf.console.output import show, show_json, width
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.past import LastingChange
from pytest_tfperf.core.past import moment as parsed
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.numbers import change as signed
from pytest_tfperf.reports.session_verdicts import ALL_TESTS, commits_of
from pytest_tfperf.reports.table import Columns, table

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import Filters


def add_to_history(actions: Commands) -> None:
    """Add the action."""
    changes = add_command(
        actions,
        _run,
        "changes: list lasting changes: steps and slow declines of tests, their figures, and machines",
        examples=(
            "tfperf history changes",
            "tfperf history changes --machine=dgx1-p100 --since=30d",
            "tfperf history changes --json",
        ),
        parents=[history_place(is_action=True)],
    )
    # `tfperf history` has these options, too; their values there must not be overwritten.
    changes.add_argument("--machine", default=argparse.SUPPRESS, metavar="NAME", help="only this machine")
    changes.add_argument("--test", default=argparse.SUPPRESS, metavar="TEST", help="only this test: its id, or its end")
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
    from pytest_tfperf.judging.lasting_changes import changes_of

    if arguments.session or arguments.until or arguments.commit:
        raise TfperfError(
            "changes are found in whole histories: give --machine, --test or --since, and no other filter"
        )
    history = open_history(arguments)
    test = filtered_test(history, arguments.test)
    part: Filters = {"machine": arguments.machine, "test": test}
    if error := nothing_left(history, part):
        raise error
    history.database.require()
    changes: list[LastingChange] = []
    # Other machines' results say nothing of one machine, or of the machines that measured one test.
    for machine in history.values_of("machine", **part) if any(part.values()) else [None]:
        # Even for a single test all tests of its machine are read: together they show changes of the machine itself.
        found = changes_of(history.values(machine=machine), test=test)
        changes += (change for change in found if arguments.since is None or parsed(change.time) >= arguments.since)
    changes.sort(key=lambda change: parsed(change.time))
    if arguments.json:
        show_json([asdict(change) for change in changes])
    else:
        show(*change_table(changes, width()) or ["no lasting change was found"])
    return EXIT_GREEN


_COLUMNS = Columns(
    right={"change", "sessions since"},
    optional=("95 % CI", "commits", "sessions since", "machine", "workload", "topology"),
    ids=("test", "workload"),
)


def change_table(changes: Iterable[LastingChange], width: int | None = None) -> list[str]:
    """Return a line for each change; `width` is the terminal's, None for no limit."""
    rows = [
        {
            "since": change.time[:10],
            "kind": change.kind.value,
            "change": signed(change.size),
            "is": ("worse" if change.is_worse else "better") if change.key and change.key.figure else None,
            "figure": shown_name(change.key.figure) if change.key and change.key.figure else None,
            "95 % CI": f"{signed(change.low)} to {signed(change.high)}",
            "test": change.test or ALL_TESTS,
            "commits": commits_of(change),
            "sessions since": str(change.sessions_since),
            "workload": change.key.workload if change.key else "",
            "topology": change.key.topology if change.key else "",
            "machine": change.machine,
        }
        for change in changes
    ]
    return table(rows, _COLUMNS, width)
