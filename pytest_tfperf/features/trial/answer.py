"""What a trial shows, by values and in words: error rates, the tolerance that each test can hold, and the advice."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.session_verdicts import VerdictOn
from pytest_tfperf.features.trial.trial import Trial
from pytest_tfperf.reports.numbers import counted, percent, whole_percent
from pytest_tfperf.reports.table import Columns, aligned, table

MOST_FALSE: Final = 0.15
"""A gate may block where its rate of false failures is below this by its upper bound: 0 of 20 sessions, or 1 of 30."""

LEAST_FOUND: Final = 0.8  # the share of the losses that a gate must find in their first session
LEAST_WITH_LOSSES: Final = 10  # the least sessions with losses
_OF_SESSIONS: Final = 0.95  # the confidence of each bound
_OF_LOSSES: Final = 0.975
_ALIKE: Final = 0.05  # the correlation between the sessions' findings: they share the errors of the baselines
_LEAST_CHANGES: Final = 5  # of a test, before it has a tolerance that it can hold
_WITHIN: Final = 0.99
_OFTEN: Final = 0.25  # of a test's sessions
_MOST_FURTHER: Final = 30  # sessions: after four false failures of twenty, nobody wants to run another 39


@dataclass(frozen=True, slots=True)
class Rate:
    """A share, and the bounds of its true value."""

    count: int
    of: int
    low: float
    high: float


class Gate(StrEnum):
    """What a trial says of the gate."""

    MAY_BLOCK = "may block"
    WARN_ONLY = "warn only"
    UNDECIDED = "more sessions are needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestNoise:
    """How a test varied over the sessions in which nothing slowed it down; fractions of the throughput."""

    sessions: int
    scatter: float | None = None  # root mean square of its changes from the expected throughput; None below five
    holds: float | None = None  # the tolerance that 99 of 100 sessions stay within; None as above
    tolerance: float | None = None  # the accepted slowdown; None where any is accepted
    is_too_noisy: bool = False  # whether `holds` reaches the loss that is to be found
    is_input_bound: bool = False
    clocks_mhz: tuple[float, float] | None = None  # lowest and highest, if they varied half as much as the throughput
    disturbed: Mapping[DisturbanceKind, int] = field(default_factory=dict)  # -> sessions; in a quarter of them or more


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialAnswer:
    """What a trial shows."""

    gate: Gate
    false_failures: Rate  # sessions of unchanged code that failed
    losses: Rate  # losses that were found; None where none was tried
    further: int  # sessions of unchanged code that the rule needs, if none of them fails; 0 where enough ran
    further_losses: int  # the further sessions with losses that the rule needs
    not_counted: int
    machine: int  # sessions in which the machine was slower than when the baselines were recorded
    tests: Mapping[str, TestNoise]
    other_failures: Mapping[str, int] = field(default_factory=dict)  # sessions in which each test failed otherwise
    unfit: tuple[str, ...] = ()  # to be gated: too noisy, without a baseline, or often among `other_failures`


def rate(count: int, of: int, independent: float | None = None, confidence: float = _OF_SESSIONS) -> Rate:
    """Return the rate of `count` in `of` tries, with its bounds by Clopper and Pearson (1934).

    Args:
        count, of: what happened, and how often it was tried; without a try the rate may be anything.
        independent: the number of independent groups that the tries come in, as losses come in sessions, which share
            their drift and their baselines; None if each try is independent. The bounds are those of so many tries with
            the same share.
        confidence: of each bound.
    """
    from scipy.special import betaincinv  # takes a fifth of a second to import

    tries = of if independent is None else independent
    happened = count / of * tries if of else 0.0
    low = float(betaincinv(happened, tries - happened + 1, 1 - confidence)) if count else 0.0
    high = float(betaincinv(happened + 1, tries - happened, confidence)) if count < of else 1.0
    return Rate(count, of, low, high)


def answer(trial: Trial) -> TrialAnswer:
    """Return what a trial shows.

    The gate may block where at most `MOST_FALSE` of the sessions of unchanged code fail, by the upper bound, and at
    least `LEAST_FOUND` of the losses of `LEAST_WITH_LOSSES` or more sessions were found. A history has no losses that
    are known: there the first condition suffices. No gate may block with a test that is unfit for it.
    """
    unchanged, found = trial.unchanged, trial.losses
    with_losses = sum(bool(session.losses) for session in trial.sessions)
    false = rate(sum(session.failed_falsely for session in unchanged), len(unchanged))
    independent = with_losses / (1 + _ALIKE * (with_losses - 1))  # Kish (1965), of clusters
    losses = rate(sum(found), len(found), independent, _OF_LOSSES)
    further = _further(false)
    further_losses = 0 if trial.is_of_history else max(0, LEAST_WITH_LOSSES - with_losses)
    misses = bool(losses.of) and losses.count < LEAST_FOUND * losses.of
    if further is None or (misses and not further_losses):
        gate = Gate.WARN_ONLY
    else:
        gate = Gate.UNDECIDED if further or further_losses else Gate.MAY_BLOCK
    tests = {name: _noise(trial, name) for name in dict.fromkeys(test for s in trial.sessions for test in s.tests)}
    others = Counter(test for session in trial.sessions for test in session.other_failures)
    failed = Counter(test for session in trial.sessions for test in session.failed)
    unfit = [name for name, noise in tests.items() if noise.is_too_noisy]
    unfit += [*trial.without_baseline, *(name for name in failed if failed[name] > MOST_FALSE * len(trial.sessions))]
    if unfit and gate is Gate.MAY_BLOCK:
        gate = Gate.WARN_ONLY
    return TrialAnswer(
        gate=gate,
        false_failures=false,
        losses=losses,
        further=further or 0,
        further_losses=further_losses,
        not_counted=sum(not session.is_counted for session in trial.sessions),
        machine=sum(VerdictOn.MACHINE in session.failing for session in unchanged),
        tests=tests,
        other_failures=others,
        unfit=tuple(dict.fromkeys(unfit)),
    )


def _further(false: Rate) -> int | None:
    """Return how many more sessions without a false failure satisfy the rule; None for more than can be asked for."""
    sizes = range(false.of, false.of + _MOST_FURTHER + 1)
    enough = (of for of in sizes if of and rate(false.count, of).high <= MOST_FALSE)
    return None if (first := next(enough, None)) is None else first - false.of


def _noise(trial: Trial, test: str) -> TestNoise:
    results = [s.tests[test] for s in trial.sessions if test in s.tests and test not in s.slowed]
    changes = [result.change for result in results if result.change is not None]
    kinds = Counter(kind for result in results for kind in set(result.disturbances))
    scatter = math.sqrt(statistics.fmean(change**2 for change in changes)) if len(changes) >= _LEAST_CHANGES else None
    holds = None if scatter is None else _held(scatter, len(changes))
    return TestNoise(
        sessions=len(results),
        scatter=scatter,
        holds=holds,
        tolerance=results[-1].tolerance if results else None,
        is_too_noisy=holds is not None and holds >= trial.slowdown,
        is_input_bound=sum(result.is_input_bound for result in results) > len(results) / 2,
        clocks_mhz=_varying([result.clock_mhz for result in results if result.clock_mhz], scatter),
        disturbed={kind: count for kind, count in kinds.items() if count >= _OFTEN * len(results)},
    )


def _held(scatter: float, changes: int) -> float:
    """Return the slowdown that 99 of 100 further sessions stay below.

    The prediction bound of a normal sample whose mean is known to be 0: the expected throughput is the baseline's, so
    an error of the baseline is a part of the scatter.
    """
    from scipy.special import stdtrit

    return 1 - math.exp(-float(stdtrit(changes, _WITHIN)) * scatter)


def _varying(clocks: Sequence[float], scatter: float | None) -> tuple[float, float] | None:
    if scatter is None or len(clocks) < _LEAST_CHANGES:
        return None
    varies = statistics.stdev(clocks) / statistics.fmean(clocks) >= scatter / 2
    return (min(clocks), max(clocks)) if varies else None


# In words

_COLUMNS = Columns(right={"holds", "scatter", "sessions"}, optional=("sessions", "scatter"), ids=("test",))
_STEP = 0.005  # of a proposed tolerance


def trial_fact(trial: Trial, found: TrialAnswer) -> str:
    """Return a trial in a sentence: "The gate was tried on 2026-11-27: 0 of 20 sessions failed falsely ..."."""
    return f"{_subject(trial).capitalize()} was tried on {trial.date}: {_rates(trial, found)}: {found.gate}."


def trial_lines(trial: Trial, found: TrialAnswer, width: int | None = None) -> list[str]:
    """Return the answer as one screen: the rates, a table of the tests, the verdict, and what to do next."""
    return [
        f"trial of {_subject(trial)} on {trial.machine}, {trial.date}",
        *(f"  {line}" for line in aligned(list(_facts(trial, found)))),
        "",
        *table([_row(name, noise) for name, noise in found.tests.items()], _COLUMNS, width),
        "",
        *_advice(trial, found),
    ]


def _subject(trial: Trial) -> str:
    if trial.is_of_history:
        return "the history's sessions of unchanged code"
    return "--tfperf-base" if trial.is_of_base else "the gate"


def _rates(trial: Trial, found: TrialAnswer) -> str:
    false, losses = found.false_failures, found.losses
    text = f"{false.count} of {counted(false.of, 'session')} failed falsely ({interval(false)})"
    if losses.of:
        text += f", {losses.count} of {losses.of} losses of {percent(trial.slowdown)} were found ({interval(losses)})"
    return f"{text}, {counted(len(found.unfit), 'test')} can't be gated" if found.unfit else text


def interval(rate: Rate) -> str:
    """Write a rate's interval: "at most 14 %", "at least 69 %", "44 to 98 %"; its bounds are rounded outwards."""
    low, high = math.floor(100 * rate.low), math.ceil(100 * rate.high)
    if not rate.of:
        return "not known"
    if rate.count == 0:
        return f"at most {high} %"
    return f"at least {low} %" if rate.count == rate.of else f"{low} to {high} %"


