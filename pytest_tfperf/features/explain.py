"""The reasons for a verdict, for readers who do not know the statistics.

For users who doubt an outcome, or wonder what more runs would show.
`tfperf explain` reads the history; it takes no part in a session.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from pytest_tfperf.console.arguments import Commands, Group, add_command, history_place, open_history, session_id
from pytest_tfperf.console.measured_test import is_part, names_of, wanted_test
from pytest_tfperf.console.output import show, width
from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import NotProvisional, not_provisional
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.verdict import MOST_COUNTED, Consequence, Decision, Outcome, Reason, Rule, Verdict, Want
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import Line, one_line, rendered, shortened
from pytest_tfperf.reports.invalid import ADVICE, disturbance_fact
from pytest_tfperf.reports.measurement_table import outcome
from pytest_tfperf.reports.message import environment_lines, throughput_lines
from pytest_tfperf.reports.numbers import SMALLEST_SHOWN, change, counted, percent
from pytest_tfperf.reports.table import Columns, aligned, paragraphs, table
from pytest_tfperf.reports.verdict import fact, figures_to_blame, headline, lines_about


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        _run,
        "explain: explain a test's outcome, and what to do. It shows the threshold, and what more runs would tell",
        group=Group.EVERY_DAY,
        examples=(
            "tfperf explain test_resnet50",
            'tfperf explain "perf_tests/test_a.py::test_resnet50[8]" --session 20261122-144825-c8d7f4',
        ),
        parents=[history_place()],
    )
    command.add_argument("test", metavar="TEST", help="pytest's node id or the workload's name, or a part of them")
    command.add_argument(
        "--session",
        metavar="ID",
        help="session to explain: its id, latest or previous (default: the last that measured the test)",
    )


def _run(arguments: argparse.Namespace) -> int:
    history = open_history(arguments)
    session = session_id(history, arguments.session, alone_only=True)
    if session is None:
        results = history.latest(test=arguments.test) or history.latest()
    else:
        results = list(history.values(session=session, figure=""))
    test, session = wanted_test(history, results, arguments.test, session)
    calls = list(history.measurements(session=session, test=test, is_interleaved=False))
    if not calls:
        raise TfperfError(f"the measurement of {shortened(test)} in session {shortened(session)} can't be read")
    measurements = _matching(calls, arguments.test)
    earlier: list[Measurement] = []
    if any(map(_lacks_baseline, measurements)):
        measured = history.measurements(test=test, is_interleaved=False)
        earlier = list(takewhile(lambda m: m.session != session, measured))[::-1]
    show(*paragraphs(*(rendered(explained(m, earlier), width()) for m in measurements), gap=2))
    return EXIT_GREEN


def _lacks_baseline(m: Measurement) -> bool:
    return m.verdict is not None and m.verdict.outcome is Outcome.NO_BASELINE


def _matching(measurements: Sequence[Measurement], text: str) -> Sequence[Measurement]:
    """Keep the calls of the workload that the text names; all calls if the text is a part of the test's id."""
    named = [m for m in measurements if text in names_of(m.workload.id, m.name)]
    if not named and not any(text in m.test for m in measurements):
        named = [m for m in measurements if is_part(text, m.workload.id, m.name)]
    return named or measurements


def explained(m: Measurement, earlier: Sequence[Measurement] = ()) -> list[str]:
    """Explain a measurement's verdict in paragraphs with headings; figures other than the throughput come last.

    `earlier` are the test's measurements of earlier sessions, latest first.
    """
    first, *further = [*_paragraphs(m, earlier), *(_figure(m, verdict) for verdict in m.figures)]
    return [*first, *(line for paragraph in further for line in ("", *paragraph))]


