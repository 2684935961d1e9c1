"""What `tfperf doctor` found: the worst first, why each matters, and the command that mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_tfperf.core.finding import Finding, Level, Subject
from pytest_tfperf.reports.numbers import counted

WHY = {
    Subject.OTHER_PROCESSES: "they take CPU time from a run, which then is discarded as disturbed",
    Subject.LOAD: "other work ran a moment ago and may come back",
    Subject.STEAL: "the time that other virtual machines get is missing, and changes from run to run",
    Subject.SWAP: "a step that waits for swap takes many times as long",
    Subject.MEMORY: "a worker needs some GiB; without them it swaps or is killed",
    Subject.GOVERNOR: "a governor that saves power raises the clock late, so short windows are slow",
    Subject.TURBO: "the turbo clock depends on heat and on how many cores are busy, so runs differ more",
    Subject.QUOTA: "a quota stops all threads for the rest of each 0.1 s slice once it is used up",
    Subject.SIBLINGS: "two threads of one core share its units, so work on the other one slows a run",
    Subject.DISK: "a measurement that can't be written is lost",
    Subject.FILE_SYSTEM: "SQLite's locks are not reliable on many network file systems",
    Subject.DRIVER: "without its driver no GPU can be used, and a call into a hung one never returns",
    Subject.PERSISTENCE: "without it the driver unloads between workers, and each start takes seconds longer",
    Subject.POWER_LIMIT: "a lower limit lowers the clocks under load, so the GPU is slower than its baseline",
    Subject.GPU_CLOCKS: "lower clocks make each step slower, and heat makes them change",
    Subject.GPU_PROCESSES: "they take time and memory of the GPU, and the run is discarded as disturbed",
    Subject.ECC: "results may be wrong, and the GPU may fail or retire memory",
}
"""Why each subject matters to a measurement."""

_WHY_WARNED = {Subject.OTHER_PROCESSES: "they may take CPU time from a run, which then is slower or discarded"}
"""Why a mere warning matters, where that is less than what WHY says of a fault."""

_ORDER = tuple(Level)
_LABEL = 8
_SUBJECT = max(map(len, Subject)) + 2


def render(machine: str, findings: Sequence[Finding]) -> str:
    """All findings, then one line that says whether the machine is fit."""
    in_order = sorted(findings, key=lambda finding: _ORDER.index(finding.level))
    lines = [machine, "", *(line for finding in in_order for line in _lines(finding)), "", conclusion(findings)]
    return "\n".join(lines)


def conclusion(findings: Sequence[Finding]) -> str:
    """ "Not fit to measure: 1 fault, 2 warnings."."""
    faults, warnings = (sum(one.level is level for one in findings) for level in (Level.UNFIT, Level.WARNING))
    parts = [counted(faults, "fault")] if faults else []
    parts += [counted(warnings, "warning")] if warnings else []
    fit = "Not fit to measure" if faults else "Fit to measure"
    return f"{fit}{': ' if parts else ''}{', '.join(parts)}."


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.level:<{_LABEL}} {finding.subject:<{_SUBJECT}}{finding.fact}"
    if finding.level in (Level.UNFIT, Level.WARNING):
        indent = " " * (_LABEL + 1)
        warned = _WHY_WARNED if finding.level is Level.WARNING else {}
        yield f"{indent}{'why':<{_SUBJECT}}{warned.get(finding.subject, WHY[finding.subject])}"
        if finding.mend:
            yield f"{indent}{'mend':<{_SUBJECT}}{finding.mend}"
