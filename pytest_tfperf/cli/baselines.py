"""`tfperf baselines`: the committed rows listed, shown, compared and checked for age."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_tfperf.cli.arguments import Commands, add_command, folder, history_place, moment, open_history
from pytest_tfperf.cli.output import show, show_json, warn, width
from pytest_tfperf.cli.session_settings import setting
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.reports.baselines import change_table, machine_table, note_lines, row_changes, row_table, stale_table
from pytest_tfperf.reports.wrapping import wrapped
from pytest_tfperf.stores.baseline_revisions import Rows, rows_of_path, rows_of_revision
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.workers.reference_environment import unrepeatable


def add_to(commands: Commands) -> None:
    """Add the command and its own commands."""
    baselines = add_command(
        commands,
        "baselines",
        None,
        "list, show and compare baselines, and find those that are out of date",
        examples=("tfperf baselines list", "tfperf baselines diff main..HEAD", "tfperf baselines stale"),
    )
    actions = baselines.add_subparsers(required=True, metavar="ACTION")
    where = folder("--baselines", "baselines", "folder of the baselines")
    _add(actions, "list", _list, "show the machines, with counts and dates", ("tfperf baselines list",), where)
    shown = _add(
        actions,
        "show",
        _show,
        "show a machine's rows",
        ("tfperf baselines show", "tfperf baselines show dgx1-p100"),
        where,
    )
    shown.add_argument("machine", nargs="?", metavar="MACHINE", help="file name without .csv (default: this machine)")
    diff = _add(
        actions,
        "diff",
        _diff,
        "compare the rows of two git revisions, or of two files or folders",
        ("tfperf baselines diff main..HEAD", "tfperf baselines diff HEAD", "tfperf baselines diff old.csv new.csv"),
        where,
    )
    diff.add_argument(
        "old", metavar="REV..REV", help="two revisions of the rows, or the old rows: a revision, a file or a folder"
    )
    diff.add_argument(
        "new", nargs="?", metavar="NEW", help="revision, file or folder of the new rows (default: --baselines)"
    )
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
        "--older-than", type=moment, metavar="AGE", help="also rows recorded before: 180d, or 2026-01-31"
    )
    stale.add_argument(
        "--sessions",
        type=int,
        default=5,
        metavar="N",
        help="latest sessions that must have measured a row (default: 5)",
    )


def _add(
    actions: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    what: str,
    examples: Sequence[str],
    *parents: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    action = add_command(actions, name, run, what, examples=examples, parents=parents)
    action.add_argument("--json", action="store_true", help="print the rows as JSON")
    return action


def _list(arguments: argparse.Namespace) -> int:
    store = BaselineStore(arguments.baselines)
    machines = {name: list(store.load(name).values()) for name in store.machines()}
    if arguments.json:
        show_json(plain(machines))
    else:
        show("\n".join(machine_table(machines, width())) or f"no baselines in {arguments.baselines}/")
    return EXIT_GREEN


def _show(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover

    store, machine = BaselineStore(arguments.baselines), arguments.machine or setting("machine") or discover().machine
    rows = list(store.load(machine).values())
    if not rows:
        raise TfperfError(f"{one_of('machine', machine, store.machines())} Record rows with pytest --update-baselines")
    if arguments.json:
        show_json(plain(rows))
    else:
        lines = [f"{machine}: {len(rows)} rows", "", *row_table(rows, width())]
        if notes := note_lines(rows):
            lines += ["", *(wrapped(note, width()) for note in notes)]
        show("\n".join(lines))
    return EXIT_GREEN


def _diff(arguments: argparse.Namespace) -> int:
    first, second = _sides(arguments)
    changes = row_changes(_rows(first, arguments.baselines), _rows(second, arguments.baselines))
    if arguments.json:
        show_json([plain(one) | {"row": one.what, "change": one.fraction} for one in changes])
    else:
        same = f"no row differs between {first} and {second}"
        show("\n".join(change_table(changes, width())) or same)
    return EXIT_GREEN


def _sides(arguments: argparse.Namespace) -> tuple[str, str]:
    """Both sides of a comparison.

    They are given as two arguments or as "A..B", in which an empty side is HEAD, as in git. One argument alone is
    compared with the files.
    """
    if arguments.new is not None:
        return arguments.old, arguments.new
    old, dots, new = arguments.old.partition("..")
    if dots and not Path(arguments.old).exists():
        return old or "HEAD", new.lstrip(".") or "HEAD"
    same_file = arguments.baselines / Path(arguments.old).name
    return arguments.old, str(same_file if Path(arguments.old).is_file() else arguments.baselines)


def _rows(side: str, folder: Path) -> Rows:
    return rows_of_path(Path(side)) if Path(side).exists() else rows_of_revision(side, folder)


def _stale(arguments: argparse.Namespace) -> int:
    if arguments.sessions < 1:
        raise TfperfError(f"--sessions={arguments.sessions}: give the number of sessions to look at, from 1")
    store = BaselineStore(arguments.baselines, published=None)
    machines = store.machines()
    if arguments.machine and arguments.machine not in machines:
        raise TfperfError(one_of("machine", arguments.machine, machines))
    rows = [row for name in machines for row in store.load(name).values() if row.is_measured]
    wanted = [row for row in rows if arguments.machine in (None, row.machine)]
    measured = _measured_lately(arguments, {row.machine for row in wanted})
    found = [(row, why) for row in wanted if (why := _reasons(row, measured.get(row.machine), arguments))]
    if arguments.json:
        show_json([plain(row) | {"reasons": why} for row, why in found])
    else:
        unknown = [f"{name}: the history has no session of this machine" for name, keys in measured.items() if not keys]
        lines = stale_table(found, width()) or [f"none of {len(wanted)} measured rows is out of date"]
        show("\n".join([*lines, "", *unknown] if unknown else lines))
    return EXIT_GREEN


def _measured_lately(arguments: argparse.Namespace, machines: Iterable[str]) -> dict[str, set[Key]]:
    """What the latest sessions of each machine measured; empty without such sessions, and without a history."""
    try:
        results = open_history(arguments).results()
    except TfperfError as error:
        warn(str(error))
        results = []
    found = {}
    for machine in sorted(machines):
        here = [one for one in results if one.machine == machine]
        sessions = list(dict.fromkeys(one.session for one in reversed(here)))[: arguments.sessions]
        found[machine] = {one.key for one in here if one.session in sessions}
    return found


def _reasons(row: Baseline, measured: set[Key] | None, arguments: argparse.Namespace) -> list[str]:
    reasons = []
    if measured and row.key not in measured:
        last = "session" if arguments.sessions == 1 else f"{arguments.sessions} sessions"
        reasons.append(f"no test of the last {last} measured it")
    oldest = f"{arguments.older_than:%Y-%m-%d}" if arguments.older_than else ""
    if row.date < oldest:  # a row without a date is older than any
        reasons.append(f"recorded before {oldest}")
    if row.lock and not (arguments.baselines / row.lock).exists():
        reasons.append(f"its lock {row.lock} is missing")
    elif unrepeatable(row):
        reasons.append("no reference environment can be built")
    return reasons
