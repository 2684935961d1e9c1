"""`tfperf doctor`: is this machine fit to measure?"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from pytest_tfperf.console.arguments import STATUSES, Commands, add_command, folder
from pytest_tfperf.console.output import show, show_json
from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_UNFIT
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.doctor.finding import Level
from pytest_tfperf.features.doctor.words import WHY, render

_STATUSES = STATUSES | {
    EXIT_GREEN: "fit to measure; there may be warnings",
    EXIT_UNFIT: "not fit: a measurement would be discarded, lost or wrong",
}


def add_to(commands: Commands) -> None:
    """Add the command."""
    doctor = add_command(
        commands,
        "doctor",
        _run,
        "check whether this machine is fit to measure, and show the commands that fix it",
        examples=("tfperf doctor", "tfperf doctor --seconds 30", "tfperf doctor && pytest perf_tests"),
        statuses=_STATUSES,
        parents=[folder("--dir", ".tfperf", "folder of the history, whose disk is checked")],
    )
    doctor.add_argument(
        "--seconds", type=float, default=3.0, metavar="N", help="how long to watch other processes (default: 3)"
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.doctor.fitness import host_findings, observe
    from pytest_tfperf.features.doctor.gpu_fitness import gpu_findings
    from pytest_tfperf.hardware.host import read_host

    if not 0.1 <= arguments.seconds <= 3600:
        raise TfperfError(f"--seconds={arguments.seconds:g}: give 0.1 to 3600, as the kernel counts ticks of 10 ms")
    host, seen = read_host(), observe(arguments.seconds)
    findings = host_findings(seen, arguments.dir, free_bytes=_free_bytes(arguments.dir)) + gpu_findings()
    is_fit = all(finding.level is not Level.UNFIT for finding in findings)
    if arguments.json:
        facts = [plain(finding) | {"why": WHY[finding.subject]} for finding in findings]
        show_json({"hostname": host.hostname, "fit": is_fit, "findings": facts})
    else:
        cores = f"{host.usable_cores} of {host.total_cores} cores usable"
        show(render(f"{host.hostname}: {host.cpu_model}, {cores}", findings))
    return EXIT_GREEN if is_fit else EXIT_UNFIT


def _free_bytes(folder: Path) -> int:
    """Free space on the disk of the folder, which may not exist yet."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
    return shutil.disk_usage(there).free
