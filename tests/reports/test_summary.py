"""What a session prints before its first test and after its last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from expected import SameTexts
from measurements import NOISE, baseline, measurement, run_at, throughput, verdict

from pytest_tfperf.core.baseline import Change
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import Doubt, DoubtKind, MachineVerdict, SessionVerdict, SoftwareVerdict
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.reports.measurement_table import Shown, measurement_table
from pytest_tfperf.reports.summary import before, machine_line, refused, skips, software_line, summary


def judged(outcome: Outcome, change: float = 0.0, **more: Any) -> Measurement:
    return measurement(throughput(1000.0 * (1 + change)), verdict=verdict(outcome, change, **more))


UNKNOWN = measurement(verdict=Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE))
PASSED = judged(Outcome.PASS)


def after(*measurements: Measurement, **more: Any) -> list[Shown]:
    return summary(measurements, baselines="baselines/", **more)


SPECIAL: dict[str, Any] = {"smoke": True, "inject_slowdown": 0.15, "hold": True, "against": "/py"}
FAULTS = {
    "a.py::test[1]": [WorkloadError("unknown model 'x'. Known: a, b.")],
    "a.py::test[2]": [WorkloadError("unknown model 'x'. Known: a, b."), WorkloadError("steps=0")],
}
BEFORE = {
    "an ordinary session": before("h200", 12, 130.0, 0),
    "a test may be in doubt": before("h200", 1, 16.0, 0, most_seconds=140.0),
    "a recording, whose runs may differ": before(
        "h200", 1, 25.0, 1, most_seconds=50.0, recording=5, baselines="baselines/"
    ),
    "all that may be special": before("h200", 1, 5.0, 1, recording=7, baselines="baselines/", **SPECIAL),
    "invalid parameters": refused(FAULTS, 40),
    "invalid parameters in brief": refused(FAULTS, 40, in_brief=True),
}


def test_what_is_said_before_the_first_test(same_texts: SameTexts) -> None:
    same_texts("before", BEFORE)


# After the last test


def test_a_session_is_summarised() -> None:
    measured = [PASSED, judged(Outcome.INCONCLUSIVE, -0.13), UNKNOWN]
    more: dict[str, Any] = {
        "machine": ["machine box: PASS", ""],
        "not_measured": 2,
        "history_error": "the disk is full",
    }
    assert after(*measured, unrecorded=["1 without a row"], **more) == [
        *measurement_table(measured),
        "",
        "box: 1 INCONCLUSIVE, 1 NO_BASELINE, 1 PASS in 36 s",
        "machine box: PASS",
        "1 without a row",
        "2 not measured: the error of each test says why, and what to do",
        "not in the history: the disk is full",
    ]


def test_a_refused_baseline_is_counted_as_refused_and_comes_first() -> None:
    table = after(measurement(test="a"), measurement(test="b", is_refused=True))
    assert [str(line).split()[0] for line in table[1:3]] == ["refused", "measured"]
    assert table[-1] == "box: 1 refused, 1 measured in 24 s"


def test_every_machine_that_was_measured_is_named_once() -> None:
    names = ["h200", "2-nodes-local-h200", "h200"]
    lines = after(*(measurement(verdict=verdict(), machine=name) for name in names))
    assert [line for line in lines if str(line).startswith("h200, 2-nodes-local-h200: 3 PASS")] != []


RECORDED = (
    Change(baseline(1612.0), baseline(1402.0, between_runs=0.0123)),
    Change(None, baseline(7.25, between_runs=None)),
)
NOISY = replace(NOISE, between_sessions=0.004)
AFTER = {
    "an improvement": after(judged(Outcome.IMPROVED, 0.13)),
    "an improvement slower than its baseline": after(judged(Outcome.IMPROVED, -0.41)),
    "an improvement on a red machine": after(judged(Outcome.IMPROVED, 0.13), red={"box"}),
    "recorded rows": after(measurement(), changes=RECORDED),
    "nothing was measured": after(measured_nothing=True),
    "how much runs differ": after(PASSED, judged(Outcome.PASS, noise=NOISY), judged(Outcome.PASS, noise=NOISY)),
    "skips, the most frequent first": skips({"needs 2 GPUs": 1, "needs 4 GPUs": 63}),
}


def test_what_is_said_after_the_last_test(same_texts: SameTexts) -> None:
    same_texts("after", AFTER)


# What all tests have in common


THEN = baseline(environment="tensorflow=2.20.0 driver=570")
NOW = replace(judged(Outcome.PASS, -0.08, baseline=THEN), environment={"tensorflow": "2.21.0", "driver": "580"})


SLOWER: dict[str, Any] = {"outcome": Outcome.REGRESSED, "change": -0.081, "low": -0.09, "high": -0.072}
BUSY = Telemetry(seconds=4.0, other_cpu_fraction_mean=0.49, other_processes={"make (pid 4711)": 0.48})
SLOWER_SOFTWARE = SoftwareVerdict(
    outcome=Outcome.REGRESSED, change=-0.03, low=-0.035, high=-0.025, threshold=0.02, tests=4, pairs=16
)


def of_machine(*, busy: bool = False, **more: Any) -> SessionVerdict:
    runs = (run_at(1000.0, telemetry=BUSY if busy else None),)
    return machine_line(
        "box", MachineVerdict(threshold=0.05, tests=13, **SLOWER | more), [replace(NOW, runs=runs), UNKNOWN]
    )


def of_software(**more: Any) -> SessionVerdict:
    return software_line("box", replace(SLOWER_SOFTWARE, **more), [NOW])


def in_doubt(of: Callable[..., SessionVerdict], *doubt: Any, **more: Any) -> SessionVerdict:
    return of(outcome=Outcome.INCONCLUSIVE, doubt=Doubt(*doubt), **more)


VERDICTS = {
    "a slower machine": of_machine(is_apart=True),
    "a slower machine that is busy": of_machine(is_apart=True, busy=True),
    "slower, and nobody knows which": of_machine(),
    "slower, nobody knows which, and busy": of_machine(busy=True),
    "a machine with few tests": in_doubt(of_machine, DoubtKind.FEW_TESTS, 3, 8, is_apart=True),
    "a machine with few pairs": in_doubt(of_machine, DoubtKind.FEW_WITH_PAIRS, 2, 4, is_apart=True),
    "slower software": of_software(),
    "software whose tests disagree": in_doubt(of_software, DoubtKind.TESTS_DISAGREE, 2, 3),
    "software within noise": in_doubt(of_software, DoubtKind.WITHIN_NOISE),
    "undecided software": in_doubt(of_software, DoubtKind.UNDECIDED),
    "any drop is accepted": of_software(outcome=Outcome.PASS, threshold=None),
}


def test_what_is_said_of_machine_and_software(same_texts: SameTexts) -> None:
    same_texts("verdicts", {case: found.text for case, found in VERDICTS.items()})


def test_the_fact_is_the_first_sentence_of_a_verdicts_text() -> None:
    assert {found.text.partition(". ")[0] == found.fact for found in VERDICTS.values()} == {True}


def test_a_machine_as_it_was_needs_no_words() -> None:
    assert of_machine(outcome=Outcome.PASS, change=0.009, low=-0.01, high=0.01).text == ""