def _paragraphs(m: Measurement, earlier: Sequence[Measurement]) -> Iterator[Sequence[str]]:
    verdict, figures = m.verdict, figures_to_blame(m)
    about = headline(m), f"{m.test}, session {m.session or 'unknown'}, {m.time or 'at an unknown time'}"
    yield (f"{outcome(m)}: {fact(m, figures[0])}.", *about) if figures else about
    if verdict is None:
        yield ("It was measured and not judged.",)
        return
    yield (f"The throughput: {verdict.outcome}: {verdict.why}." if figures else f"{outcome(m)}: {verdict.why}.",)
    # The words are of speed. A gain over the common drift alone is not to be recorded, as `_steps` says.
    is_relative = verdict.outcome is Outcome.IMPROVED and (verdict.change or 0.0) <= 0
    if verdict.outcome is not None and m.is_decided and m.outcome is verdict.outcome and not is_relative:
        yield _section(f"What does {verdict.outcome} mean?", [verdict.outcome.meaning])
    if facts := list(_labelled([*throughput_lines(m, verdict), *environment_lines(m)])):
        yield _section("What was measured, and held against what?", facts)
    row, decision = verdict.baseline, verdict.decision
    if decision is None or row is None:
        if _lacks_baseline(m):
            yield list(_without_baseline(m, earlier))
        elif verdict.outcome is Outcome.INVALID:
            yield ("An invalid measurement is not compared with anything. `tfperf doctor` looks at the machine.",)
        else:
            yield ("The tolerance accepts any slowdown, so there is no threshold.",)
        return
    yield _section("Why this outcome?", _steps(verdict, decision, has_figures=bool(m.figures)))
    yield _section("Where does the threshold come from?", _threshold(verdict, row, decision))
    yield _section(f"What would other numbers of {_kind(verdict)}s tell?", _powers(verdict, decision))


def _figure(m: Measurement, verdict: Verdict) -> Sequence[str]:
    """Return a figure's outcome, and the rows, tolerances and values that led to it."""
    heading = f"{verdict.outcome or 'measured'}: {fact(m, verdict)}: {verdict.why}."
    return _section(heading, _labelled(lines_about(m, verdict)))


def _labelled(lines: Iterable[Line]) -> Iterator[str]:
    yield from (f"{line.label}: {line.text}" for line in lines)


def _section(heading: str, lines: Iterable[str]) -> list[str]:
    return [heading, *(f"  {line}" for line in lines)]


def _kind(verdict: Verdict) -> str:
    """Return "run" or "pair": the unit that is repeated to confirm a suspicion."""
    return "pair" if verdict.rule is Rule.REFERENCE_ENVIRONMENT else "run"


def _steps(verdict: Verdict, d: Decision, *, has_figures: bool) -> Iterator[str]:
    first = f"The first run was {_than_expected(d.first_change)}."
    if verdict.wants.what is Want.COMMON_DRIFT:
        yield f"{first} It was not judged, because the session ended before its other tests ran."
        return
    if verdict.reason is Reason.NOT_CONFIRMED:
        yield f"{first} {_suspicion(d)} Further runs, which would have confirmed it, were disturbed or never settled."
        return
    further = len(d.changes) if _kind(verdict) == "pair" else len(d.changes) - 1
    wanted = verdict.wants.count
    is_suspected = d.first_change < -d.suspected_from
    is_for_figure = bool(further) and has_figures and not is_suspected
    if further or wanted:
        of_figure = f"A figure beside the throughput wanted the further {_kind(verdict)}s."
        yield f"{first} {_suspicion(d)} {of_figure if is_for_figure else 'So it had to be confirmed.'}"
        if not is_for_figure or verdict.outcome not in (Outcome.PASS, Outcome.IMPROVED):
            yield from _confirmation(verdict, d, wanted)
            return
    elif verdict.reason is Reason.SINGLE_RUN:
        yield f"{first} The test fails from {percent(d.threshold)}, and no further run could be taken."
    else:
        yield f"{first} {_suspicion(d)} So one run was enough."
    if verdict.outcome is Outcome.IMPROVED and (verdict.change or 0.0) <= 0:
        yield "It is faster relative to the common drift alone: it is slower than its baseline, so do not record it."


