"""The command `tfperf`: the machine, replayed measurements, the history, and a small data set; it needs no pytest."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.bench.replay import LogDescription
    from pytest_tfperf.stores.history import History

_USAGE = 4  # pytest's status for a bad command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 green, 1 regressed, 4 wrong arguments, 6 could not measure."""
    try:
        parsed = _parser().parse_args(arguments)
    except SystemExit as ended:  # argparse has printed why, or the help
        return _USAGE if ended.code else EXIT_GREEN
    try:
        status: int = parsed.run(parsed)
    except TfperfError as error:
        print(f"tfperf: {error}", file=sys.stderr)
        return _USAGE
    return status


def _print(text: str) -> None:
    """Print and flush; a reader that leaves early (`tfperf replay ... | head -1`) does not change the exit status."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # What is left goes nowhere: Python flushes stdout once more when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tfperf", description="pytest-tfperf without pytest")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    topology = commands.add_parser("topology", help="show GPUs, the links between them, and the host")
    topology.add_argument("--json", action="store_true", help="as JSON, to keep as a snapshot")
    topology.set_defaults(run=_topology)
    replay = commands.add_parser(
        "replay", help="judge tf_cnn_benchmarks logs or exported measurements as if they were measured now"
    )
    replay.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="logs, or files of `tfperf history --export`"
    )
    replay.add_argument("--machine", metavar="NAME", help="judge against this machine's baselines (required for logs)")
    replay.add_argument("--workload", metavar="ID", help="workload of the logs, as in resnet50-b64-horovod-device")
    replay.add_argument("--topology", metavar="NxM", help="nodes x devices per node of the logs, as in 2x4")
    replay.add_argument("--tolerance", type=float, metavar="FRACTION", help="accepted change (default: the baseline's)")
    replay.add_argument(
        "--baselines",
        type=Path,
        metavar="DIR",
        help="folder of baselines (default: baselines/ for logs; the recorded baseline for exported measurements)",
    )
    replay.set_defaults(run=_replay)
    measured_in = _folder("--dir", ".tfperf", "folder of the history")
    history = commands.add_parser("history", parents=[measured_in], help="show or export what was measured here")
    history.add_argument("--csv", action="store_true", help="print every measurement as CSV")
    history.add_argument("--export", action="store_true", help="write whole measurements as JSON, for `tfperf replay`")
    history.add_argument("--session", metavar="ID", help="export only this session (the table shows the ids)")
    history.add_argument("--test", metavar="NODEID", help="export only this test")
    history.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the export to FILE, not to stdout")
    history.set_defaults(run=_history)
    make = commands.add_parser("make-imagenet", help="write a small data set of real photographs, of ImageNet's schema")
    make.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    for option, default, what in (
        ("--images", 512, "number of photographs, about 0.1 MB each"),
        ("--shards", 8, "number of files"),
        ("--seed", 1, "seed of all random choices; the same seed gives the same files"),
    ):
        make.add_argument(option, type=int, default=default, metavar="N", help=f"{what} (default: {default})")
    make.set_defaults(run=_make_imagenet)
    _add_reference(commands)
    return parser


def _add_reference(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    reference = commands.add_parser(
        "reference", help="build, list and remove the environments in which baselines were recorded"
    )
    actions = reference.add_subparsers(required=True, metavar="ACTION")
    folders = [
        _folder("--dir", ".tfperf", "where environments lie"),
        _folder("--baselines", "baselines", "folder of the baselines"),
    ]
    create = actions.add_parser("create", parents=folders, help="build the environments of a machine's baselines")
    create.add_argument(
        "--machine", metavar="NAME", help="the baselines' file name without .csv (default: this machine)"
    )
    create.set_defaults(run=_reference_create)
    show = actions.add_parser("list", parents=folders, help="show environments, what they serve and their disk use")
    show.set_defaults(run=_reference_list)
    remove = actions.add_parser("remove", parents=folders, help="delete an environment and its git worktrees")
    which = remove.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", metavar="NAME", help="as `tfperf reference list` shows it")
    which.add_argument("--all", action="store_true", help="delete all environments")
    remove.set_defaults(run=_reference_remove)


def _folder(option: str, default: str, what: str) -> argparse.ArgumentParser:
    """A parent of commands that take such a folder."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(option, type=Path, default=Path(default), metavar="DIR", help=f"{what} (default: {default}/)")
    return parser


