"""What `tfperf doctor` found: the worst first, why each matters, and the command that fixes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_tfperf.features.doctor.finding import Finding, Level, Subject
from pytest_tfperf.reports.numbers import counted

WHY = {
    Subject.OTHER_PROCESSES: "they take CPU time from a run, which then is slower, or discarded as disturbed",
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

_LABEL = 8
_SUBJECT = max(map(len, Subject)) + 2


def render(machine: str, findings: Sequence[Finding]) -> str:
    """All findings, then one line that says whether the machine is fit."""
    in_order = sorted(findings, key=lambda finding: tuple(Level).index(finding.level))
    lines = [machine, "", *(line for finding in in_order for line in _lines(finding)), "", conclusion(findings)]
    return "\n".join(lines)


def conclusion(findings: Sequence[Finding]) -> str:
    """ "Not fit to measure: 1 fault, 2 warnings."."""
    levels = [finding.level for finding in findings]
    faults, warnings = levels.count(Level.UNFIT), levels.count(Level.WARNING)
    parts = [counted(number, what) for number, what in ((faults, "fault"), (warnings, "warning")) if number]
    fit = "Not fit to measure" if faults else "Fit to measure"
    return f"{fit}: {', '.join(parts)}." if parts else f"{fit}."


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.level:<{_LABEL}} {finding.subject:<{_SUBJECT}}{finding.fact}"
    if finding.level in (Level.UNFIT, Level.WARNING):
        indent = " " * (_LABEL + 1)
        yield f"{indent}{'why':<{_SUBJECT}}{WHY[finding.subject]}"
        if finding.fix:
            yield f"{indent}{'fix':<{_SUBJECT}}{finding.fix}"
