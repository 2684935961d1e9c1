"""A verdict explained for readers who do not know the statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.measurement import Measurement, changed_since
from pytest_tfperf.core.verdict import Outcome, Reason, Rule, Verdict, Want
from pytest_tfperf.features.explain.reasons import MOST, Explanation
from pytest_tfperf.reports.breakdown import straggler_text
from pytest_tfperf.reports.measurement_table import outcome
from pytest_tfperf.reports.message import headline
from pytest_tfperf.reports.numbers import change, counted, percent, rate
from pytest_tfperf.reports.table import Columns, aligned, table

_WORTH_SHOWING = 0.0005


def explained(m: Measurement, explanation: Explanation | None) -> str:
    """A measurement's verdict in paragraphs with headings; `explanation` is None for one without a threshold."""
    verdict = m.verdict
    paragraphs = [f"{headline(m)}\n{m.test}, session {m.session or 'unknown'}, {m.time or 'at an unknown time'}"]
    if verdict is None:
        return "\n\n".join([*paragraphs, "It was measured and not judged."])
    paragraphs.append(f"{outcome(m)}: {verdict.reason}.")
    if text := straggler_text(m.breakdown):
        paragraphs.append(f"A straggler: {text}.")
    row = verdict.baseline
    if explanation is None or row is None:
        return "\n\n".join([*paragraphs, _without_figures(verdict)])
    paragraphs += [
        _section("What was it held against?", _reference(m, verdict, row, explanation)),
        _section("Why this outcome?", _steps(verdict, explanation)),
        _section("Where does the threshold come from?", _threshold(verdict, row, explanation)),
        _section(f"What would other numbers of {_kind(explanation)}s tell?", _powers(verdict, explanation)),
    ]
    return "\n\n".join(paragraphs)


def _section(heading: str, lines: Iterator[str]) -> str:
    return "\n".join([heading, *(f"  {line}" for line in lines)])


def _kind(e: Explanation) -> str:
    """What is repeated to confirm a suspicion: "run" or "pair"."""
    return "pair" if e.rule is Rule.REFERENCE_ENVIRONMENT else "run"


def _without_figures(verdict: Verdict) -> str:
    match verdict.outcome:
        case Outcome.NO_BASELINE:
            return "Record one with --update-baselines, or measure again: earlier sessions then are the reference."
        case Outcome.INVALID:
            return "An invalid measurement is not compared with anything. `tfperf doctor` looks at the machine."
    return "The tolerance accepts any slowdown, so there is no threshold."


def _reference(m: Measurement, verdict: Verdict, row: Baseline, e: Explanation) -> Iterator[str]:
    unit = f"{m.throughput.unit}/s"
    kind = "a document's figure for a weaker GPU" if verdict.is_floor else _KINDS[row.provenance]
    about = ", ".join(part for part in (row.source, row.date) if part)
    yield f"{rate(row.reference)} {unit}: {kind}{f' ({about})' if about else ''}, from {counted(row.runs, 'run')}."
    if row.load:
        yield f"It was {row.load}. A slowdown may hide behind it: record again on a quiet machine."
    if abs(verdict.common_drift) >= _WORTH_SHOWING:
        drift = change(math.expm1(verdict.common_drift))
        yield f"All tests of this session have {drift} in common. It is taken out, as it says nothing of this test."
    if rate(e.expected) != rate(row.reference):
        learnt = ", after what earlier sessions and this one's other tests tell"
        yield f"So {rate(e.expected)} {unit} was expected in this session{learnt}."
    if e.rule is Rule.REFERENCE_ENVIRONMENT:
        yield "A suspected slowdown is confirmed beside the environment in which that baseline was recorded."
    if changed := changed_since(row, m.environment):
        yield f"Changed since: {', '.join(changed)}."


_KINDS = {
    Provenance.MEASURED: "the recorded baseline of this machine",
    Provenance.PUBLISHED: "a document's figure",
    Provenance.PROVISIONAL: "earlier sessions, because no baseline is recorded",
}


def _steps(verdict: Verdict, e: Explanation) -> Iterator[str]:
    first = f"The first run was {_than_expected(e.first_change)}."
    if verdict.wants.what is Want.COMMON_DRIFT:
        yield f"{first} It was not judged, because the session ended before its other tests ran."
        return
    if verdict.reason is Reason.NOT_CONFIRMED:
        yield f"{first} {_suspicion(e)} Further runs, which would have confirmed it, were disturbed or never settled."
        return
    further = len(e.changes) if _kind(e) == "pair" else len(e.changes) - 1
    wanted = verdict.wants.count
    if further or wanted:
        yield f"{first} {_suspicion(e)} So it had to be confirmed."
        yield from _confirmation(verdict, e, wanted)
        return
    if verdict.reason is Reason.SINGLE_RUN:
        yield f"{first} The test fails from {percent(e.threshold)}, and no further run could be taken."
    else:
        yield f"{first} {_suspicion(e)} So one run was enough."
    if verdict.outcome is Outcome.IMPROVED:
        text = "It is faster by more than the tolerance and noise explain."
        if (verdict.change or 0.0) > 0:
            yield f"{text} Record it, if it is to stay."
        else:
            yield f"{text} That is relative to the common drift: it is slower than its baseline, so do not record it."


