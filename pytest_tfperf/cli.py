"""`tfperf`: what needs no pytest: the machine, logs judged like measurements, the documents' baselines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.bench.replay import Replay

_USAGE = 4  # pytest's status for a command line that can't be


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 green, 1 regressed, 4 wrong arguments, 6 could not measure."""
    try:
        parsed = _parser().parse_args(arguments)
    except SystemExit as ended:  # argparse has said why, or helped
        return _USAGE if ended.code else EXIT_GREEN
    try:
        status: int = parsed.run(parsed)
    except TfperfError as error:
        print(f"tfperf: {error}", file=sys.stderr)
        return _USAGE
    except BrokenPipeError:  # `tfperf topology | head`
        sys.stderr.close()
        return EXIT_GREEN
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tfperf", description="pytest-tfperf without pytest")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    topology = commands.add_parser("topology", help="show GPUs, the links between them, and the host")
    topology.add_argument("--json", action="store_true", help="as JSON, to keep as a snapshot")
    topology.set_defaults(run=_topology)
    replay = commands.add_parser(
        "replay", help="judge tf_cnn_benchmarks logs, or trials of --tfperf-save-trials, as if they were measured now"
    )
    replay.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="logs, trials' files, folders of trials' files"
    )
    replay.add_argument(
        "--machine", metavar="NAME", help="whose baselines, a file's name without .csv; a log's must be named"
    )
    replay.add_argument("--workload", metavar="ID", help="a log's, as in resnet50-b64-horovod-device")
    replay.add_argument("--topology", metavar="NxM", help="a log's nodes x devices per node, as in 2x4")
    replay.add_argument("--tolerance", type=float, metavar="FRACTION", help="accepted change (default: the baseline's)")
    replay.add_argument(
        "--baselines",
        type=Path,
        metavar="DIR",
        help="default: baselines/ for logs, and for a trial the row that it was judged against when it was recorded",
    )
    replay.set_defaults(run=_replay)
    history = commands.add_parser("history", help="show what was measured here so far")
    history.add_argument("--dir", type=Path, default=Path(".tfperf"), metavar="DIR", help="default: .tfperf/")
    history.add_argument("--csv", action="store_true", help="every measurement, as CSV")
    history.add_argument("--comparisons", action="store_true", help="comparisons only (with --csv: every one, as CSV)")
    history.set_defaults(run=_history)
    documents = commands.add_parser("documents", help="write the documents' baselines anew")
    documents.add_argument("folder", type=Path, metavar="DIR", help="where the three documents are")
    documents.add_argument(
        "--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="default: baselines/"
    )
    documents.set_defaults(run=_documents)
    make = commands.add_parser("make-imagenet", help="write a small data set of real photographs, of ImageNet's schema")
    make.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    make.add_argument("--images", type=int, default=512, metavar="N", help="default: 512, about 60 MB")
    make.add_argument("--shards", type=int, default=8, metavar="N", help="default: 8")
    make.add_argument("--seed", type=int, default=1, metavar="N", help="the same seed gives the same files")
    make.set_defaults(run=_make_imagenet)
    _add_reference(commands)
    return parser


