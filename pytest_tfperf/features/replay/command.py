"""`tfperf replay`: logs and exported measurements, judged as if they were measured now."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pytest_tfperf.console.arguments import STATUSES, Commands, add_command, checked
from pytest_tfperf.console.output import show, warn, width
from pytest_tfperf.console.session_settings import folder_setting
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED, EXIT_USAGE
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Consequence, Outcome, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.replay.replay import Request, next_step, replay
from pytest_tfperf.lines import rendered
from pytest_tfperf.reports.measurement_table import counts, measurement_table
from pytest_tfperf.reports.message import message
from pytest_tfperf.stores.baseline_file import BaselineStore

_STATUSES = STATUSES | {
    EXIT_GREEN: "all are PASS, IMPROVED or INCONCLUSIVE",
    EXIT_REGRESSED: "one is REGRESSED",
    EXIT_USAGE: "an option, a file or a name is wrong, and nothing was judged",
    EXIT_NOT_MEASURED: "none is REGRESSED, but one is INVALID or TOO_NOISY, has no baseline or could not be read; "
    "or no memory, space or permission",
}


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "replay",
        _run,
        "judge tf_cnn_benchmarks logs or exported measurements as if they were measured now",
        examples=(
            "tfperf replay run.log --machine=azure-nc6-dsvm --workload=resnet50-b64-horovod-device --topology=1x1",
            "kubectl logs my-pod | tfperf replay - --machine=dgx1-p100 --workload=resnet50-b64-replicated-device",
            "tfperf replay session.json --baselines=baselines",
        ),
        statuses=_STATUSES,
    )
    command.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="logs as text or JSON lines, or files of `tfperf history --export`, also gzipped; - for standard input",
    )
    command.add_argument("--machine", metavar="NAME", help="judge against this machine's baselines (required for logs)")
    command.add_argument(
        "--workload",
        metavar="ID",
        help="workload of the logs, as in resnet50-b64-horovod-device (required for logs; their headers must agree)",
    )
    command.add_argument(
        "--topology",
        metavar="NxM",
        help="nodes x devices per node of the logs, as in 2x4 (default: what the log's header states, if on one node)",
    )
    command.add_argument("--only", choices=["training"], help="leave out evaluations that the logs also hold")
    command.add_argument(
        "--tolerance",
        type=checked(parse.tolerance),
        metavar="FRACTION",
        help="accepted change (default: the baseline's)",
    )
    command.add_argument(
        "--baselines",
        type=Path,
        metavar="DIR",
        help="folder of baselines (default: for logs the variable TFPERF_BASELINES, pytest's ini value "
        "tfperf_baselines, or baselines/; for exported measurements the recorded baseline)",
    )


def _run(arguments: argparse.Namespace) -> int:
    request = _request(arguments)
    measurements, refused = replay(arguments.files, request)
    for error in refused:
        warn(str(error))
    status = _status(measurements, is_refused=bool(refused))
    if measurements:
        try:
            show(*_report(measurements, len(refused), request.store))
        except OSError:
            if status != EXIT_REGRESSED:
                raise
            warn("the report can't be written, but one is REGRESSED")
    return status


def _request(arguments: argparse.Namespace) -> Request:
    folder: Path | None = arguments.baselines
    if folder is not None and not folder.is_dir():
        raise TfperfError(
            f"--baselines={folder}: there is no such folder",
            next_step="Name one that holds MACHINE.csv, or leave --baselines out",
        )
    # With neither, exported measurements are judged against the baselines that they were recorded with.
    named = folder or arguments.machine
    return Request(
        machine=arguments.machine or "",
        workload=Workload.parse(arguments.workload) if arguments.workload else None,
        topology=arguments.topology,
        store=BaselineStore(folder or folder_setting(Settings.baselines)) if named else None,
        tolerance=None if arguments.tolerance is None else Tolerance.of(arguments.tolerance),
        only_training=arguments.only is not None,
    )


def _report(measurements: Sequence[Measurement], refused: int, store: BaselineStore | None) -> list[str]:
    columns = width()
    texts: list[str] = []
    for measurement in measurements:
        if measurement.verdict:
            texts += [*rendered(message(measurement, hint=next_step(measurement, store)), columns), ""]
    count = counts(measurements) + (f", {refused} not judged" if refused else "")
    return [*texts, *map(str, measurement_table(measurements, columns)), "", count]


def _status(measurements: Sequence[Measurement], *, is_refused: bool) -> int:
    verdicts = [measurement.verdict for measurement in measurements if measurement.verdict]
    outcomes = {verdict.outcome for verdict in verdicts if verdict.if_slower is Consequence.FAILS}
    # Figures keep the verdicts that they were recorded with.
    outcomes |= {figure.outcome for measurement in measurements for figure in measurement.figures if figure.outcome}
    if Outcome.REGRESSED in outcomes:
        return EXIT_REGRESSED
    if is_refused and not measurements:
        return EXIT_USAGE
    unmeasured = {Outcome.INVALID, Outcome.NO_BASELINE, Outcome.TOO_NOISY}
    return EXIT_NOT_MEASURED if is_refused or outcomes & unmeasured else EXIT_GREEN
