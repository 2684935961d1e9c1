"""The words of a session's verdicts: in full, as a sentence, and as a clause before the counts of tests."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.measurement import OUTSIDE
from pytest_tfperf.core.past import ChangeKind, LastingChange
from pytest_tfperf.core.session_verdicts import (
    DoubtKind,
    DriftVerdict,
    MachineVerdict,
    SessionVerdict,
    SoftwareVerdict,
    VerdictOn,
)
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.measurement_table import ACT_FIRST
from pytest_tfperf.reports.numbers import change, compared, percent
from pytest_tfperf.reports.telemetry import HOST, state_lines

ALL_TESTS = "(all tests together)"
"""Shown in place of a test if the whole machine changed."""

_SUBJECTS = {
    VerdictOn.SOFTWARE: ("software", "the reference environment"),
    VerdictOn.MACHINE: ("machine", "its baselines"),
    VerdictOn.TOGETHER: ("machine and software", "the baselines"),
    VerdictOn.DRIFT: ("drift over sessions", ""),
}
_DRIFT_WORTH_SHOWING = 0.01
_NO_REFERENCE_ENVIRONMENT = "Only a reference environment tells the machine from the software: tfperf reference create"
_NO_PAIRS = "Only the reference environment tells the machine from the software, and no test could be compared with it"
_SHOWN = 5  # changes of a drift
_COMMIT = 10  # characters


def text_of(verdict: SessionVerdict) -> str:
    """Fact, location, next step; "" where there is nothing to say."""
    fact, more = _words(verdict)
    return f"{fact}{more}"


def fact_of(verdict: SessionVerdict) -> str:
    """The text's first sentence, for where the rest is shown elsewhere."""
    return _words(verdict)[0]


def session_clauses(verdicts: Sequence[SessionVerdict]) -> list[str]:
    """ "machine REGRESSED (68.3 % slower than its baselines)": those that need action first; a PASS needs no words.

    A machine is named only if there are several.
    """
    are_several = len({one.machine for one in verdicts}) > 1
    notable = [one for one in verdicts if one.outcome is not Outcome.PASS]
    return [_clause(one, are_several) for one in sorted(notable, key=lambda one: ACT_FIRST.index(one.outcome))]


def in_one_sentence(clauses: Sequence[str]) -> list[str]:
    """The clauses of one sentence, which begins with a capital letter."""
    first, *rest = clauses
    return [first[:1].upper() + first[1:], *(one[:1].lower() + one[1:] for one in rest)]


def date_of(change: LastingChange) -> str:
    """The day since when it lasts."""
    return change.time[:10]


def commits_of(change: LastingChange) -> str:
    """The commits between which it changed; "" if neither is known."""
    before, after = change.commit_before[:_COMMIT], change.commit_after[:_COMMIT]
    return f"{before or '?'}..{after or '?'}" if before or after else ""


def _words(verdict: SessionVerdict) -> tuple[str, str]:
    """The first sentence without its full stop, and what follows it."""
    match verdict.found:
        case SoftwareVerdict():
            return _software(verdict, verdict.found)
        case MachineVerdict():
            return _machine(verdict, verdict.found)
        case DriftVerdict():
            return _drift(verdict.machine, verdict.found.slowdowns)


def _software(verdict: SessionVerdict, found: SoftwareVerdict) -> tuple[str, str]:
    """The current environment against the reference environment, interleaved."""
    fact = f"software on {verdict.machine}: {_outcome(found)}"
    if found.change is not None:
        fact += (
            f": the current environment is {compared(found.change)} the reference environment{_interval(found)} in "
            f"{found.pairs} interleaved pairs of {found.tests} tests"
        )
    is_slower = found.outcome is Outcome.REGRESSED
    more = f". Changed since the baselines: {_changed(verdict)}" if is_slower else ""
    failures = "; ".join(f"{test}: {why}" for test, why in found.failures.items())
    return fact, f"{more}. Not compared: {failures}" if failures else more


def _machine(verdict: SessionVerdict, found: MachineVerdict) -> tuple[str, str]:
    """Its reference environment in this session against the committed baselines.

    Without a reference environment it is about machine and software together, and nothing is said if they passed and
    are within 1 % of the baselines.
    """
    is_slower = found.outcome is Outcome.REGRESSED
    state = f"{_state(verdict)}{_single_verdicts(found)}" if is_slower else ""
    change = f"{compared(found.change)} the baselines{_interval(found)}"
    if not found.is_apart:
        if found.outcome is Outcome.PASS and abs(found.change) < _DRIFT_WORTH_SHOWING:
            return "", ""
        fact = f"machine and software on {verdict.machine}: {_outcome(found)}: all tests together are {change}"
        advice = _NO_PAIRS if found.no_pairs else _NO_REFERENCE_ENVIRONMENT
        return fact, f". Changed since: {_changed(verdict)}. {state}{advice}"
    fact = f"machine {verdict.machine}: {_outcome(found)}: the reference environment is {change}"
    if not is_slower:
        return fact, ""
    advice = "Check clocks, cooling and other work on the machine, or record new baselines with --update-baselines"
    return fact, f". Changed outside of it: {_changed(verdict, OUTSIDE)}. {state}{advice}"


