"""The words of a session: the verdicts on software, machine and drift, and the headline with the counts of tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import ChangeKind, LastingChange
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.session_verdicts import SessionResult, SessionVerdict, VerdictOn
from pytest_tfperf.core.verdict import Outcome, Reason
from pytest_tfperf.errors import FailsHereOnly
from pytest_tfperf.lines import one_line
from pytest_tfperf.reports.measurement_table import ACT_FIRST, kind_of, result_rank
from pytest_tfperf.reports.numbers import change, compared, counted, percent
from pytest_tfperf.reports.run import HOST, state_lines

ALL_TESTS = "(all tests together)"
"""Stands for the test's name where the whole machine changed."""

_SUBJECTS = {
    VerdictOn.SOFTWARE: ("software", "the reference environment"),
    VerdictOn.MACHINE: ("machine", "its baselines"),
    VerdictOn.TOGETHER: ("machine and software", "the baselines"),
    VerdictOn.DRIFT: ("drift over sessions", ""),
}
_DRIFT_WORTH_SHOWING = 0.01
_NO_REFERENCE_ENVIRONMENT = "Only a reference environment tells the machine from the software: tfperf reference create"
_NO_PAIRS = "Only the reference environment tells the machine from the software, and no test could be compared with it"
_SLOW_IN_PART = (
    "Look for what only these tests use, such as one GPU (`nvidia-smi -q -d PERFORMANCE`), one disk, or more memory"
)
_MOST_CHANGES = 5  # of a drift
_COMMIT_CHARACTERS = 10

_VERBS: Final = {
    Outcome.REGRESSED: "regressed",
    Outcome.INVALID: "could not be measured",
    Outcome.INCONCLUSIVE: "stayed inconclusive",
    Outcome.TOO_NOISY: "stayed too noisy to judge",
    Outcome.NO_BASELINE: "had no baseline",
    Outcome.IMPROVED: "improved",
    Outcome.PASS: "passed",
    None: "ran without a verdict",
}
_REFUSED: Final = "refused as a baseline"
_FAILED: Final = "failed on one side only"
_ERROR_RANK: Final = ACT_FIRST.index(Outcome.INVALID)
_FAILURE_RANK: Final = ACT_FIRST.index(Outcome.REGRESSED)


def text_of(verdict: SessionVerdict) -> str:
    """Return fact, location and next step; "" where there is nothing to report."""
    fact, more = _words(verdict)
    return f"{fact}{more}"


def fact_of(verdict: SessionVerdict) -> str:
    """Return the text's first sentence, for where the rest is shown elsewhere."""
    return _words(verdict)[0]


def session_headline(result: SessionResult) -> list[str]:
    """Return the clauses of a sentence: "Machine REGRESSED (...)", "2 of 49 throughput tests passed".

    A test is a node id, and counts once, with the worst outcome of its calls and comparisons. Tests that passed without
    a recorded baseline are counted apart, as "1 passed (provisional)". The verdicts on the whole session come first:
    all tests may pass in a session that fails.
    """
    worst = dict.fromkeys(result.refused, (_ERROR_RANK, _REFUSED))
    for test, error in result.not_measured.items():
        fails = isinstance(error, FailsHereOnly)
        worst[test] = (_FAILURE_RANK, _FAILED) if fails else (_ERROR_RANK, _VERBS[Outcome.INVALID])
    for m in result.results:
        ranked = result_rank(m), _verb(m)
        worst[m.test] = min(worst.get(m.test, ranked), ranked)
    first, *rest = [*_clauses(result.verdicts), *_counts(list(worst.values()))]
    return [first[:1].upper() + first[1:], *(clause[:1].lower() + clause[1:] for clause in rest)]


def commits_of(change: LastingChange) -> str:
    """Return the commits before and after the change; "" if neither is known."""
    before, after = change.commit_before[:_COMMIT_CHARACTERS], change.commit_after[:_COMMIT_CHARACTERS]
    return f"{before or '?'}..{after or '?'}" if before or after else ""


def _words(verdict: SessionVerdict) -> tuple[str, str]:
    """Return the first sentence without its full stop, and the rest of the text."""
    match verdict.kind:
        case VerdictOn.SOFTWARE:
            return _software(verdict)
        case VerdictOn.MACHINE:
            return _machine(verdict)
        case VerdictOn.TOGETHER:
            return _together(verdict)
        case VerdictOn.DRIFT:
            return _drift(verdict.machine, verdict.slowdowns)


