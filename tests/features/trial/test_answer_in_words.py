"""The answer of a trial of the gate, whole."""

from __future__ import annotations

from dataclasses import replace

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.trial.answer import answer, trial_fact, trial_lines
from pytest_tfperf.features.trial.trial import Trial, TrialResult, TrialSession
from tests.helpers.expected import SameTexts

PASSED = TrialResult(outcome=Outcome.PASS, throughput_outcome=Outcome.PASS, change=0.002, tolerance=0.02)
LOST = replace(PASSED, outcome=Outcome.REGRESSED, throughput_outcome=Outcome.REGRESSED, change=-0.05)
GOOD = TrialSession(tests={"t.py::a": PASSED, "t.py::b": replace(PASSED, change=-0.004)})
FOUND = replace(GOOD, slowed=("t.py::a",), tests={**GOOD.tests, "t.py::a": LOST}, status=1)
MISSED = replace(GOOD, slowed=("t.py::a",))
WHOLE = Trial(date="2026-11-28", machine="box", tests=("t.py::a", "t.py::b"), sessions=(*20 * [GOOD], *10 * [FOUND]))
NOISY = [replace(GOOD, tests={**GOOD.tests, "t.py::b": replace(PASSED, change=0.05 * (-1) ** n)}) for n in range(20)]


def failing(trial: Trial, status: int, *tests: str) -> Trial:
    return replace(trial, sessions=tuple(replace(s, status=status or s.status, failed=tests) for s in trial.sessions))


def test_answers_of_trials(same_texts: SameTexts) -> None:
    trials = {
        "all is well": WHOLE,
        "another test fails in each session": failing(WHOLE, 1, "t.py::plain"),
        "a test crashes in each session": failing(WHOLE, 6, "t.py::crash"),
        "losses are missed": replace(WHOLE, sessions=(*20 * [GOOD], *4 * [FOUND], *6 * [MISSED])),
        "a history with a test that is too noisy": replace(WHOLE, sessions=tuple(NOISY), is_of_history=True),
        "too few sessions": replace(WHOLE, sessions=(*3 * [GOOD], FOUND), without_baseline=("t.py::c",)),
    }
    answers = {name: (trial, answer(trial)) for name, trial in trials.items()}
    texts = {name: [*trial_lines(*pair), "", trial_fact(*pair)] for name, pair in answers.items()}
    same_texts("trial", texts)