def _drift(machine: str, losses: Sequence[LastingChange]) -> tuple[str, str]:
    """Why `--tfperf-fail-on-drift` fails a session."""
    worst = sorted(losses, key=lambda one: -abs(one.size))
    more, up_to = (f" and {len(worst) - 1} more", "up to ") if len(worst) > 1 else ("", "")
    who = _figure(worst[0], " of ") + (worst[0].test or "all tests together") + more
    slower = "worse" if any(_figure(one) for one in worst) else "slower"
    lines = [f"  {_loss(one)}" for one in worst[:_SHOWN]]
    if len(worst) > _SHOWN:
        lines.append(f"  and {len(worst) - _SHOWN} more")
    lines.append(
        f"`tfperf history changes --machine={machine}` lists all changes. Look for the cause between the two commits, "
        "or accept the new level: pytest --update-baselines"
    )
    fact = f"drift on {machine}: {who} became {slower} for good, by {up_to}{percent(worst[0].size)}"
    return fact, "".join(f"\n{line}" for line in lines)


def _figure(one: LastingChange, behind: str = "") -> str:
    """The figure's name and what is to stand behind it; "" of a throughput."""
    return f"{shown_name(one.key.figure)}{behind}" if one.key and one.key.figure else ""


def _loss(one: LastingChange) -> str:
    what = f" ({_figure(one, ' of ')}{one.key.workload} on {one.key.topology})" if one.key else ""
    since = "little by little since" if one.kind is not ChangeKind.STEP else "since"
    commits = f", commits {commits_of(one)}" if commits_of(one) else ""
    interval = f"95 % CI {change(one.low)} to {change(one.high)}"
    return (
        f"{one.test or ALL_TESTS}{what}: {change(one.size)} ({interval}) {since} {date_of(one)}, "
        f"session {one.session}{commits}"
    )


def _outcome(verdict: MachineVerdict | SoftwareVerdict) -> str:
    """The outcome, with its reason where it is INCONCLUSIVE: the figures behind it may lie beyond the threshold."""
    doubt = verdict.doubt
    if doubt is None:
        return verdict.outcome.value
    why = {
        DoubtKind.UNDECIDED: "the session ended before its last pairs",
        DoubtKind.WITHIN_NOISE: "noise may explain the slowdown",
        DoubtKind.FEW_TESTS: (
            f"the session has too few tests to fail for it ({doubt.found} with a baseline, and it takes {doubt.needed})"
        ),
        DoubtKind.FEW_WITH_PAIRS: (
            f"too few tests show it to fail for it ({doubt.found} with pairs, and it takes {doubt.needed})"
        ),
        DoubtKind.NO_PAIRS: "none of the chosen tests could be compared with the reference environment",
    }
    return f"{verdict.outcome.value}, because {why[doubt.kind]}"


def _single_verdicts(verdict: MachineVerdict) -> str:
    """What a red machine means for its tests, as a sentence: no machine slows all tests down alike."""
    return (
        "Single verdicts of this session mean little: the common drift is taken out of them, and the loss of one test "
        f"can hide in a drift of {percent(verdict.change)}. "
    )


def _interval(verdict: MachineVerdict | SoftwareVerdict) -> str:
    fails = "" if verdict.threshold is None else f", fails from {change(-verdict.threshold)}"
    return f" (95 % CI {change(verdict.low)} to {change(verdict.high)}{fails})"


def _changed(verdict: SessionVerdict, names: Collection[str] = ()) -> str:
    """What changed since the baselines; only facts of these names if some are given."""
    changed = [str(one) for one in verdict.changed if not names or one.name in names]
    return ", ".join(changed) or "nothing that is recorded"


def _state(verdict: SessionVerdict) -> str:
    """What the machine did during all runs, as a sentence; "" without telemetry."""
    lines = state_lines(verdict.telemetry)
    parts = [one.text if one.label == HOST else f"{one.label} {one.text}" for one in lines]
    return f"During the runs: {'; '.join(parts)}. " if parts else ""


def _clause(verdict: SessionVerdict, names_machine: bool) -> str:
    subject, reference = _SUBJECTS[verdict.kind]
    where = f" on {verdict.machine}" if names_machine else ""
    figure = "" if verdict.change is None else f" ({compared(verdict.change)} {reference})"
    return f"{subject}{where} {verdict.outcome}{figure}"