def _software(verdict: SessionVerdict) -> tuple[str, str]:
    """Word the verdict on the current environment against the reference environment."""
    fact = f"software on {verdict.machine}: {_outcome(verdict)}"
    if verdict.change is not None:
        fact += (
            f": the current environment is {_compared(verdict, 'the reference environment')} "
            f"in {verdict.pairs} interleaved pairs of {verdict.tests} tests"
        )
    more = f". Changed since the baselines: {_changed(verdict)}" if verdict.outcome is Outcome.REGRESSED else ""
    failures = "; ".join(f"{test}: {why}" for test, why in verdict.failures.items())
    return fact, f"{more}. Not compared: {failures}" if failures else more


def _machine(verdict: SessionVerdict) -> tuple[str, str]:
    """Word the verdict on the reference environment in this session against the committed baselines."""
    compared_with = _compared(verdict, "the baselines")
    fact = f"machine {verdict.machine}: {_outcome(verdict)}: the reference environment is {compared_with}"
    if verdict.reason is Reason.SLOW_IN_PART:
        slow = ", ".join(map(one_line, verdict.slow))
        return fact, f". Slower in both environments: {slow}. {_state(verdict)}{_SLOW_IN_PART}"
    if verdict.outcome is not Outcome.REGRESSED:
        return fact, ""
    advice = f"Check clocks, cooling and other work on the machine, or record new baselines with {recording_option()}"
    changed = _changed(verdict, outside=True)
    return fact, f". Changed outside of it: {changed}. {_state(verdict)}{_single_verdicts(verdict)}{advice}"


def _together(verdict: SessionVerdict) -> tuple[str, str]:
    """Word the verdict on machine and software against the baselines: "" if it is PASS, within 1 % of them."""
    if verdict.outcome is Outcome.PASS and abs(verdict.change or 0.0) < _DRIFT_WORTH_SHOWING:
        return "", ""
    compared_with = _compared(verdict, "the baselines")
    fact = f"machine and software on {verdict.machine}: {_outcome(verdict)}: all tests together are {compared_with}"
    state = f"{_state(verdict)}{_single_verdicts(verdict)}" if verdict.outcome is Outcome.REGRESSED else ""
    advice = _NO_PAIRS if verdict.reason is Reason.NO_PAIRS else _NO_REFERENCE_ENVIRONMENT
    return fact, f". Changed since: {_changed(verdict)}. {state}{advice}"


def _drift(machine: str, changes: Sequence[LastingChange]) -> tuple[str, str]:
    """Word the changes for the worse for which `--tfperf-fail-on-drift` fails a session."""
    worst = sorted(changes, key=lambda change: -abs(change.size))
    more, up_to = (f" and {len(worst) - 1} more", "up to ") if len(worst) > 1 else ("", "")
    who = one_line(_figure(worst[0], " of ") + (worst[0].test or "all tests together")) + more
    slower = "worse" if any(_figure(change) for change in worst) else "slower"
    lines = [f"  {_loss(change)}" for change in worst[:_MOST_CHANGES]]
    if len(worst) > _MOST_CHANGES:
        lines.append(f"  and {len(worst) - _MOST_CHANGES} more")
    lines.append(
        f"`tfperf history changes --machine={machine}` lists all changes. Look for the cause between the two commits, "
        f"or accept the new level: pytest {recording_option()}"
    )
    fact = f"drift on {machine}: {who} became {slower} for good, by {up_to}{percent(worst[0].size)}"
    return fact, "".join(f"\n{one_line(line)}" for line in lines)


def _figure(lasting: LastingChange, suffix: str = "") -> str:
    """Return the figure's name and a suffix; "" for a throughput."""
    return f"{shown_name(lasting.key.figure)}{suffix}" if lasting.key and lasting.key.figure else ""


def _loss(lasting: LastingChange) -> str:
    what = f" ({_figure(lasting, ' of ')}{lasting.key.workload} on {lasting.key.topology})" if lasting.key else ""
    since = "little by little since" if lasting.kind is not ChangeKind.STEP else "since"
    commits = f", commits {commits_of(lasting)}" if commits_of(lasting) else ""
    interval = f"95 % CI {change(lasting.low)} to {change(lasting.high)}"
    return (
        f"{lasting.test or ALL_TESTS}{what}: {change(lasting.size)} ({interval}) {since} {lasting.time[:10]}, "
        f"session {lasting.session}{commits}"
    )


