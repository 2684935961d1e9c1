"""A trial of the gate in words: its error rates, the tolerance that each test can hold, and the advice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pytest_tfperf.core.trial import LEAST_FOUND, MOST_FALSE, Gate, Rate, TestNoise, Trial, TrialAnswer
from pytest_tfperf.reports.numbers import counted, percent, whole_percent
from pytest_tfperf.reports.table import Columns, aligned, table

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
    for number, (test, sessions) in enumerate(found.other_failures.items()):
        yield ("" if number else "failed otherwise"), f"{test} in {sessions} of {_sessions(len(trial.sessions))}"
    if losses.of:
        yield "losses found", f"{losses.count} of {losses.of} losses of {percent(trial.slowdown)}, {interval(losses)}"
    if others := sum(session.is_falsely_slower for session in trial.sessions if session.slowed):
        yield "", f"in {counted(others, 'session')} with losses another test failed, too"
    if found.machine:
        yield "machine", f"slower than its baselines in {_sessions(found.machine)} (status 7)"
    if found.not_counted:
        yield "not measured", _sessions(found.not_counted)
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
        yield f"{kind} in {_sessions(sessions)}"


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
        how = "" if trial.is_of_history else f"; go on with --sessions {_sessions_for(trial, found)}"
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


def _sessions_for(trial: Trial, found: TrialAnswer) -> int:
    """Return the number of sessions to ask for: half as many have losses."""
    with_losses = sum(bool(session.losses) for session in trial.sessions)
    return max(found.false_failures.of + found.further, 2 * (with_losses + found.further_losses))


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


def _sessions(number: int) -> str:
    return counted(number, "session")
