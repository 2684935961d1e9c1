"""`tfperf reference`: the environments in which baselines were recorded, built, listed and removed."""

from __future__ import annotations

import argparse

from pytest_tfperf.console.arguments import Commands, add_command, folder
from pytest_tfperf.console.output import show, show_json, warn
from pytest_tfperf.console.session_settings import root, setting
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_USAGE
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.references.environment import ReferenceStore, check
from pytest_tfperf.reports.numbers import counted, size
from pytest_tfperf.revisions.pythons import require_python
from pytest_tfperf.stores.baseline_file import BaselineStore


def add_to(commands: Commands) -> None:
    """Add the command and its own commands."""
    reference = add_command(
        commands,
        None,
        "reference: build, list and remove reference environments. Baselines were recorded in them",
        examples=("tfperf reference create", "tfperf reference list", "tfperf reference remove --all"),
    )
    actions = reference.add_subparsers(required=True, metavar="ACTION")
    folders = [folder(Settings.dir, "where environments lie"), folder(Settings.baselines, "folder of the baselines")]
    create = add_command(
        actions,
        _create,
        "create: build the environments of a machine's baselines",
        examples=("tfperf reference create", "tfperf reference create --machine=dgx1-p100"),
        parents=folders,
    )
    create.add_argument(
        "--machine",
        default=setting(Settings.machine) or None,
        metavar="NAME",
        help="the baselines' file name without .csv (default: as a session has it, or this machine)",
    )
    listing = add_command(
        actions,
        _list,
        "list: show environments, what they serve and their disk use",
        examples=("tfperf reference list", "tfperf reference list --json"),
        parents=folders,
    )
    listing.add_argument("--json", action="store_true", help="print the environments as JSON")
    remove = add_command(
        actions,
        _remove,
        "remove: delete an environment and its git worktrees",
        examples=("tfperf reference remove NAME", "tfperf reference remove --all"),
        parents=folders,
    )
    which = remove.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", metavar="NAME", help="as `tfperf reference list` shows it")
    which.add_argument("--all", action="store_true", help="delete all environments")


def _create(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover

    machine = arguments.machine or discover().machine
    rows = [row for row in BaselineStore(arguments.baselines).load(machine).values() if row.is_measured]
    if not rows:
        raise TfperfError(
            f"{arguments.baselines / machine}.csv has no baselines that were measured",
            next_step="Record them with pytest --update-baselines, or name another machine with --machine=NAME",
        )
    store = ReferenceStore(arguments.dir, baselines=arguments.baselines, root=root())
    status = EXIT_GREEN
    for row in {(row.lock, row.commit): row for row in rows}.values():
        try:
            environment = store.create(row, show)
            subjects = [parse_subject(other.key.workload) for other in rows if other.lock == row.lock]
            if any(isinstance(subject, Workload) for subject in subjects):
                tensorflow, _ = check(environment, [])
                show(f"{environment.name}: ready at {row.commit}, TensorFlow {tensorflow}")
            else:  # a user's program need not use TensorFlow
                require_python(environment.python)
                show(f"{environment.name}: ready at {row.commit}")
        except TfperfError as error:
            warn(str(error))
            status = EXIT_USAGE
    return status


def _list(arguments: argparse.Namespace) -> int:
    baselines = BaselineStore(arguments.baselines)
    rows = [row for machine in baselines.machines() for row in baselines.load(machine).values()]
    entries = ReferenceStore(arguments.dir, baselines=arguments.baselines, root=root()).entries(rows)
    if arguments.json:
        show_json(plain(entries))
        return EXIT_GREEN
    for entry in entries:
        lock, commits = entry.lock, ", ".join(entry.commits) or "none"
        facts = [f"Python {lock.python}"] if lock else []
        facts += [f"TensorFlow {lock.tensorflow}"] if lock and lock.tensorflow else []
        facts += [f"commit {commits}", f"serves {counted(entry.rows, 'baseline')}", size(entry.bytes)]
        state = "can't be used" if entry.fault else "ok"
        show(f"{entry.name}  {', '.join(facts)}  {state}", *([f"  {entry.fault}"] if entry.fault else []))
    if not entries:
        show("there are no reference environments; `tfperf reference create` builds them")
    return EXIT_GREEN


def _remove(arguments: argparse.Namespace) -> int:
    store = ReferenceStore(arguments.dir, baselines=arguments.baselines, root=root())
    names = [entry.name for entry in store.entries([])] if arguments.all else [arguments.name]
    for name in names:
        store.remove(name, show)
        show(f"{name}: removed")
    if not names:
        show("there are no reference environments")
    return EXIT_GREEN
