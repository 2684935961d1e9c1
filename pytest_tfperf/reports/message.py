"""What is said of one measurement: fact, place, next step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.measurement import Measurement, changed_since
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import Throughput, run_value
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.judging.loss import advice, no_number
from pytest_tfperf.reports.commands import rerun
from pytest_tfperf.reports.numbers import change, duration, percent, rate
from pytest_tfperf.reports.where import machine, where
from pytest_tfperf.settings import AS_IT_STANDS, Again

_WORTH_SAYING = 0.001
_BAD_NEWS = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.INVALID)


def message(record: Measurement, again: Again = AS_IT_STANDS, hint: str = "") -> str:
    """A judged record in a few lines, the first of which can stand alone.

    `again` is what a command that measures it again needs (`Settings.again`); `hint` is what else
    comes next.
    """
    assert record.verdict is not None, "only what was judged has a message"
    further = [("next", hint)] if hint else []
    return "\n".join([headline(record), *_labelled([*_lines(record, record.verdict), *further, *_next(record, again)])])


def spoilt(reason: str, attempts: Sequence[Run]) -> str:
    """Why nothing could be measured, and what the machine was like meanwhile."""
    return "\n".join([reason, *_labelled(machine(attempts))])


def _labelled(lines: Iterable[tuple[str, str]]) -> Iterator[str]:
    return (f"  {label:<11} {text}" for label, text in lines)


def headline(record: Measurement) -> str:
    """Workload, devices, machine, throughput, and what it was held against, in one line; of a file, its name first."""
    t, verdict = record.throughput, record.verdict
    text = f"{record.file}: " if record.file else ""
    text += (
        f"{record.workload.id} on {record.devices} ({record.machine}): {rate(t.images_per_sec)} images/s{_interval(t)}"
    )
    if verdict is None:
        return text
    if verdict.baseline is None or verdict.change is None:
        word = "INVALID: " if verdict.outcome is Outcome.INVALID else ""
        return f"{text}; {word}{verdict.reason.removeprefix(word)}"
    against = f"{'the floor of ' if verdict.floor else ''}{rate(verdict.baseline.reference)}"
    if abs(verdict.change) < 0.0005:
        return f"{text}, level with {against}"
    return f"{text}, {percent(verdict.change)} {'slower' if verdict.change < 0 else 'faster'} than {against}"


def _lines(record: Measurement, verdict: Verdict) -> Iterator[tuple[str, str]]:
    if verdict.baseline is None:
        if verdict.outcome in _BAD_NEWS:
            yield from machine(record.trial.attempts or record.trial.set_aside)
        else:
            if record.throughput.compile_seconds is not None:
                yield "spent", _spent(record)
            yield from where(record)
        if (row := record.document) is not None:
            yield "document", f"{rate(row.reference)} images/s on {row.machine}: {row.source}"
        return
    yield "bounds", _bounds(verdict)
    yield "baseline", _provenance(verdict)
    yield _confirmation(record.throughput, verdict)
    if abs(verdict.credited) >= _WORTH_SAYING:
        yield "night", _credited(verdict)
    yield "spent", _spent(record)
    for attempt in (*record.trial.attempts, *record.trial.set_aside):
        if attempt.disturbance:
            counted = "set aside" if attempt in record.trial.set_aside else "disturbed"
            yield counted, f"{rate(run_value(attempt).images_per_sec)}: {attempt.disturbance}"
    yield from where(record)
    if verdict.outcome in _BAD_NEWS:
        yield from machine(record.trial.attempts or record.trial.set_aside)
    yield "detects", _smallest_loss(verdict)
    if changed := changed_since(verdict.baseline, record.environment):
        yield "environment", ", ".join(changed)


def _next(record: Measurement, again: Again) -> Iterator[tuple[str, str]]:
    """What to look at, and the commands that come next; none of these where it was no test of pytest's."""
    verdict = record.verdict
    if no_number(record.throughput):
        yield "next", advice(record.workload)
    if not record.is_test or verdict is None:
        return
    command = rerun(record.test, again)
    if verdict.outcome is Outcome.NO_BASELINE:
        yield "record one", f"{command} --update-baselines"
    elif verdict.floor and verdict.outcome is not Outcome.REGRESSED:
        yield "record one", f"{command} --update-baselines    (a floor is no baseline of this machine)"
    else:
        yield "rerun", command
    if verdict.outcome is Outcome.REGRESSED:
        yield "accept", f"{command} --update-baselines    (where the drop is meant; commit the row)"