def _facts(trial: Trial, found: TrialAnswer) -> Iterator[tuple[str, str]]:
    false, losses = found.false_failures, found.losses
    yield "failed falsely", f"{false.count} of {counted(false.of, 'session')} of unchanged code, {interval(false)}"
    for session in trial.unchanged:
        for test in session.regressed:
            yield "", test
    label = "failed otherwise"
    for test, sessions in found.other_failures.items():
        yield label, f"{test} in {sessions} of {counted(len(trial.sessions), 'session')}"
        label = ""
    if losses.of:
        yield "losses found", f"{losses.count} of {losses.of} losses of {percent(trial.slowdown)}, {interval(losses)}"
    if others := sum(session.is_falsely_slower for session in trial.sessions if session.slowed):
        yield "", f"in {counted(others, 'session')} with losses another test failed, too"
    if found.machine:
        yield "machine", f"slower than its baselines in {counted(found.machine, 'session')} (status 7)"
    if found.not_counted:
        yield "not measured", counted(found.not_counted, "session")
    for test in trial.without_baseline:
        yield "no baseline", f"{test}: its runs differ too much, or were disturbed"


def _row(name: str, noise: TestNoise) -> Mapping[str, str]:
    return {
        "test": name,
        "sessions": str(noise.sessions),
        "scatter": "" if noise.scatter is None else percent(noise.scatter),
        "holds": "" if noise.holds is None else percent(_rounded_up(noise.holds, 0.001)),
        "remark": "; ".join(_remarks(noise)),
    }


