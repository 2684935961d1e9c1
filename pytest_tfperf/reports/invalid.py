"""The words of INVALID measurements: disturbances, losses that diverged, and advice about both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_tfperf.core.baseline import UNDER_LOAD
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.disturbance import OF_BUSY_MACHINES, Disturbance, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.measurement import InvalidMeasurement, MeasuredSide, Measurement
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.throughput import Throughput, summarise
from pytest_tfperf.core.verdict import Reason, Verdict
from pytest_tfperf.core.workload import Optimizer, Precision, Trainer
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import counted, size, whole_percent
from pytest_tfperf.reports.run import slowed_down


def invalid(m: Measurement) -> str:
    """Return the outcome of an INVALID measurement with its reason, a diverged loss or the last disturbance."""
    verdict, a = m.verdicts[0], m.other
    if a is None:
        return f"{verdict.outcome}: {_why(verdict, m.workload, m.throughput, _all_runs(m))}"
    diverged = [(name, side) for name, side in (("a", a), ("b", m)) if side.throughput.is_diverged]
    why = Verdict(reason=Reason.DISTURBED).why
    if verdict.reason is Reason.DIVERGED and diverged:
        name, side = diverged[0]
        why = f"{name}'s {loss_fact(side.throughput, side.workload)}"
    elif m.discarded_pairs and (disturbance := m.discarded_pairs[-1].disturbance):
        why = disturbance_fact(disturbance)
    return "; ".join(filter(None, (f"{verdict.outcome}: {why}", fallback_fact(a))))


def fallback_fact(a: MeasuredSide) -> str:
    """Why the runs of a pair alternated although windows can be interleaved; "" where that was not so."""
    return f"alternating runs, because {a.fallback}" if a.fallback else ""


def worded(error: InvalidMeasurement) -> MeasurementError:
    """Return an error in words: the outcome, its reason, and advice about a loss."""
    verdict, subject, runs = error.verdict, error.subject, error.runs
    fact = f"{verdict.outcome}: {_why(verdict, subject, summarise(runs), runs)}"
    below = [Line(loss_advice(subject), "next")] if verdict.reason is Reason.DIVERGED else []
    return MeasurementError(fact, *below, where=error.where)


def advice_on_invalid(m: Measurement) -> Iterator[Line]:
    """Yield the next step after an INVALID measurement."""
    sides: list[Measurement | MeasuredSide] = [m] if m.other is None else [m.other, m]
    diverged = [side.workload for side in sides if side.throughput.diverged]
    if diverged or m.verdicts[0].reason is Reason.DIVERGED:
        yield Line(loss_advice(diverged[0] if diverged else m.workload), "next")
    elif disturbances := [run.disturbance for run in _all_runs(m) if run.disturbance]:
        yield Line(ADVICE[disturbances[-1].kind], "next")


def disturbance_fact(disturbance: Disturbance) -> str:
    """Describe a disturbance: "other processes used 43 % of 2 cores, the busiest was make (pid 4711)"."""
    amount = disturbance.amount or 0.0
    used, cores = whole_percent(amount), "1 core" if disturbance.cores == 1 else f"{disturbance.cores} cores"
    match disturbance.kind:
        case DisturbanceKind.GPU_SLOWED_DOWN if disturbance.throttle is not None:
            return f"{disturbance.gpu} was {slowed_down(disturbance.throttle, disturbance.celsius)}"
        case DisturbanceKind.DRIVER_SILENT:
            who = "the GPU driver" if disturbance.gpu else "the kernel"
            return f"{who} stopped answering during the run; dmesg may show why (for a GPU: NVRM: Xid)"
    if disturbance.amount is None:
        return str(disturbance.kind)
    match disturbance.kind:
        case DisturbanceKind.OTHER_PROCESSES:
            culprit = f", the busiest was {disturbance.culprit}" if disturbance.culprit else ""
            return f"other processes used {used} of {cores}{culprit}"
        case DisturbanceKind.STEAL:
            return f"the hypervisor gave {used} of {cores} to other virtual machines (steal time)"
        case DisturbanceKind.SWAPPING:
            return f"the machine swapped {size(amount)}/s"
        case DisturbanceKind.GPU_SHARED if disturbance.culprit:
            return f"{disturbance.culprit} also ran on {disturbance.gpu} and used up to {used} of it"
        case DisturbanceKind.GPU_SHARED:
            return (
                f"other work used {used} of {disturbance.gpu} before the run; this container does not see whose "
                "(docker run --pid=host does)"
            )
        case DisturbanceKind.NOT_STEADY:
            return f"never settled: {_unsteady(amount, disturbance.windows)}"
    return str(disturbance.kind)


def disturbed_pairs(pairs: Sequence[Pair]) -> Iterator[Line]:
    """Yield lines about disturbed pairs that count: with both sides disturbed alike, or one more than the other."""
    for is_even, how in ((True, "on both sides"), (False, "one side more than the other, as in each try")):
        disturbances = [pair.disturbance for pair in pairs if pair.is_even is is_even and pair.disturbance is not None]
        if disturbances:
            worst = max(disturbances, key=lambda disturbance: disturbance.amount or 0.0)
            text = f"{len(disturbances)} of {counted(len(pairs), 'pair')}, {how}: {disturbance_fact(worst)}"
            yield Line(text, "disturbed")


def load_note(load: Sequence[Disturbance], runs: int) -> str:
    """Return the note of a row, some of whose `runs` had a load that the user accepts; "" for no load."""
    if not load:
        return ""
    fact = disturbance_fact(replace(load[0], culprit=""))  # a pid means nothing in a file that is kept
    return f"{UNDER_LOAD}{fact.replace(';', ',')} ({len(load)} of {runs} runs)"


def accepted_load(disturbance: Disturbance, limits: DisturbanceLimits) -> str:
    """Return the remark on a load under which rows are recorded because these limits accept it."""
    busy = limits.other_cpu_fraction
    return f"{disturbance_fact(disturbance)}, and tfperf_busy={busy:g} accepts it: the new rows will say so"


def refused_load(disturbance: Disturbance, limits: DisturbanceLimits) -> MeasurementError:
    """Return the error for a load beyond the limits, under which no rows are recorded."""
    fact, next_step = disturbance_fact(disturbance), "Nothing was measured. Free the machine of other work"
    if disturbance.kind in OF_BUSY_MACHINES:
        fact += f", and tfperf_busy={limits.other_cpu_fraction:g} does not accept it"
        next_step += "; or record all the same with a higher limit, as in -o tfperf_busy=1: the new rows then say so"
    return MeasurementError(f"{recording_option()}: {fact}", next_step=next_step)


def loss_fact(throughput: Throughput, subject: Subject) -> str:
    """Describe when the loss stopped being finite: "loss became NaN by step 45, in window 3 of run 2".

    A command's steps are not named: it may print only rates, and the steps before its first line are unknown.
    """
    loss, since = throughput.loss, throughput.diverged
    text = "loss became " + ("NaN" if loss is None or math.isnan(loss) else "infinite")
    if since is None:
        return text
    window = f"window {since.window}" if since.window else "the warm-up"
    run = f" of run {since.run}" if len(throughput.runs) > 1 else ""
    step = "" if isinstance(subject, Command) else f" by step {since.step:,},"
    return f"{text}{step} in {window}{run}"


_HIGHER = f"-o tfperf_busy=1 (default {DisturbanceLimits().other_cpu_fraction:g})"

ADVICE = {
    DisturbanceKind.OTHER_PROCESSES: f"end the other processes, or accept more of them: {_HIGHER}",
    DisturbanceKind.STEAL: f"use a machine that is not shared, or accept steal time: {_HIGHER}",
    DisturbanceKind.SWAPPING: f"free memory, or accept swapping: {_HIGHER}",
    DisturbanceKind.GPU_SLOWED_DOWN: "check cooling and power supply",
    DisturbanceKind.GPU_SHARED: "end the other process, or choose another GPU with CUDA_VISIBLE_DEVICES",
    DisturbanceKind.DRIVER_SILENT: "look for the cause in dmesg (for a GPU, NVRM: Xid); a hung driver needs a reboot",
    DisturbanceKind.NOT_STEADY: (
        "give the test more warmup_steps or steps (a program: steps= alone), and look for other work on the machine"
    ),
}
"""The next step after a disturbed run."""


def loss_advice(workload: Subject) -> str:
    """Return the next steps after a workload's loss became NaN or infinite, the most likely cause first."""
    if isinstance(workload, Command) or workload.trainer is Trainer.OWN:
        return "look in its data for NaN, and try a lower learning rate"
    steps = []
    if workload.precision is Precision.MIXED_FLOAT16:
        steps.append("try precision='float32', because float16 overflows above 65,504")
    if workload.optimizer is Optimizer.MOMENTUM:
        steps.append("try optimizer='sgd', which takes smaller steps")
    steps.append("look in the input pipeline for NaN and for labels outside of the model's classes")
    steps.append(
        "train the model without pytest-tfperf at the same learning rate (0.01 where it is not compiled with its own)"
    )
    return "; ".join(steps)


def _why(verdict: Verdict, subject: Subject, throughput: Throughput, runs: Sequence[Run]) -> str:
    """Return the reason why the verdict on runs is INVALID: the loss, or the last disturbance."""
    if verdict.reason is Reason.DIVERGED:
        return f"{loss_fact(throughput, subject)}; the throughput of a diverged run is not reported"
    disturbances = [run.disturbance for run in runs if run.disturbance]
    each = f" (each of {len(runs)} fresh runs was disturbed)" if 1 < len(runs) == len(disturbances) else ""
    return f"{disturbance_fact(disturbances[-1]) if disturbances else verdict.why}{each}"


def _all_runs(m: Measurement) -> list[Run]:
    return [*m.runs, *m.discarded, *(run for pair in m.discarded_pairs for run in (pair.a, pair.b) if run.disturbance)]


def _unsteady(change: float, windows: tuple[int, int] | None) -> str:
    """Describe an unsteady throughput by its change, a fraction: from first to last third, or between two speeds."""
    size = f"{abs(100 * change):.0f} %"
    if windows is None:
        return f"the throughput {'falls' if change < 0 else 'rises'} by {size} from its first to its last third"
    return f"{windows[0]} windows are {size} slower than the other {windows[1]}"