def _interval(throughput: Throughput) -> str:
    if throughput.low <= 0 or throughput.high == float("inf"):
        return ""
    return f" (95 % CI {rate(throughput.low)} to {rate(throughput.high)})"


def _bounds(verdict: Verdict) -> str:
    assert verdict.baseline is not None
    assert verdict.tolerance is not None
    lower = "any" if verdict.lower is None else rate(verdict.lower)
    upper = "any" if verdict.upper is None else rate(verdict.upper)
    accepted = verdict.tolerance.lower
    text = f"{lower} .. {upper}    (reference {_level(verdict)}, tolerance "
    text += "none" if accepted is None else percent(accepted)
    widened = None if verdict.threshold is None else percent(verdict.threshold)
    if accepted is not None and widened not in (None, percent(accepted)):
        text += f", widened to {widened} by noise"
    if abs(verdict.credited) >= _WORTH_SAYING:
        text += f", all {change(math.expm1(verdict.credited))} tonight"
    return text + ")"


def _level(verdict: Verdict) -> str:
    """The reference, and what the good nights after it made of it."""
    row, level = verdict.baseline, verdict.level
    assert row is not None
    if level is None or level.runs == row.runs:
        return rate(row.reference)
    learnt = rate(row.reference * math.exp(level.offset))
    return f"{rate(row.reference)}, {learnt} with {level.runs - row.runs} runs of good nights"


def _provenance(verdict: Verdict) -> str:
    row = verdict.baseline
    assert row is not None
    runs = f", {row.runs} runs" if row.runs > 1 else ""
    if row.provenance is Provenance.MEASURED and (row.runs < 2 or row.spread is None):
        unsure = ", taken for as uncertain as any one run" if row.runs < 2 else ""
        runs = f", {row.runs} run{'s' if row.runs > 1 else ''} without a known spread{unsure}"
    place = row.provenance.value + (f", {row.source}" if row.source else "") + (f" ({row.date})" if row.date else "")
    place += runs
    if verdict.floor:
        place += f"; a floor: measured on the weaker {row.gpu or row.machine}"
    return place


def _confirmation(throughput: Throughput, verdict: Verdict) -> tuple[str, str]:
    runs = "  ".join(rate(run.images_per_sec) for run in throughput.runs)
    count = len(throughput.runs)
    if verdict.outcome is Outcome.REGRESSED and count > 1:
        over = " and" + verdict.reason.partition(" and")[2] if " and over " in verdict.reason else ""
        return "confirmed", f"{_showing(throughput, verdict)} of {count} fresh workers{over}: {runs}"
    return "runs", f"{runs}: {verdict.reason}"


def _showing(throughput: Throughput, verdict: Verdict) -> int:
    """How many runs show the drop: each must be half as bad as their middle, and from five on one need not."""
    if verdict.baseline is None or verdict.threshold is None:
        return 0
    level = math.log(verdict.baseline.reference) + verdict.credited + (verdict.level.offset if verdict.level else 0.0)
    return sum(run.log_rate < level + math.log1p(-verdict.threshold) / 2 for run in throughput.runs)


def _credited(verdict: Verdict) -> str:
    of = f"what {verdict.shift.tests} tests have in common tonight"
    return f"{change(math.expm1(verdict.credited))} of it is {of}, and not held against it"


def _spent(record: Measurement) -> str:
    t = record.throughput
    text = f"{t.steps} steps in {t.windows} windows"
    if record.seconds:
        text += f", {duration(record.seconds)} in all"
    if t.compile_seconds is not None:
        text += f"; the first call, which compiles, took {t.compile_seconds:.1f} s"
    return text


def _smallest_loss(verdict: Verdict) -> str:
    if verdict.smallest_loss is None or verdict.noise is None:
        return "nothing: the drop is unbounded"
    spread = f"runs differ by {percent(verdict.noise.spread)} ({verdict.noise.source})"
    return f"losses from {percent(verdict.smallest_loss)}, 95 times in 100; {spread}"
