"""`tfperf doctor`: is this machine fit to measure?"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_tfperf.console.arguments import Commands, Group, add_command, folder
from pytest_tfperf.console.output import show, show_json
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_UNFIT
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.reports.numbers import counted


def add_to(commands: Commands) -> None:
    """Add the command."""
    doctor = add_command(
        commands,
        _run,
        "doctor: check whether this machine is fit to measure. It shows the commands that fix what is wrong",
        group=Group.START,
        examples=("tfperf doctor", "tfperf doctor --seconds 30", "tfperf doctor && pytest perf_tests"),
        statuses={
            EXIT_GREEN: "fit to measure; there may be warnings",
            EXIT_UNFIT: "not fit: a measurement would be discarded, lost or wrong",
        },
        parents=[folder(Settings.dir, "folder of the history, whose disk is checked")],
    )
    doctor.add_argument(
        "--seconds", type=float, default=3.0, metavar="N", help="how long to watch other processes (default: 3)"
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.doctor.fitness import host_findings, observe
    from pytest_tfperf.features.doctor.framework_fitness import software_findings
    from pytest_tfperf.features.doctor.gpu_fitness import gpu_findings
    from pytest_tfperf.hardware.host import read_host

    if not 0.1 <= arguments.seconds <= 3600:
        raise TfperfError(f"--seconds={arguments.seconds:g}: give 0.1 to 3600, as the kernel counts ticks of 10 ms")
    host, observed = read_host(), observe(arguments.seconds)
    findings = host_findings(observed, arguments.dir, free_bytes=_free_bytes(arguments.dir))
    findings += gpu_findings(of_software=software_findings)
    is_fit = all(finding.level is not Level.UNFIT for finding in findings)
    if arguments.json:
        facts = [plain(finding) | {"why": finding.subject.why} for finding in findings]
        show_json({"hostname": host.hostname, "fit": is_fit, "findings": facts, "trial": _trial(arguments.dir)})
    else:
        cores = f"{host.usable_cores} of {host.total_cores} cores usable"
        show(*render(f"{host.hostname}: {host.cpu_model}, {cores}", findings, _trial(arguments.dir)))
    return EXIT_GREEN if is_fit else EXIT_UNFIT


def _trial(folder: Path) -> str:
    """Return what `tfperf trial` keeps of the trial that was last run here, in a sentence; "" for none."""
    with suppress(OSError, ValueError, KeyError, TypeError):  # the command itself says why it can't be read
        return str(json.loads((folder / "trial" / "trial.json").read_bytes())["fact"])
    return ""


def _free_bytes(folder: Path) -> int:
    """Free space on the disk of a folder, which may not exist yet."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
    return shutil.disk_usage(there).free


_LABEL = 8
_SUBJECT = max(map(len, Check)) + 2


def render(machine: str, findings: Sequence[Finding], trial: str = "") -> list[str]:
    """All findings, then the conclusion in a line, and a trial of the gate in another."""
    in_order = sorted(findings, key=lambda finding: tuple(Level).index(finding.level))
    lines = [machine, "", *(line for finding in in_order for line in _lines(finding)), "", conclusion(findings)]
    return [*lines, *([trial] if trial else [])]


def conclusion(findings: Sequence[Finding]) -> str:
    """ "Not fit to measure: 1 fault, 2 warnings."; without a GPU's driver "Fit to measure on CPUs."."""
    levels = [finding.level for finding in findings]
    faults, warnings = levels.count(Level.UNFIT), levels.count(Level.WARNING)
    parts = [counted(number, what) for number, what in ((faults, "fault"), (warnings, "warning")) if number]
    fit = "Not fit to measure" if faults else "Fit to measure"
    if not faults and Level.ABSENT in levels:
        fit += " on CPUs"
    return f"{fit}: {', '.join(parts)}." if parts else f"{fit}."


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.level:<{_LABEL}} {finding.subject:<{_SUBJECT}}{finding.fact}"
    if finding.level in (Level.UNFIT, Level.WARNING):
        indent = " " * (_LABEL + 1)
        yield f"{indent}{'why':<{_SUBJECT}}{finding.subject.why}"
        if finding.fix:
            yield f"{indent}{'fix':<{_SUBJECT}}{finding.fix}"
