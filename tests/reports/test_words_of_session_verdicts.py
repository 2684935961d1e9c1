"""What the verdicts on a whole session say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past import ChangeKind, LastingChange
from pytest_tfperf.core.session_verdicts import SessionVerdict, VerdictOn, drift_verdict
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.reports.session_verdicts import fact_of, text_of
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import baseline, lasting_change, measurement, run_at, verdict

THEN = baseline(environment="tensorflow=2.20.0 driver=570")
NOW = measurement(verdict=verdict(baseline=THEN), environment={"tensorflow": "2.21.0", "driver": "580"})
UNKNOWN = measurement(verdict=Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE))
STEP = lasting_change()
DECLINE = lasting_change(test="test_a.py::test_c", kind=ChangeKind.DECLINE, size=-0.06, low=-0.07, high=-0.05)

MEMORY = lasting_change(key=Key("resnet50-b64", "1x8", "peak_memory"), size=0.1, low=0.09, high=0.11)


def drift(*slowdowns: LastingChange) -> SessionVerdict:
    return drift_verdict("box", slowdowns)


SLOWER: dict[str, Any] = {
    "outcome": Outcome.REGRESSED,
    "change": -0.081,
    "interval": (-0.09, -0.072),
    "threshold": 0.05,
    "tests": 13,
}
BUSY = Telemetry(seconds=4.0, other_cpu_fraction_mean=0.49, other_processes={"make (pid 4711)": 0.48})


def of_machine(kind: VerdictOn = VerdictOn.MACHINE, *, busy: bool = False, **more: Any) -> SessionVerdict:
    runs = (run_at(1000.0, telemetry=BUSY if busy else None),)
    return SessionVerdict(kind=kind, **SLOWER | more).on("box", [replace(NOW, runs=runs), UNKNOWN])


def of_software(**more: Any) -> SessionVerdict:
    given = {"change": -0.03, "interval": (-0.035, -0.025), "threshold": 0.02, "tests": 4, "pairs": 16}
    return SessionVerdict(kind=VerdictOn.SOFTWARE, **{"outcome": Outcome.REGRESSED} | given | more).on("box", [NOW])


def in_doubt(of: Callable[..., SessionVerdict], reason: Reason, **more: Any) -> SessionVerdict:
    return of(outcome=Outcome.INCONCLUSIVE, reason=reason, **more)


VERDICTS = {
    "a slower machine": of_machine(),
    "a slower machine that is busy": of_machine(busy=True),
    "slower, and nobody knows which": of_machine(VerdictOn.TOGETHER),
    "slower, nobody knows which, and busy": of_machine(VerdictOn.TOGETHER, busy=True),
    "a machine with few tests": in_doubt(of_machine, Reason.FEW_TESTS, few=(3, 8)),
    "a machine with few pairs": in_doubt(of_machine, Reason.FEW_WITH_PAIRS, few=(2, 4)),
    "a machine that slows some tests down": in_doubt(
        of_machine, Reason.SLOW_IN_PART, change=-0.004, slow=("a.py::test_gpu[1]", "a.py::test_gpu[3]")
    ),
    "slower software": of_software(),
    "software within noise": in_doubt(of_software, Reason.WITHIN_NOISE),
    "undecided software": in_doubt(of_software, Reason.UNDECIDED),
    "software without pairs": in_doubt(
        of_software,
        Reason.NO_PAIRS,
        change=None,
        interval=None,
        threshold=None,
        failures={"a.py::test": "the current environment failed: the worker died"},
    ),
    "slower, and no test could be compared": of_machine(VerdictOn.TOGETHER, reason=Reason.NO_PAIRS),
    "any drop is accepted": of_software(outcome=Outcome.PASS, threshold=None),
}


def test_what_is_said_of_machine_and_software(same_texts: SameTexts) -> None:
    same_texts("verdicts", {case: text_of(found) for case, found in VERDICTS.items()})


def test_the_fact_is_the_first_sentence_of_a_verdicts_text() -> None:
    assert {text_of(found).partition(". ")[0] == fact_of(found) for found in VERDICTS.values()} == {True}


def test_a_machine_as_it_was_needs_no_words() -> None:
    assert text_of(of_machine(VerdictOn.TOGETHER, outcome=Outcome.PASS, change=0.009)) == ""


def test_a_drift_begins_with_the_test_and_the_size() -> None:
    assert fact_of(drift(STEP)) == "drift on box: test_a.py::test_b became slower for good, by 3.1 %"


def test_a_drift_has_date_commits_and_both_next_steps() -> None:
    text = text_of(drift(STEP))
    assert "test_a.py::test_b (resnet50-b64 on 1x8): -3.1 % (95 % CI -3.6 % to -2.6 %) since 2026-02-20" in text
    assert "commits 0123456789..fedcba9876" in text
    assert "tfperf history changes --machine=box" in text
    assert "--update-baselines" in text


def test_a_drift_of_several_counts_them_and_has_the_worst_first() -> None:
    headline, first, *_ = text_of(drift(STEP, DECLINE)).split("\n")
    assert headline == "drift on box: test_a.py::test_c and 1 more became slower for good, by up to 6 %"
    assert first.startswith("  test_a.py::test_c")
    assert "little by little since" in first


def test_a_drift_of_a_figure_names_it_and_says_worse() -> None:
    headline, first, *_ = text_of(drift(STEP, MEMORY)).split("\n")
    assert (
        headline == "drift on box: peak memory of test_a.py::test_b and 1 more became worse for good, by up to 10.0 %"
    )
    assert first.startswith("  test_a.py::test_b (peak memory of resnet50-b64 on 1x8): +10.0 % ")


def test_a_drift_of_many_is_short() -> None:
    many = [replace(STEP, test=f"test_{number}") for number in range(40)]
    assert len(text_of(drift(*many)).split("\n")) == 8