def _topology(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover
    from pytest_tfperf.reports.topology import render

    found = discover()
    _print(json.dumps(found.to_json(), indent=2) if arguments.json else render(found))
    return EXIT_GREEN


def _replay(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.bench.replay import next_step, replay_export, replay_log
    from pytest_tfperf.core.verdict import Outcome, Tolerance
    from pytest_tfperf.reports.measurement_table import counts, measurement_table, outcome
    from pytest_tfperf.reports.message import message
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.measurement_file import is_measurement_file

    logs = [file for file in arguments.files if not is_measurement_file(file)]
    of = _description(arguments, logs)
    tolerance = None if arguments.tolerance is None else Tolerance.of(arguments.tolerance)
    # Without a folder or a machine, exported measurements are judged against the rows that they hold.
    named = arguments.baselines or arguments.machine
    store = BaselineStore(arguments.baselines or Path("baselines")) if named else None
    measurements = []
    for file in arguments.files:
        if of is not None and store is not None and file in logs:
            measurements.append(replay_log(file, of, store, tolerance=tolerance, tests=len(logs)))
        else:
            measurements += replay_export(file, store, machine=arguments.machine or "", tolerance=tolerance)
    for measurement in measurements:
        if measurement.verdict is not None:
            _print(message(measurement, hint=next_step(measurement, store)) + "\n")
    _print("\n".join([*measurement_table(measurements), "", counts(map(outcome, measurements))]))
    outcomes = {measurement.verdict.outcome for measurement in measurements if measurement.verdict}
    if Outcome.REGRESSED in outcomes:
        return EXIT_REGRESSED
    return EXIT_NOT_MEASURED if outcomes & {Outcome.INVALID, Outcome.NO_BASELINE} else EXIT_GREEN


def _description(arguments: argparse.Namespace, logs: Sequence[Path]) -> LogDescription | None:
    """What the logs are logs of; None where there are only exported measurements, which hold it themselves."""
    from pytest_tfperf.bench.replay import LogDescription
    from pytest_tfperf.core.workload import Workload

    if not logs:
        return None
    given = {f"--{name}": getattr(arguments, name) for name in ("machine", "workload", "topology")}
    if missing := [name for name, value in given.items() if value is None]:
        raise TfperfError(f"{logs[0]} is a log, which does not name its workload: give {', '.join(missing)}")
    workload = Workload.parse(arguments.workload)
    return LogDescription(machine=arguments.machine, workload=workload, topology=arguments.topology)


def _history(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.reports.comparisons import latest_comparisons
    from pytest_tfperf.reports.history import by_workload
    from pytest_tfperf.stores.history import History

    history = History(arguments.dir / "history.sqlite")
    if arguments.export:
        return _export(history, arguments)
    if arguments.session or arguments.test or arguments.output:
        raise TfperfError("--session, --test and -o belong to an export: add --export")
    measured = history.frame()
    if arguments.csv:
        _print(measured.to_csv(index=False).rstrip("\n"))
        return EXIT_GREEN
    tables = [by_workload(measured), latest_comparisons(history.comparisons())]
    _print("\n\n".join("\n".join(lines) for lines in tables if lines) or "nothing was measured here yet")
    return EXIT_GREEN


def _export(history: History, arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores import measurement_file

    measurements = list(history.measurements(arguments.session, arguments.test))
    if not measurements:
        raise TfperfError("the history holds no such measurement: `tfperf history --csv` lists sessions and tests")
    if arguments.output is None:
        _print(measurement_file.render(measurements))
    else:
        measurement_file.write(arguments.output, measurements)
    return EXIT_GREEN


def _make_imagenet(arguments: argparse.Namespace) -> int:
    import subprocess

    # A process of its own, because TensorFlow writes the records.
    command = [sys.executable, "-P", "-m", "pytest_tfperf.training.make_imagenet", str(arguments.folder)]
    command += map(str, (arguments.images, arguments.shards, arguments.seed))
    return subprocess.run(command, check=False).returncode


def _reference_create(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.workers.reference_environment import check
    from pytest_tfperf.workers.reference_store import ReferenceStore

    machine = arguments.machine or discover().machine
    rows = [row for row in BaselineStore(arguments.baselines).load(machine).values() if row.is_measured]
    if not rows:
        raise TfperfError(
            f"{arguments.baselines / machine}.csv has no baselines that were measured. Record them with "
            "pytest --update-baselines, or name another machine with --machine=NAME"
        )
    store = ReferenceStore(arguments.dir, baselines=arguments.baselines, root=Path.cwd())
    status = EXIT_GREEN
    for row in {(row.lock, row.commit): row for row in rows}.values():
        try:
            environment = store.create(row, _print)
            tensorflow, _ = check(environment, [], Path.cwd())
            _print(f"{environment.name}: ready at {row.commit}, TensorFlow {tensorflow}")
        except TfperfError as error:
            print(f"tfperf: {error}", file=sys.stderr)
            status = _USAGE
    return status


def _reference_list(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.workers.reference_store import ReferenceStore

    baselines = BaselineStore(arguments.baselines)
    rows = [row for machine in baselines.machines() for row in baselines.load(machine).values()]
    entries = ReferenceStore(arguments.dir, baselines=arguments.baselines, root=Path.cwd()).entries(rows)
    for entry in entries:
        lock, commits = entry.lock, ", ".join(entry.commits) or "none"
        facts = [f"Python {lock.python}", f"TensorFlow {lock.tensorflow}"] if lock else []
        facts += [f"commit {commits}", f"serves {entry.rows} baselines", f"{entry.bytes / 1e9:.1f} GB"]
        state = f"can't be used\n  {entry.fault}" if entry.fault else "ok"
        _print(f"{entry.name}  {', '.join(facts)}  {state}")
    if not entries:
        _print("there are no reference environments; `tfperf reference create` builds them")
    return EXIT_GREEN


def _reference_remove(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.workers.reference_store import ReferenceStore

    store = ReferenceStore(arguments.dir, baselines=arguments.baselines, root=Path.cwd())
    for name in [entry.name for entry in store.entries([])] if arguments.all else [arguments.name]:
        store.remove(name, _print)
        _print(f"{name}: removed")
    return EXIT_GREEN


if __name__ == "__main__":
    sys.exit(main())
