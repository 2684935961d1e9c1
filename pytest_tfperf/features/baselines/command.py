"""`tfperf baselines`: old rows found, gains recorded, and files merged that two branches recorded."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from pytest_tfperf.console.arguments import (
    STATUSES,
    Commands,
    add_command,
    date_or_age,
    folder,
    history_place,
    open_history,
)
from pytest_tfperf.console.measured_test import wanted_test
from pytest_tfperf.console.output import show, show_json, warn, width
from pytest_tfperf.console.session_settings import root
from pytest_tfperf.core.baseline import Baseline, BaselineUpdate, Key
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED
from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.features.baselines.merging import finish_merge, merged_lines
from pytest_tfperf.reports.baselines import recorded_table
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.reports.table import Columns, paragraphs, table
from pytest_tfperf.revisions.lock import unrepeatable
from pytest_tfperf.stores.baseline_file import BaselineStore

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History
    from pytest_tfperf.stores.history_queries import Filters


def add_to(commands: Commands) -> None:
    """Add the command and its own commands."""
    baselines = add_command(
        commands,
        "baselines",
        None,
        "find baselines that are out of date, record gains from the history, and merge those of two branches",
        examples=("tfperf baselines stale", "tfperf baselines ratchet"),
    )
    actions = baselines.add_subparsers(required=True, metavar="ACTION")
    where = folder(Settings.baselines, "folder of the baselines")
    stale = add_command(
        actions,
        "stale",
        _stale,
        "show each machine's rows in a line, and measured rows that may be out of date",
        examples=("tfperf baselines stale", "tfperf baselines stale --older-than=180d --sessions=10"),
        parents=[where, history_place()],
    )
    stale.add_argument("--json", action="store_true", help="print the rows that may be out of date as JSON")
    stale.add_argument("--machine", metavar="NAME", help="only this machine's rows (default: all)")
    stale.add_argument(
        "--older-than", type=date_or_age, metavar="AGE", help="also rows recorded before: 180d, or 2026-01-31"
    )
    stale.add_argument(
        "--sessions",
        type=int,
        default=5,
        metavar="N",
        help="latest sessions that must have measured a row (default: 5)",
    )
    better = add_command(
        actions,
        "ratchet",
        _ratchet,
        "record rows that were IMPROVED in their last three sessions or more, from the runs in the history",
        examples=("tfperf baselines ratchet --dry-run", "tfperf baselines ratchet --machine=dgx1-p100 test_resnet50"),
        statuses={**STATUSES, EXIT_NOT_MEASURED: "rows were refused, or no space or no permission"},
        parents=[where, history_place()],
    )
    better.add_argument(
        "tests",
        nargs="*",
        metavar="TEST",
        help="only the rows of these tests: node ids or workloads' names, or parts of them (default: all)",
    )
    better.add_argument("--machine", metavar="NAME", help="only this machine's rows (default: all)")
    better.add_argument("--dry-run", action="store_true", help="show the rows, and write nothing")
    add_command(
        actions,
        "merge",
        _merge,
        "finish git's merge, rebase or cherry-pick of files that both sides recorded: the newer row of each is kept",
        examples=("git merge main; tfperf baselines merge && git commit",),
        parents=[where],
    )


def _stale(arguments: argparse.Namespace) -> int:
    if arguments.sessions < 1:
        raise TfperfError(f"--sessions={arguments.sessions}: give the number of sessions to look at, from 1")
    store = BaselineStore(arguments.baselines, published=None)
    names = _machines(arguments, store)
    machines = {name: [*store.load(name).values(), *store.figures(name).values()] for name in names}
    wanted = [row for rows in machines.values() for row in rows if row.is_measured]
    measured = _measured_lately(arguments, {row.machine for row in wanted})
    stale = [(row, why) for row in wanted if (why := _reasons(row, measured.get(row.machine), arguments))]
    if arguments.json:
        show_json([plain(row) | {"reasons": why} for row, why in stale])
    else:
        unknown = [f"{name}: the history has no session of this machine" for name, keys in measured.items() if not keys]
        lines = stale_table(stale, width()) or [f"none of {len(wanted)} measured rows is out of date"]
        show(*paragraphs([_in_a_line(name, rows) for name, rows in machines.items()], lines, unknown))
    return EXIT_GREEN


def _machines(arguments: argparse.Namespace, store: BaselineStore) -> list[str]:
    machines = store.machines()
    if arguments.machine and arguments.machine not in machines:
        raise TfperfError(one_of("machine", arguments.machine, machines))
    return [arguments.machine] if arguments.machine else machines


def _measured_lately(arguments: argparse.Namespace, machines: Iterable[str]) -> dict[str, set[Key]]:
    """Return the keys that the latest sessions of each machine measured; none without a history."""
    keys: dict[str, set[Key]] = {machine: set() for machine in sorted(machines)}
    try:
        history = open_history(arguments)
        for machine, of_machine in keys.items():
            newest = history.newest_sessions(machine, alone_only=True)
            for session, _ in list(islice(newest, arguments.sessions)):
                part: Filters = {"machine": machine, "session": session}
                of_machine |= {result.key for result in [*history.results(**part), *history.figure_results(**part)]}
    except TfperfError as error:
        warn(str(error))
    return keys


def _reasons(row: Baseline, measured: set[Key] | None, arguments: argparse.Namespace) -> list[str]:
    reasons = []
    if measured and row.key not in measured:
        last = "session" if arguments.sessions == 1 else f"{arguments.sessions} sessions"
        reasons.append(f"no test of the last {last} measured it")
    oldest = f"{arguments.older_than:%Y-%m-%d}" if arguments.older_than else ""
    if row.date < oldest:  # a row without a date is older than any
        reasons.append(f"recorded before {oldest}")
    if row.key.figure:  # confirmed in the reference environment of its throughput's row
        return reasons
    if row.lock and not (arguments.baselines / row.lock).exists():
        reasons.append(f"its lock {row.lock} is missing")
    elif unrepeatable(row):
        reasons.append("no reference environment can be built")
    return reasons


def _ratchet(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.baselines.ratchet import LEAST_SESSIONS, ratchet

    store, history = BaselineStore(arguments.baselines, published=None), open_history(arguments)
    history.database.require()
    only = {key for test in arguments.tests for key in _keys_of(test, history)} if arguments.tests else None
    changes: list[BaselineUpdate] = []
    refused: list[TfperfError] = []
    for machine in _machines(arguments, store):
        found = ratchet(store, history, machine, root=root(), only=only, writes=not arguments.dry_run)
        changes += found[0]
        refused += found[1]
    for error in refused:
        warn(str(error))
    if not changes:
        none = f"none was IMPROVED in each of its last {LEAST_SESSIONS} sessions"
        show(f"no row changes: {'those that were IMPROVED are refused' if refused else none}")
        return EXIT_NOT_MEASURED if refused else EXIT_GREEN
    show(f"{'would be ' if arguments.dry_run else ''}recorded in {arguments.baselines}, from the history:")
    show(*recorded_table(changes, width()))
    if arguments.dry_run:
        show("Next: the same without --dry-run")
    else:
        commit = f"git add {shlex.quote(str(arguments.baselines))} && git commit -m 'Record gains'"
        show(*dict.fromkeys(filter(None, (unrepeatable(change.new) for change in changes))), f"Next: {commit}")
    return EXIT_NOT_MEASURED if refused else EXIT_GREEN


def _keys_of(test: str, history: History) -> set[tuple[str, Key]]:
    """Return machine, workload and topology of all that a test measured; `test` is as `wanted_test` takes it."""
    results = history.latest(test=test) or history.latest()
    meant, _ = wanted_test(history, results, test)
    return {(result.machine, result.key) for result in results if result.test == meant}


def _merge(arguments: argparse.Namespace) -> int:
    files = finish_merge(arguments.baselines)
    for file in files:
        show(*merged_lines(file))
    if any(file.twice for file in files):
        show("No side measured the merged code: if a test of these rows is red, record it again")
    show("Next: git commit, or git rebase --continue")
    return EXIT_GREEN


def _in_a_line(machine: str, rows: Sequence[Baseline]) -> str:
    dates = sorted(row.date for row in rows if row.date)
    recorded = f", recorded {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    return f"{machine}: {counted(len(rows), 'row')}, {sum(row.is_measured for row in rows)} of them measured{recorded}"


def stale_table(stale: Iterable[tuple[Baseline, Sequence[str]]], width: int | None = None) -> list[str]:
    """Return a line for each row, with the reasons why it may be out of date."""
    rows = [
        {
            "machine": row.machine,
            "workload": row.key.workload,
            "topology": row.key.topology,
            "figure": shown_name(row.key.figure) if row.key.figure else None,
            "date": row.date,
            "why": "; ".join(reasons),
        }
        for row, reasons in stale
    ]
    return table(rows, Columns(optional=("why", "date", "machine"), ids=("workload",)), width)