def _remarks(noise: TestNoise) -> Iterator[str]:
    if noise.is_too_noisy:
        yield "TOO NOISY to gate"
    elif noise.holds is not None and noise.tolerance is not None and noise.holds > noise.tolerance:
        yield f"its tolerance is {percent(noise.tolerance)}"
    if noise.holds is None or (noise.tolerance is not None and noise.holds <= noise.tolerance):
        return
    if noise.is_input_bound:
        yield "input-bound"
    if noise.clocks_mhz is not None:
        low, high = noise.clocks_mhz
        yield f"clocks from {low:,.0f} to {high:,.0f} MHz"
    for kind, sessions in noise.disturbed.items():
        yield f"{kind} in {counted(sessions, 'session')}"


def _advice(trial: Trial, found: TrialAnswer) -> Iterator[str]:
    false, losses = found.false_failures, found.losses
    yield f"{found.gate.upper()}: {_rates(trial, found)}"
    yield (
        f"  a gate may block if at most {whole_percent(MOST_FALSE)} of its sessions fail falsely, by the upper bound, "
        f"and it finds {whole_percent(LEAST_FOUND)} of the losses (docs/trial.md)"
    )
    if found.gate is Gate.UNDECIDED:
        kinds = ((found.further, "unchanged code without a failure"), (found.further_losses, "losses"))
        more = " and ".join(f"{counted(number, 'further session')} of {what}" for number, what in kinds if number)
        enough = max(false.of + found.further, 2 * LEAST_WITH_LOSSES)  # half as many have losses
        how = "" if trial.is_of_history else f"; go on with --sessions {enough}"
        yield f"  the rule needs {more}{how}"
    if found.gate is Gate.WARN_ONLY and false.count:
        yield from _wider(trial, found)
    if found.unfit:
        yield (
            "  no gate should have tests that are too noisy, fail otherwise or have no baseline; fix these, or leave "
            f"them out, and try again: {', '.join(found.unfit)}"
        )
    if losses.of and losses.count < LEAST_FOUND * losses.of:
        yield (
            f"  of losses of {percent(trial.slowdown)} it misses too many: a reference environment finds more "
            f"(docs/baselines.md), and `--slowdown {2 * trial.slowdown:g}` tells what it finds of larger ones"
        )
    if found.gate is Gate.MAY_BLOCK and not trial.is_of_base:
        yield "  in CI: pytest ... --tfperf-require-baseline"


def _wider(trial: Trial, found: TrialAnswer) -> Iterator[str]:
    """Propose the tolerance that the tests which were falsely REGRESSED can hold."""
    failed = {test for session in trial.unchanged for test in session.regressed}
    held = [
        noise.holds for test, noise in found.tests.items() if test in failed and noise.holds and not noise.is_too_noisy
    ]
    if held:
        yield "  in pytest's ini file, and then try again:"
        yield f"    tfperf_tolerance = {_rounded_up(max(held), _STEP):g}"


def _rounded_up(fraction: float, step: float) -> float:
    return round(math.ceil(fraction / step - 1e-9) * step, 6)