def _outcome(verdict: SessionVerdict) -> str:
    """Return the outcome, with its reason where it is INCONCLUSIVE: the change may lie beyond the threshold."""
    if verdict.outcome is not Outcome.INCONCLUSIVE or verdict.reason is None:
        return verdict.outcome.value
    found, needed = verdict.few or (0, 0)
    slow = counted(len(verdict.slow), "test")
    return f"{verdict.outcome.value}, because {_WHY[verdict.reason].format(found=found, needed=needed, slow=slow)}"


_WHY: Final = {
    Reason.UNDECIDED: "the session ended before its last pairs",
    Reason.WITHIN_NOISE: "noise may explain the slowdown",
    Reason.FEW_TESTS: "the session has too few tests to fail for it ({found} with a baseline, and it takes {needed})",
    Reason.FEW_WITH_PAIRS: "too few tests show it to fail for it ({found} with pairs, and it takes {needed})",
    Reason.SLOW_IN_PART: "it slows {slow} down, and not the others",
    Reason.NO_PAIRS: "none of the chosen tests could be compared with the reference environment",
}


def _single_verdicts(verdict: SessionVerdict) -> str:
    # No machine slows all tests down alike.
    return (
        "Single verdicts of this session mean little: the common drift is taken out of them, and the loss of one test "
        f"can hide in a drift of {percent(verdict.change or 0.0)}. "
    )


def _compared(verdict: SessionVerdict, target: str) -> str:
    """Return the change from the target with its interval, and the change from which the session fails."""
    low, high = verdict.interval or (-math.inf, math.inf)
    fails = "" if verdict.threshold is None else f", fails from {change(-verdict.threshold)}"
    return f"{compared(verdict.change or 0.0)} {target} (95 % CI {change(low)} to {change(high)}{fails})"


def _changed(verdict: SessionVerdict, *, outside: bool = False) -> str:
    """Return the changes of the environment since the baselines; or only those outside of a reference environment."""
    changed = [str(change) for change in verdict.changed if change.is_outside or not outside]
    return ", ".join(changed) or "nothing that is recorded"


def _state(verdict: SessionVerdict) -> str:
    """Return a sentence about the machine's state during all runs; "" without telemetry."""
    lines = state_lines(verdict.telemetry)
    parts = [line.text if line.label == HOST else f"{line.label} {line.text}" for line in lines]
    return f"During the runs: {'; '.join(parts)}. " if parts else ""


def _clauses(verdicts: Sequence[SessionVerdict]) -> list[str]:
    """Return a clause for each verdict but PASS: "machine REGRESSED (68.3 % slower than its baselines)".

    Verdicts that need action come first. A machine is named only if there are several.
    """
    are_several = len({verdict.machine for verdict in verdicts}) > 1
    notable = [verdict for verdict in verdicts if verdict.outcome is not Outcome.PASS]
    notable.sort(key=lambda verdict: ACT_FIRST.index(verdict.outcome))
    return [_clause(verdict, are_several) for verdict in notable]


def _clause(verdict: SessionVerdict, names_machine: bool) -> str:
    subject, target = _SUBJECTS[verdict.kind]
    where = f" on {verdict.machine}" if names_machine else ""
    figure = "" if verdict.change is None else f" ({compared(verdict.change)} {target})"
    return f"{subject}{where} {verdict.outcome}{figure}"


def _counts(outcomes: Sequence[tuple[int, str]]) -> list[str]:
    """Return a clause for each outcome, the worst first with the number of all tests."""
    if not outcomes:
        return ["no throughput test was measured"]
    (first, number), *others = sorted(Counter(outcomes).items())
    parts = [f"{number} of {counted(len(outcomes), 'throughput test')} {first[1]}"]
    return [*parts, *(f"{number} {verb}" for (_, verb), number in others)]


def _verb(result: Measurement) -> str:
    """Return the outcome as a verb, with the kind of its baseline where that is not a recorded one."""
    if result.is_refused:
        return _REFUSED
    kind = kind_of(result)
    return f"{_VERBS[result.outcome if result.is_decided else None]}{f' ({kind})' if kind else ''}"
