"""The summary's lines on acknowledged losses: each with its end and its owner, and those that are no longer needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.acknowledgement import Acknowledgement
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_verdicts import SessionResult
    from pytest_tfperf.core.verdict import Verdict


def session_ended(session: Session, result: SessionResult) -> Iterator[str]:
    """Yield a line for each acknowledgement of a test that was judged against its baseline, or that is gone."""
    judged = [(m, v) for m in result.alone for v in m.verdicts if m.is_decided and v.outcome is not None]
    if not judged:  # as beside another side, which no acknowledgement is about
        return
    from pytest_tfperf.core.figure import RATE, shown_name
    from pytest_tfperf.reports.acknowledgement import acknowledged_test

    folder = f" --baselines {quote(str(session.settings.baselines))}"
    options = folder if "--tfperf-baselines" in session.settings.rerun.options else ""
    machines = {m.machine for m, _ in judged}  # a test may have other parameters on another machine
    whole = [m for m, _ in judged if m.test not in result.not_measured]
    for entry in sorted(
        (entry for entry in session.acknowledgements if entry.machine in machines), key=lambda entry: entry.key
    ):
        figure = "" if entry.figure == RATE else f" --figure {entry.figure}"
        test = acknowledged_test(entry, session.acknowledgements)
        call = f" --call {quote(entry.call)}" if test != entry.test else ""
        command = f"tfperf ack {quote(entry.test)}{call}{figure} --machine {quote(entry.machine)}{options}"
        if calls := [(m, verdict) for m, verdict in judged if verdict.acknowledged == entry]:
            yield _line(entry, test, calls, command)
        elif session.is_gone(entry.test):
            yield f"stale: {test} is acknowledged, and no longer exists. Remove it: {command} --remove"
        elif any(entry.is_of(m.machine, m.test, m.key) for m in whole):
            fact = f"stale: {entry.test}, {entry.call}, is not judged by its {shown_name(entry.figure)} any more"
            yield f"{fact}. Remove it: {command} --remove"
        elif any((m.test, m.machine) == (entry.test, entry.machine) for m in whole):
            # It may have ended before this call, as by an assert.
            fact = f"stale: {entry.test} did not make the acknowledged call {entry.call}"
            yield f"{fact}. If it does not make it any more, remove it: {command} --remove"


def _line(entry: Acknowledgement, test: str, calls: Sequence[tuple[Measurement, Verdict]], command: str) -> str:
    """Return the line on an acknowledgement whose test was judged, by the worst of the measurements it is about."""
    from pytest_tfperf.core.acknowledgement import ENDS_SOON_DAYS, Standing
    from pytest_tfperf.reports.acknowledgement import loss

    worst_first = (Standing.WORSE, Standing.ENDED, Standing.HOLDS, Standing.RECOVERED)
    standings = [(verdict.standing(m.day) or Standing.HOLDS, m, verdict) for m, verdict in calls]
    standing, m, verdict = min(standings, key=lambda each: worst_first.index(each[0]))
    change, owner, end = verdict.deciding_change, m.owner or "no owner", f"acknowledged until {entry.until}"
    test, known = test + ("" if change is None else f": {loss(entry, change)}"), loss(entry, entry.change)
    left = entry.days_left(m.day)
    match standing:
        case Standing.WORSE:
            return f"worse than acknowledged: {owner}: {test}, acknowledged {known} until {entry.until}: {entry.why}"
        case Standing.RECOVERED:
            return f"recovered: {test}, acknowledged {known}. Remove it: {command} --remove"
        case Standing.ENDED:
            again = f"Fix it, or acknowledge it again: {command} --replace --until DATE --why REASON"
            return f"{end}, which is over: {owner}: {test}: {entry.why}. {again}"
        case Standing.HOLDS if left <= ENDS_SOON_DAYS:
            days = "today" if left < 1 else "tomorrow" if left == 1 else f"in {left} days"
            return f"ends {days}: {owner}: {test}, {end}: {entry.why}"
    return f"{end}: {test} ({owner}): {entry.why}"


# The name is that of stores/acknowledgements.py, whose import takes time that most sessions of pytest need not.
FEATURE: Final = Feature(files="acknowledged.toml", session_ended=session_ended)