def _confirmation(verdict: Verdict, e: Explanation, wanted: int) -> Iterator[str]:
    what = _kind(e)
    if wanted:
        yield f"It takes {counted(wanted, what)} in all, and the session ended after {len(e.changes)}."
        return
    if e.middle is None:
        return
    figures = "  ".join(map(change, e.changes))
    yield f"{counted(len(e.changes), what)} {'was' if len(e.changes) == 1 else 'were'} taken: {figures}"
    yield f"Their middle (Hodges-Lehmann median) is {change(e.middle)}. {_against_threshold(verdict, e)}"
    if verdict.outcome is Outcome.PASS and len(e.changes) < e.last:
        yield f"That is not suspicious any more, so the {what}s that were left ({e.last} at most) were not needed."
    elif e.middle < -e.threshold:
        yield f"{e.showing} of {len(e.changes)} show at least half of the threshold, and {e.showing_wanted} must."
    elif verdict.outcome is Outcome.INCONCLUSIVE:
        yield "It is INCONCLUSIVE, because noise alone is seldom so slow: in less than one session in 20."
    if verdict.is_provisional:
        yield "Earlier sessions are no recorded baseline, so this test warns and never fails."
    elif verdict.reason is Reason.HELD:
        yield "--tfperf-hold fails only what one of the two sessions before did not pass either."


def _than_expected(fraction: float) -> str:
    if abs(fraction) < _WORTH_SHOWING:
        return "as fast as expected"
    return f"{percent(fraction)} {'slower' if fraction < 0 else 'faster'} than expected"


def _suspicion(e: Explanation) -> str:
    if e.suspected_from < 0:
        return f"A first run passes at once if it is at least {percent(e.suspected_from)} faster, as noise is large."
    return f"A first run is suspected from {percent(e.suspected_from)} slower."


def _against_threshold(verdict: Verdict, e: Explanation) -> str:
    action = "warns" if verdict.is_provisional else "fails"
    assert e.middle is not None, "there are changes"
    if e.middle < -e.threshold:
        return f"The test {action} from {percent(e.threshold)} slower, so this is beyond the threshold."
    if e.middle < -e.accepted:
        accepted = f"more than the tolerance of {percent(e.accepted)}"
        return f"That is {accepted}, but noise explains up to {percent(e.threshold)}."
    return f"The tolerance accepts {percent(e.accepted)}."


def _threshold(verdict: Verdict, row: Baseline, e: Explanation) -> Iterator[str]:
    if percent(e.threshold) == percent(e.accepted):
        yield f"It is the tolerance, {percent(e.accepted)}. Noise explains no more than that."
    else:
        yield f"The tolerance is {percent(e.accepted)}, and noise widens it to {percent(e.threshold)}."
        among = f" of {verdict.tests} tests" if verdict.tests > 1 else ""
        action = "makes one session{among} in 100 warn" if verdict.is_provisional else "fails one session{among} in 100"
        yield f"At this threshold noise alone {action.format(among=among)}."
    noise, d = verdict.noise, e.deviations
    assert noise is not None, "an explanation has its noise"
    freedom = f", {noise.degrees_of_freedom:.0f} degrees of freedom" if math.isfinite(noise.degrees_of_freedom) else ""
    source = (
        f"from {counted(noise.rows, 'row')} of this machine{freedom}" if noise.rows else "assumed: no row tells yet"
    )
    rows = [
        ["between fresh runs", _deviation(d.between_runs), source],
        ["within a run", _deviation(d.within_runs), "from its windows" if d.within_runs else "too few windows to tell"],
    ]
    if e.rule is Rule.REFERENCE_ENVIRONMENT:
        yield "Both runs of a pair are of today, so neither the baseline's noise nor that between sessions counts."
    else:
        rows += [
            ["of the baseline", _deviation(d.of_baseline), f"it rests on {counted(row.runs, 'run')}"],
            ["between sessions", _deviation(d.between_sessions), "learnt from this machine's history, or assumed"],
        ]
    yield "Standard deviations:"
    yield from (f"  {line}" for line in aligned(rows, {1}))


def _deviation(fraction: float | None) -> str:
    """With two decimals, because small ones matter; "?" if unknown."""
    return "?" if fraction is None else f"{fraction * 100:.2f} %"


def _powers(verdict: Verdict, e: Explanation) -> Iterator[str]:
    what = _kind(e)
    rows = [
        {
            f"{what}s": str(power.count) + (" (decides)" if power.count == e.last else ""),
            "warns from" if verdict.is_provisional else "fails from": percent(power.threshold),
            "detectable (95 % power)": percent(power.detectable),
        }
        for power in e.powers
    ]
    yield from table(rows, Columns(right={"fails from", "warns from", "detectable (95 % power)"}))
    if len({percent(power.detectable) for power in e.powers}) == 1 and len(e.powers) > 1:
        yield "The first run has to raise the suspicion, so more of them detect no smaller slowdown."
    if e.middle is None or e.middle >= -e.accepted:
        return
    if e.enough is None:
        yield f"Not even {MOST} {what}s would make {percent(e.middle)} exceed what noise explains."
        yield "Record the baseline again, with a reference environment: tfperf reference create"
    else:
        yield f"A slowdown of {percent(e.middle)} is beyond the threshold from {counted(e.enough, what)} on."
