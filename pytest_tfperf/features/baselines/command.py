"""`tfperf baselines`: machines listed, old rows found, and files merged that two branches recorded."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from pytest_tfperf.console.arguments import Commands, add_command, date_or_age, folder, history_place, open_history
from pytest_tfperf.console.output import show, show_json, warn, width
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.features.baselines.merging import finish_merge, merged_lines
from pytest_tfperf.reports.table import Columns, paragraphs, table
from pytest_tfperf.revisions.lock import unrepeatable
from pytest_tfperf.stores.baselines import BaselineStore

if TYPE_CHECKING:
    from pytest_tfperf.stores.history_queries import Filters


def add_to(commands: Commands) -> None:
    """Add the command and its own commands."""
    baselines = add_command(
        commands,
        "baselines",
        None,
        "list baselines, find those that are out of date, and merge those of two branches",
        examples=("tfperf baselines list", "tfperf baselines stale", "tfperf baselines merge"),
    )
    actions = baselines.add_subparsers(required=True, metavar="ACTION")
    where = folder("--baselines", "baselines", "folder of the baselines")
    _add(actions, "list", _list, "show the machines, with counts and dates", ("tfperf baselines list",), where)
    stale = _add(
        actions,
        "stale",
        _stale,
        "show measured rows that may be out of date",
        ("tfperf baselines stale", "tfperf baselines stale --older-than=180d --sessions=10"),
        where,
        history_place(),
    )
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
    add_command(
        actions,
        "merge",
        _merge,
        "finish git's merge, rebase or cherry-pick of files that both sides recorded: the newer row of each is kept",
        examples=("git merge main; tfperf baselines merge && git commit",),
        parents=[where],
    )


def _add(
    actions: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    examples: Sequence[str],
    *parents: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    action = add_command(actions, name, run, summary, examples=examples, parents=parents)
    action.add_argument("--json", action="store_true", help="print the rows as JSON")
    return action


def _list(arguments: argparse.Namespace) -> int:
    store = BaselineStore(arguments.baselines)
    machines = {name: _rows(store, name) for name in store.machines()}
    if arguments.json:
        show_json(plain(machines))
    else:
        show(*machine_table(machines, width()) or [f"no baselines in {arguments.baselines}/"])
    return EXIT_GREEN


def _rows(store: BaselineStore, machine: str) -> list[Baseline]:
    """Return the rows of throughputs, then those of other figures."""
    return [*store.load(machine).values(), *store.figures(machine).values()]


def _stale(arguments: argparse.Namespace) -> int:
    if arguments.sessions < 1:
        raise TfperfError(f"--sessions={arguments.sessions}: give the number of sessions to look at, from 1")
    store = BaselineStore(arguments.baselines, published=None)
    machines = store.machines()
    if arguments.machine and arguments.machine not in machines:
        raise TfperfError(one_of("machine", arguments.machine, machines))
    rows = [row for name in machines for row in _rows(store, name) if row.is_measured]
    wanted = [row for row in rows if arguments.machine in (None, row.machine)]
    measured = _measured_lately(arguments, {row.machine for row in wanted})
    stale = [(row, why) for row in wanted if (why := _reasons(row, measured.get(row.machine), arguments))]
    if arguments.json:
        show_json([plain(row) | {"reasons": why} for row, why in stale])
    else:
        unknown = [f"{name}: the history has no session of this machine" for name, keys in measured.items() if not keys]
        lines = stale_table(stale, width()) or [f"none of {len(wanted)} measured rows is out of date"]
        show(*paragraphs(lines, unknown))
    return EXIT_GREEN


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


def _merge(arguments: argparse.Namespace) -> int:
    files = finish_merge(arguments.baselines)
    for file in files:
        show(*merged_lines(file))
    if any(file.twice for file in files):
        show("No side measured the merged code: if a test of these rows is red, record it again")
    show("Next: git commit, or git rebase --continue")
    return EXIT_GREEN


def machine_table(machines: Mapping[str, Sequence[Baseline]], width: int | None = None) -> list[str]:
    """Return a line for each machine: the number of rows of each kind, and their dates."""
    return table(
        [_machine(name, rows) for name, rows in machines.items()],
        Columns(right={"rows", "measured", "published", "with lock"}, optional=("last", "first", "with lock")),
        width,
    )


def _machine(name: str, rows: Sequence[Baseline]) -> dict[str, str | None]:
    dates = sorted(row.date for row in rows if row.date)
    measured = sum(row.is_measured for row in rows)
    return {
        "machine": name,
        "rows": str(len(rows)),
        "measured": str(measured),
        "published": str(len(rows) - measured),
        "with lock": str(sum(bool(row.lock) for row in rows)),
        "first": dates[0] if dates else None,
        "last": dates[-1] if dates else None,
    }


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