def _confirmation(verdict: Verdict, d: Decision, wanted: int) -> Iterator[str]:
    kind = _kind(verdict)
    if wanted:
        yield f"It takes {counted(wanted, kind)} in all, and the session ended after {len(d.changes)}."
        return
    if d.middle is None:
        return
    figures = "  ".join(map(change, d.changes))
    yield f"{counted(len(d.changes), kind)} {'was' if len(d.changes) == 1 else 'were'} taken: {figures}"
    if d.evidence is not None:  # how the sequential test of pairs ended
        yield f"Their trimmed mean is {change(d.middle)}. The tolerance accepts {percent(d.accepted)}."
        evidence = f"Their evidence for a loss (a log likelihood ratio) is {d.evidence:.1f}"
        yield f"{evidence}, and the test fails from {d.evidence_needed:.1f}."
        if verdict.outcome in (Outcome.PASS, Outcome.TOO_NOISY) and len(d.changes) < d.last:
            yield f"That clears the test, so the pairs that were left ({d.last} at most) were not needed."
        elif verdict.outcome is Outcome.INCONCLUSIVE:
            yield "It is INCONCLUSIVE: a loss explains the pairs better than noise does, but not by enough to fail."
        return
    yield f"Their middle (Hodges-Lehmann median) is {change(d.middle)}. {_against_threshold(verdict, d)}"
    if verdict.outcome in (Outcome.PASS, Outcome.TOO_NOISY) and len(d.changes) < d.last:
        yield f"That is not suspicious any more, so the {kind}s that were left ({d.last} at most) were not needed."
    elif d.middle < -d.threshold:
        yield f"{d.showing} of {len(d.changes)} show at least half of the threshold, and {d.showing_needed} must."
    elif verdict.outcome is Outcome.INCONCLUSIVE:
        yield "It is INCONCLUSIVE, because noise alone is seldom so slow: in less than one session in 20."
    if verdict.if_slower is Consequence.WARNS:
        yield "Earlier sessions are no recorded baseline, so this test warns and never fails."


def _than_expected(fraction: float) -> str:
    if abs(fraction) < SMALLEST_SHOWN:
        return "as fast as expected"
    return f"{percent(fraction)} {'slower' if fraction < 0 else 'faster'} than expected"


def _suspicion(d: Decision) -> str:
    if d.suspected_from < 0:
        return f"A first run passes at once if it is at least {percent(d.suspected_from)} faster, as noise is large."
    return f"A first run is suspected from {percent(d.suspected_from)} slower."


def _against_threshold(verdict: Verdict, d: Decision) -> str:
    assert d.middle is not None, "there are changes"
    if d.middle < -d.threshold:
        return f"The test {verdict.if_slower} from {percent(d.threshold)} slower, so this is beyond the threshold."
    if d.middle < -d.accepted:
        accepted = f"more than the tolerance of {percent(d.accepted)}"
        return f"That is {accepted}, but noise explains up to {percent(d.threshold)}."
    return f"The tolerance accepts {percent(d.accepted)}."


def _threshold(verdict: Verdict, row: Baseline, d: Decision) -> Iterator[str]:
    if percent(d.threshold) == percent(d.accepted):
        yield f"It is the tolerance, {percent(d.accepted)}. Noise explains no more than that."
    else:
        yield f"The tolerance is {percent(d.accepted)}, and noise widens it to {percent(d.threshold)}."
        session = f"one session of {verdict.tests} tests" if verdict.tests > 1 else "one session"
        fails = verdict.if_slower is Consequence.FAILS
        yield f"At this threshold noise alone {f'fails {session} in 100' if fails else f'makes {session} in 100 warn'}."
    yield from _standard_deviations(verdict, row, d)


def _standard_deviations(verdict: Verdict, row: Baseline, d: Decision) -> Iterator[str]:
    noise, sd = verdict.noise, d.deviations
    assert noise is not None, "a decision has its noise"
    freedom = f", {noise.degrees_of_freedom:.0f} degrees of freedom" if math.isfinite(noise.degrees_of_freedom) else ""
    source = (
        f"from {counted(noise.rows, 'row')} of this machine{freedom}" if noise.rows else "assumed: no row tells yet"
    )
    windows = "from its windows" if sd.within_runs else "too few windows to tell"
    rows = [
        ["between fresh runs", _deviation(sd.between_runs), source],
        ["within a run", _deviation(sd.within_runs), windows],
    ]
    if verdict.rule is Rule.REFERENCE_ENVIRONMENT:
        yield "Both runs of a pair are of today, so neither the baseline's noise nor that between sessions counts."
    else:
        rows += [
            ["of the baseline", _deviation(sd.of_baseline), f"it rests on {counted(row.runs, 'run')}"],
            ["between sessions", _deviation(sd.between_sessions), "learnt from this machine's history, or assumed"],
        ]
    yield "Standard deviations:"
    yield from (f"  {line}" for line in aligned(rows, {1}))


