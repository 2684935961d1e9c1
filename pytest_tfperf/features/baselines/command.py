"""`tfperf baselines`: old rows found, measured changes accepted, and files merged that two branches recorded."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.console.arguments import (
    Commands,
    Group,
    add_command,
    date_or_age,
    folder,
    history_place,
    nothing_left,
    open_history,
    session_id,
)
from pytest_tfperf.console.measured_test import is_part, named, several, wanted_test
from pytest_tfperf.console.output import show, show_json, warn, width
from pytest_tfperf.console.session_settings import root
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED
from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import moment
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.features.baselines.merging import finish_merge, merged_lines
from pytest_tfperf.features.baselines.sources import read_from
from pytest_tfperf.reports.baselines import recorded_table
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.reports.table import Columns, paragraphs, table
from pytest_tfperf.revisions.lock import unrepeatable
from pytest_tfperf.stores import acknowledgements
from pytest_tfperf.stores.baseline_file import BaselineStore

if TYPE_CHECKING:
    from pytest_tfperf.features.baselines.accept import Accepted, Change
    from pytest_tfperf.stores.history import Filters, History


def add_to(commands: Commands) -> None:
    """Add the command and its own commands."""
    baselines = add_command(
        commands,
        None,
        "baselines: accept changes as baselines, find old rows, merge branches",
        group=Group.EVERY_DAY,
        examples=("tfperf baselines accept test_resnet50", "tfperf baselines stale"),
    )
    actions = baselines.add_subparsers(required=True, metavar="ACTION")
    where = folder(Settings.baselines, "folder of the baselines")
    stale = add_command(
        actions,
        _stale,
        "stale: show each machine's rows in a line, and measured rows that may be out of date",
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
    accept = add_command(
        actions,
        _accept,
        "accept: make what a session has measured the baselines of its tests, without a new run",
        examples=(
            "tfperf baselines accept test_resnet50",
            "tfperf baselines accept --all-failed --from result.json",
            "tfperf baselines accept --gains --dry-run",
        ),
        statuses={EXIT_NOT_MEASURED: "rows were refused"},
        parents=[where, history_place()],
    )
    accept.add_argument("tests", nargs="*", metavar="TEST", help="node ids or workloads' names, or parts of them")
    accept.add_argument("--session", metavar="ID", help="the session: its id, latest or previous (default: each last)")
    accept.add_argument(
        "--from",
        dest="sources",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="take it from a result.json, an export, or an archive (.zip) with these, in place of the history",
    )
    which = accept.add_mutually_exclusive_group()
    which.add_argument("--all-failed", action="store_true", help="accept what failed in the session, and nothing else")
    which.add_argument(
        "--gains",
        action="store_true",
        help="accept rows that their last five sessions show to be better (default: all)",
    )
    accept.add_argument("--machine", metavar="NAME", help="only this machine's rows (default: all)")
    accept.add_argument("--dry-run", action="store_true", help="show the rows, and write nothing")
    add_command(
        actions,
        _merge,
        "merge: finish git's merge or rebase of files that both sides recorded. The newer row of each is kept",
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
                of_machine |= {value.key for value in history.values(**part)}
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


def _accept(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.baselines.accept import GAIN_SESSIONS, record

    if not (arguments.tests or arguments.all_failed or arguments.gains):
        raise TfperfError("no TEST", next_step="Name one, or give --all-failed, or --gains")
    if (arguments.all_failed and arguments.tests) or (arguments.gains and (arguments.sources or arguments.session)):
        raise TfperfError("--all-failed takes no TEST, and --gains no --session and no --from: leave one of them out")
    store = BaselineStore(arguments.baselines, published=None)
    known = acknowledgements.read(arguments.baselines)
    accepted: list[Accepted] = []
    refused: list[TfperfError] = []
    changes = _gains(arguments, store) if arguments.gains else _changes(arguments)
    for machine in dict.fromkeys(change.machine for change in changes):
        of_machine = [change for change in changes if change.machine == machine]
        found = record(store, of_machine, root=root(), acknowledged=known, writes=not arguments.dry_run)
        accepted += found[0]
        refused += found[1]
    for error in refused:
        warn(str(error))
    if accepted:
        _show_accepted(arguments, accepted)
    else:
        none = f"noise explains the last {GAIN_SESSIONS} sessions of each" if arguments.gains else "nothing failed"
        show(f"no row changes: {'what changed is refused' if refused else none}")
    return EXIT_NOT_MEASURED if refused else EXIT_GREEN


def _show_accepted(arguments: argparse.Namespace, accepted: Sequence[Accepted]) -> None:
    changes = [each.update for each in accepted]
    show(f"{'would be ' if arguments.dry_run else ''}recorded in {arguments.baselines}:")
    show(*recorded_table(changes, width()), "for the pull request:", *map(str, accepted))
    if arguments.dry_run:
        show("Next: the same without --dry-run")
    else:
        what = "gains" if arguments.gains else "measured changes"
        commit = f"git add {shlex.quote(str(arguments.baselines))} && git commit -m 'Accept {what}'"
        show(*dict.fromkeys(filter(None, (unrepeatable(change.new) for change in changes))), f"Next: {commit}")


def _gains(arguments: argparse.Namespace, store: BaselineStore) -> list[Change]:
    """Return the gains of the named machines and tests; by default of all."""
    from pytest_tfperf.features.baselines.accept import gains

    history = open_history(arguments)
    history.has()  # an error where there is none
    names = _machines(arguments, store)
    rows = [row for name in names for row in (*store.load(name).values(), *store.figures(name).values())]
    if arguments.tests:
        only = {key for test in arguments.tests for key in _keys_of(test, history)}
        rows = [row for row in rows if (row.machine, row.key._replace(figure="")) in only]
    return list(gains(rows, history))


def _changes(arguments: argparse.Namespace) -> list[Change]:
    """Return the changes that the arguments name, with all measurements that count."""
    from pytest_tfperf.features.baselines.accept import confirmed, of_history, with_others

    in_files = [m for path in arguments.sources for m in read_from(path)]
    measured = _of_files(arguments, in_files) if arguments.sources else _of_history(arguments)
    changes = []
    for change in confirmed(measured, only_failed=arguments.all_failed):
        m = change.measurements[0]
        others = [other for other in in_files if other.session != m.session]
        if not arguments.sources:
            others = of_history(open_history(arguments), m)
        changes.append(with_others(change, others))
    return changes


def _of_history(arguments: argparse.Namespace) -> list[Measurement]:
    """Return the measurements of the named tests, each of the session that is named or that measured it last."""
    history, machine = open_history(arguments), arguments.machine
    if error := nothing_left(history, {"machine": machine}):
        raise error
    asked = session_id(
        history, arguments.session or ("latest" if arguments.all_failed else None), machine, alone_only=True
    )
    if arguments.all_failed:
        return list(history.measurements(session=asked, machine=machine, is_interleaved=False))
    of_session = history.values(session=asked, machine=machine, figure="")
    results = list(of_session) if asked else history.latest(machine=machine)
    tests = [wanted_test(history, results, test, asked) for test in arguments.tests]
    return [
        m
        for test, session in dict.fromkeys(tests)
        for m in history.measurements(session=session, test=test, machine=machine, is_interleaved=False)
    ]


def _of_files(arguments: argparse.Namespace, measured: Sequence[Measurement]) -> list[Measurement]:
    """Return the measurements that the arguments name, of those that their files have."""
    alone = [m for m in measured if m.other is None]
    for name in ("machine", "session"):
        if (value := getattr(arguments, name)) is not None:
            if value not in (known := {getattr(m, name) for m in alone}):
                raise TfperfError(f"{arguments.sources[0]}: {one_of(name, value, known)}")
            alone = [m for m in alone if getattr(m, name) == value]
    tests = {m.test for m in alone} if arguments.all_failed else {_test_of(name, alone) for name in arguments.tests}
    last = {m.test: m.session for m in sorted(alone, key=lambda m: moment(m.time))}
    return [m for m in alone if m.test in tests and m.session == last[m.test]]


def _test_of(name: str, measurements: Sequence[Measurement]) -> str:
    tests = list(dict.fromkeys(m.test for m in measurements))
    meant = named(name, tests) or list(
        dict.fromkeys(m.test for m in measurements if name in m.test or is_part(name, m.workload.id, m.name))
    )
    if len(meant) > 1:
        raise several(name, meant)
    if not meant:
        raise TfperfError(one_of("test", name, tests))
    return meant[0]


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
