"""`tfperf`: what needs no pytest: the machine, logs judged like measurements, the documents' baselines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.gate import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED

_USAGE = 4  # pytest's status for a command line that can't be


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 green, 1 regressed, 4 wrong arguments, 6 could not measure."""
    parsed = _parser().parse_args(arguments)
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
    replay = commands.add_parser("replay", help="judge tf_cnn_benchmarks logs as if they were measured now")
    replay.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    replay.add_argument("--machine", required=True, metavar="NAME", help="whose baselines: a file's name without .csv")
    replay.add_argument("--workload", required=True, metavar="ID", help="as in resnet50-b64-horovod-device")
    replay.add_argument("--topology", required=True, metavar="NxM", help="nodes x devices per node, as in 2x4")
    replay.add_argument("--tolerance", type=float, metavar="FRACTION", help="accepted change (default: the baseline's)")
    replay.add_argument("--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="default: baselines/")
    replay.set_defaults(run=_replay)
    history = commands.add_parser("history", help="show what was measured here so far")
    history.add_argument("--dir", type=Path, default=Path(".tfperf"), metavar="DIR", help="default: .tfperf/")
    history.add_argument("--csv", action="store_true", help="every measurement, as CSV")
    history.set_defaults(run=_history)
    documents = commands.add_parser("documents", help="write the documents' baselines anew")
    documents.add_argument("folder", type=Path, metavar="DIR", help="where the three documents are")
    documents.add_argument(
        "--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="default: baselines/"
    )
    documents.set_defaults(run=_documents)
    make = commands.add_parser("make-imagenet", help="write a small data set of real photographs, of ImageNet's schema")
    make.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    make.add_argument("--images", type=int, default=512, metavar="N", help="default: 512, about 56 MB")
    make.add_argument("--shards", type=int, default=8, metavar="N", help="default: 8")
    make.add_argument("--seed", type=int, default=1, metavar="N", help="the same seed gives the same files")
    make.set_defaults(run=_make_imagenet)
    return parser


def _topology(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover
    from pytest_tfperf.reports.topology import render

    found = discover()
    print(json.dumps(found.to_json(), indent=2) if arguments.json else render(found))
    return EXIT_GREEN


def _replay(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.replay import Replay, replay, shape
    from pytest_tfperf.reports.message import message
    from pytest_tfperf.reports.table import counts, table
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.verdict import Outcome, Tolerance
    from pytest_tfperf.workload import Workload

    nodes, devices = shape(arguments.topology)
    of = Replay(
        machine=arguments.machine,
        workload=Workload.parse(arguments.workload),
        nodes=nodes,
        devices=devices,
        tolerance=None if arguments.tolerance is None else Tolerance.of(arguments.tolerance),
    )
    store = BaselineStore(arguments.baselines)
    records = [replay(log, of, store, tests=len(arguments.logs)) for log in arguments.logs]
    for record in records:
        print(message(record), end="\n\n")
    print(*table(records), "", counts(records), sep="\n")
    outcomes = {record.verdict.outcome for record in records if record.verdict}
    if Outcome.REGRESSED in outcomes:
        return EXIT_REGRESSED
    return EXIT_NOT_MEASURED if outcomes & {Outcome.INVALID, Outcome.NO_BASELINE} else EXIT_GREEN


def _history(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.reports.history import by_workload
    from pytest_tfperf.stores.history import History

    frame = History(arguments.dir / "history.sqlite").frame()
    print(frame.to_csv(index=False), end="") if arguments.csv else print(by_workload(frame))
    return EXIT_GREEN


def _documents(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores.documents import regenerate

    print(regenerate(arguments.folder, arguments.baselines))
    return EXIT_GREEN


def _make_imagenet(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.make_imagenet import make_imagenet

    made = make_imagenet(arguments.folder, arguments.images, arguments.shards, arguments.seed)
    print(f"{made}\nuse it: pytest --tfperf-data-dir {arguments.folder}")
    return EXIT_GREEN


if __name__ == "__main__":
    sys.exit(main())