def _add_reference(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    reference = commands.add_parser("reference", help="build, list and remove what baselines were recorded with")
    actions = reference.add_subparsers(required=True, metavar="ACTION")
    folders = argparse.ArgumentParser(add_help=False)
    folders.add_argument(
        "--dir", type=Path, default=Path(".tfperf"), metavar="DIR", help="where environments lie (default: .tfperf/)"
    )
    folders.add_argument("--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="default: baselines/")
    create = actions.add_parser("create", parents=[folders], help="build the environments of a machine's baselines")
    create.add_argument(
        "--machine", metavar="NAME", help="the baselines' file name without .csv (default: this machine)"
    )
    create.set_defaults(run=_reference_create)
    show = actions.add_parser("list", parents=[folders], help="show environments, what they serve and their disk use")
    show.set_defaults(run=_reference_list)
    remove = actions.add_parser("remove", parents=[folders], help="delete an environment and its git worktrees")
    which = remove.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", metavar="NAME", help="as `tfperf reference list` shows it")
    which.add_argument("--all", action="store_true", help="delete all environments")
    remove.set_defaults(run=_reference_remove)


def _topology(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover
    from pytest_tfperf.reports.topology import render

    found = discover()
    print(json.dumps(found.to_json(), indent=2) if arguments.json else render(found))
    return EXIT_GREEN


def _replay(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.bench.replay import files_of, replay, replay_trial, where_baselines_are
    from pytest_tfperf.core.verdict import Outcome, Tolerance
    from pytest_tfperf.reports.message import message
    from pytest_tfperf.reports.table import counts, table
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.trial_file import is_trial

    files = files_of(arguments.files)
    logs = [file for file in files if not is_trial(file)]
    of = _log_of(arguments, logs)
    store = BaselineStore(arguments.baselines or Path("baselines"))
    of_trials = store if arguments.baselines or (of is None and arguments.machine is not None) else None
    tolerance = None if arguments.tolerance is None else Tolerance.of(arguments.tolerance)
    records = [
        replay(file, of, store, tests=len(logs))
        if of is not None and file in logs
        else replay_trial(file, of_trials, machine=arguments.machine or "", tolerance=tolerance)
        for file in files
    ]
    for file, record in zip(files, records, strict=True):
        hint = where_baselines_are(record, store if file in logs else of_trials)
        print(message(record, hint=hint), end="\n\n")
    print(*table(records), "", counts(records), sep="\n")
    if logs or of_trials:
        for fault in store.unreadable(*(record.machine for record in records)):
            print(f"tfperf: passed over, as another machine's: {fault}", file=sys.stderr)
    outcomes = {record.verdict.outcome for record in records if record.verdict}
    if Outcome.REGRESSED in outcomes:
        return EXIT_REGRESSED
    return EXIT_NOT_MEASURED if outcomes & {Outcome.INVALID, Outcome.NO_BASELINE} else EXIT_GREEN


def _log_of(arguments: argparse.Namespace, logs: Sequence[Path]) -> Replay | None:
    """What the logs are logs of; None where there are trials only, which say so themselves.

    Raises:
        TfperfError: logs, and nothing says what of; or trials, and something else is said.
    """
    from pytest_tfperf.bench.replay import Replay, shape
    from pytest_tfperf.core.verdict import Tolerance
    from pytest_tfperf.core.workload import Workload

    said = {f"--{name}": getattr(arguments, name) for name in ("machine", "workload", "topology")}
    if not logs:
        if arguments.workload or arguments.topology:
            raise TfperfError("--workload and --topology are for logs: a trial's file says them itself. Leave them out")
        return None
    if missing := [name for name, value in said.items() if value is None]:
        raise TfperfError(f"{logs[0]} is a log, which doesn't say what it is of: give {', '.join(missing)}")
    nodes, devices = shape(arguments.topology)
    return Replay(
        machine=arguments.machine,
        workload=Workload.parse(arguments.workload),
        nodes=nodes,
        devices=devices,
        tolerance=None if arguments.tolerance is None else Tolerance.of(arguments.tolerance),
    )


def _history(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.reports.history import by_sides, by_workload
    from pytest_tfperf.stores.history import History

    history = History(arguments.dir / "history.sqlite")
    measured, compared = history.frame(), history.comparisons()
    if arguments.csv:
        print((compared if arguments.comparisons else measured).to_csv(index=False), end="")
        return EXIT_GREEN
    tables = [] if arguments.comparisons or measured.empty else [by_workload(measured)]
    tables += [] if compared.empty else [by_sides(compared)]
    print("\n\n".join(tables) or "nothing of that kind was measured here yet")
    return EXIT_GREEN


def _documents(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores.documents import regenerate

    print(regenerate(arguments.folder, arguments.baselines))
    return EXIT_GREEN


def _make_imagenet(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.training.make_imagenet import make_imagenet

    made = make_imagenet(arguments.folder, arguments.images, arguments.shards, arguments.seed)
    print(f"{made}\nuse it: pytest perf_tests --tfperf-data-dir={arguments.folder.resolve()}")
    return EXIT_GREEN


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
            environment = store.create(row, lambda text: print(text, flush=True))
        except TfperfError as error:
            print(f"tfperf: {error}", file=sys.stderr)
            status = _USAGE
            continue
        checked = check(environment, [], Path.cwd())
        print(checked.problem or f"{environment.name}: ready at {row.commit}, TensorFlow {checked.tensorflow}")
        status = max(status, EXIT_NOT_MEASURED if checked.problem else status)
    return status


def _reference_list(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.workers.reference_store import ReferenceStore

    baselines = BaselineStore(arguments.baselines)
    rows = [row for machine in baselines.machines() for row in baselines.load(machine).values()]
    entries = ReferenceStore(arguments.dir, baselines=arguments.baselines, root=Path.cwd()).entries(rows)
    for entry in entries:
        made = entry.manifest
        facts = [f"Python {made.python}", f"TensorFlow {made.tensorflow}"] if made else []
        facts += [f"commit {', '.join(entry.commits) or 'none'}", f"serves {entry.rows} baselines"]
        facts += [f"{made.bytes / 1e9:.1f} GB", f"created {made.created}"] if made else []
        print(f"{entry.name}  {entry.state}  {', '.join(facts)}" + (f"\n  {entry.fault}" if entry.fault else ""))
    if not entries:
        print("there are no reference environments; `tfperf reference create` builds them")
    return EXIT_GREEN


def _reference_remove(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.workers.reference_store import ReferenceStore

    store = ReferenceStore(arguments.dir, baselines=arguments.baselines, root=Path.cwd())
    for name in [entry.name for entry in store.entries([])] if arguments.all else [arguments.name]:
        store.remove(name, print)
        print(f"{name}: removed")
    return EXIT_GREEN


if __name__ == "__main__":
    sys.exit(main())
