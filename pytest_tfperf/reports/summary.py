"""What a session says before its first test and after its last."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pytest_tfperf.core.baseline import Change
from pytest_tfperf.core.canary import in_words
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement, changed_since
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.judging.common_drift import Cause, Shift
from pytest_tfperf.reports import comparisons as compared
from pytest_tfperf.reports.message import headline
from pytest_tfperf.reports.numbers import change, duration, percent, rate
from pytest_tfperf.reports.table import counts, table
from pytest_tfperf.settings import Settings

_WORTH_SAYING = 0.01


def before(machine: str, tests: int, seconds: float, unknown: int, settings: Settings) -> list[str]:
    """Which machine, how many tests, how long about, and what is out of the ordinary."""
    never = f" ({unknown} never timed here)" if unknown else ""
    what = "test" if tests == 1 else "tests"
    lines = [f"tfperf: {machine}, {tests} throughput {what}, about {duration(seconds)}{never}"]
    if settings.update_baselines:
        lines.append(f"tfperf: recording baselines, {settings.runs} fresh runs of each, into {_shown(settings)}")
    if settings.smoke:
        lines.append("tfperf: smoke: one window of each test, nothing judged")
    if settings.inject_slowdown:
        lines.append(f"tfperf: workers lose {settings.inject_slowdown:.0%} of their throughput on purpose")
    if settings.hold and unknown == tests:
        lines.append("tfperf: --tfperf-hold: the history has no earlier night of these tests, so that none can fail")
    if settings.against is not None:
        lines.append(f"tfperf: each check compares this Python (b) with {settings.against} (a), not with a baseline")
    return lines


def refused(faults: Mapping[str, Sequence[str]], tests: int, what: str) -> list[str]:
    """The tests whose parameters ask for what can't be: each fault once, with the first test that has it.

    `faults`: test -> what is wrong with it; `tests`: of how many; `what`: becomes of them.
    """
    if not faults:
        return []
    having: dict[str, list[str]] = {}
    for test, found in faults.items():
        for fault in found:
            having.setdefault(fault, []).append(test)
    lines = [f"tfperf: {len(faults)} of {tests} throughput tests ask for what can't be, and {what}:"]
    for fault, named in having.items():
        more = f" and {len(named) - 1} more" if len(named) > 1 else ""
        lines.append(f"  {named[0]}{more}: {fault}")
    return lines


def nothing_reads(folder: Path) -> str:
    """A data folder of which no test has a use, as far as parameters tell."""
    return (
        f"tfperf: no selected test that can run here names an input pipeline that reads {folder} among its parameters; "
        "perf_tests has some: pytest perf_tests -k imagenet"
    )


def summary(
    records: Sequence[Measurement],
    changes: Sequence[Change],
    settings: Settings,
    *,
    not_measured: Sequence[tuple[str, str]] = (),
    measured_nothing: bool,
    shifts: Mapping[str, Shift] = MappingProxyType({}),
    not_kept: str = "",
    not_saved: str = "",
) -> list[str]:
    """The table, its counts, what the tests have in common, what is in doubt, what was recorded, what to do next.

    Args:
        records: what came to a measurement.
        changes: rows that were recorded.
        settings: what the user asked for.
        not_measured: the tests that came to nothing, each with the first line of why.
        measured_nothing: a nightly gate came to no measurement.
        shifts: what the tests of each machine have in common.
        not_kept: why the history lacks some of it.
        not_saved: why the folder of `--tfperf-save-trials` does.
    """
    lines = list(_lines(records, changes, settings, measured_nothing, shifts))
    lines += [f"not measured: {test}: {why}" for test, why in not_measured]
    lines += [f"not in the history: {not_kept}"] if not_kept else []
    return lines + ([f"not in --tfperf-save-trials' folder: {not_saved}"] if not_saved else [])


def comparisons(found: Sequence[Comparison]) -> list[str]:
    """The comparisons' table, their counts and what is in doubt; nothing where nothing was compared."""
    if not found:
        return []
    spent = duration(sum(c.seconds for c in found))
    counted = Counter(compared.outcome(c) for c in found)
    words = ", ".join(f"{count} {word}" for word, count in counted.items())
    doubts = [f"in doubt: {compared.headline(c)}; {c.reason}" for c in found if c.outcome is Outcome.INCONCLUSIVE]
    return [*compared.table(found), "", f"{found[0].machine}: {words} in {spent}", *doubts]