def _deviation(fraction: float | None) -> str:
    # Two decimals, because small deviations matter.
    return "?" if fraction is None else f"{fraction * 100:.2f} %"


def _powers(verdict: Verdict, d: Decision) -> Iterator[str]:
    kind = _kind(verdict)
    rows = [
        {
            f"{kind}s": str(power.count) + (" (decides)" if power.count == d.last else ""),
            f"{verdict.if_slower} from": percent(power.threshold),
            "detectable (95 % power)": percent(power.detectable),
        }
        for power in d.powers
    ]
    yield from table(rows, Columns(right={"fails from", "warns from", "detectable (95 % power)"}))
    if len({percent(power.detectable) for power in d.powers}) == 1 and len(d.powers) > 1:
        yield "The first run has to raise the suspicion, so more of them detect no smaller slowdown."
    if d.middle is None or d.middle >= -d.accepted:
        return
    if d.enough is None:
        yield f"Not even {MOST_COUNTED} {kind}s would make {percent(d.middle)} exceed what noise explains."
        yield "Record the baseline again, with a reference environment: tfperf reference create"
    else:
        yield f"A slowdown of {percent(d.middle)} is beyond the threshold from {counted(d.enough, kind)} on."


# Without a baseline

_MOST_SESSIONS: Final = 3


def _without_baseline(m: Measurement, earlier: Sequence[Measurement]) -> Iterator[str]:
    """Say why each of the latest sessions gives no provisional baseline, whether this one will, and what to do.

    `earlier` are the test's measurements of earlier sessions, latest first.
    """
    alike = [past for past in earlier if (past.machine, past.key) == (m.machine, m.key)]
    if alike:
        yield f"Earlier sessions on {one_line(m.machine)}, the latest first:"
        yield from (f"  {one_line(past.session)}: {_use(past, m)}" for past in alike[:_MOST_SESSIONS])
    else:
        yield f"No earlier session has measured this workload of the test on {one_line(m.machine)}."
        if earlier:
            last = earlier[0]
            what = f"{last.workload.id} {last.topology} on {one_line(last.machine)}"
            yield f"The last one, {one_line(last.session)}, measured {what}."
    if (reason := not_provisional(m)) is None:
        yield f"Record a baseline with {recording_option()}, or measure again: this session is then a provisional one."
        return
    yield f"This session is no provisional baseline for later ones, because {_why_not(m, reason)}."
    if disturbances := [run.disturbance for run in m.runs if run.disturbance]:
        yield f"Before you measure again, or record, {ADVICE[disturbances[-1].kind]}."
    else:
        yield f"Record a baseline with {recording_option()}, or measure again."


def _use(past: Measurement, m: Measurement) -> str:
    if (reason := not_provisional(past)) is not None:
        return f"no provisional baseline, because {_why_not(past, reason)}"
    if past.gpu != m.gpu:
        return f"no provisional baseline, because it ran on {past.gpu or 'CPUs'}"
    if past.throughput.unit != m.throughput.unit:
        return f"no provisional baseline, because it counted {past.throughput.unit}"
    return "a provisional baseline, which does not count with --tfperf-require-baseline"


def _why_not(m: Measurement, reason: NotProvisional) -> str:
    if reason is NotProvisional.DISTURBED and (disturbance := m.runs[-1].disturbance):
        return disturbance_fact(disturbance)
    return _WHY_NOT[reason]


_WHY_NOT: Final = {
    NotProvisional.SLOWED_ON_PURPOSE: "it was slowed down on purpose (--tfperf-inject-slowdown)",
    NotProvisional.REFUSED: "its runs were refused as a baseline, or the recording did not come to its end",
    NotProvisional.UNDECIDED: "it ended before its last runs",
    NotProvisional.REGRESSED: "it is REGRESSED",
    NotProvisional.INVALID: "it is INVALID",
    NotProvisional.DISTURBED: "each run was disturbed",
}