def skips(reasons: Mapping[str, int]) -> list[str]:
    """What kept tests from measuring: one line for each reason, the most frequent first."""
    in_order = sorted(reasons.items(), key=lambda item: -item[1])
    return [f"{count} skipped: {reason}" for reason, count in in_order]


def _lines(
    records: Sequence[Measurement],
    changes: Sequence[Change],
    settings: Settings,
    measured_nothing: bool,
    shifts: Mapping[str, Shift],
) -> Iterator[str]:
    if measured_nothing:
        yield (
            "NOTHING WAS MEASURED: --tfperf-require-baseline was given, and no selected test came to a measurement: "
            "see each one's reason. `tfperf topology` shows the devices"
        )
        return
    if not records:
        return
    yield from table(records)
    yield ""
    spent = duration(sum(record.seconds for record in records))
    yield f"{records[0].machine}: {counts(records)} in {spent}"
    for machine, shift in shifts.items():
        if abs(shift.common) >= _WORTH_SAYING:
            yield _together(shift, [record for record in records if record.machine == machine])
    for record in records:
        if record.verdict is not None and record.verdict.outcome is Outcome.INCONCLUSIVE:
            yield f"in doubt: {headline(record)}"
    yield from _recorded(changes, settings)
    outcomes = Counter(record.verdict.outcome for record in records if record.verdict is not None)
    if unknown := outcomes[Outcome.NO_BASELINE]:
        yield f"{unknown} without a baseline: record them with --update-baselines, then commit {_shown(settings)}"
    if better := outcomes[Outcome.IMPROVED]:
        yield f"{better} IMPROVED: record them with --update-baselines, or losing the gain again will pass"


def _together(shift: Shift, records: Sequence[Measurement]) -> str:
    """What moved all tests at once: a reader must not have to find that out from fifty single figures."""
    direction = "slower" if shift.common < 0 else "faster"
    text = f"together: {shift.tests} tests are {percent(math.expm1(shift.common))} {direction} than their baselines"
    match shift.cause:
        case Cause.NIGHT:
            return f"{text}: no more than nights differ by (3 %), and not held against any of them"
        case Cause.MACHINE:
            moved = f"and so is the machine itself ({in_words(shift.canaries)}, without TensorFlow)"
            return f"{text}, {moved}: not held against them. See to its clocks, cooling and neighbours"
        case Cause.SOFTWARE:
            moved = f"and the machine itself is not ({in_words(shift.canaries)}, without TensorFlow)"
            return f"{text}, {moved}: each is judged as it stands. Changed since: {_changed(records)}"
        case _:
            restless = f" ({in_words(shift.canaries)})" if shift.canaries else ""
            unknown = f"whether by the machine or the software is not known{restless}: each is judged as it stands"
            return f"{text}, {unknown}. Changed since: {_changed(records)}"


def _changed(records: Sequence[Measurement]) -> str:
    rows = [(r, r.verdict.baseline) for r in records if r.verdict is not None and r.verdict.baseline is not None]
    changed = {text: None for record, row in rows for text in changed_since(row, record.environment)}
    return ", ".join(changed) or "nothing that is recorded"


def _recorded(changes: Sequence[Change], settings: Settings) -> Iterator[str]:
    if not changes:
        return
    new = sum(c.old is None for c in changes)
    yield f"recorded in {_shown(settings)}: {new} new, {len(changes) - new} changed; commit them when they are right"
    for c in changes:
        old = "new" if c.old is None else f"{rate(c.old.reference)} ->"
        rise = "" if c.old is None else f"  {change(c.new.reference / c.old.reference - 1)}"
        spread = f"  runs differ by {c.new.spread * 100:.1f} %" if c.new.spread is not None else ""
        place = f"{c.new.machine}.csv  {c.new.key.workload} {c.new.key.topology}"
        yield f"  {place}  {old} {rate(c.new.reference)}{rise}{spread}"


def _shown(settings: Settings) -> str:
    folder, root = settings.baselines, settings.root
    return f"{folder.relative_to(root) if folder.is_relative_to(root) else Path(folder)}/"
