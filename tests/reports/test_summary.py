"""What a session prints before its first test and after its last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.core.baseline import BaselineUpdate
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.measurement_table import measurement_table
from pytest_tfperf.reports.summary import before, refused, skips, summary
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import NOISE, baseline, measurement, throughput, verdict


def judged(outcome: Outcome, change: float = 0.0, **more: Any) -> Measurement:
    return measurement(throughput(1000.0 * (1 + change)), verdict=verdict(outcome, change, **more))


WIDENED = judged(Outcome.PASS, threshold=0.083, threshold_recorded=0.06)
UNKNOWN = measurement(verdict=Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE))
PASSED = judged(Outcome.PASS)


def after(*measurements: Measurement, **more: Any) -> list[Line | str]:
    return summary(measurements, baselines="baselines/", **more)


AGAINST = "each check compares this Python (b) with /py (a) instead of a baseline"
SPECIAL: dict[str, Any] = {"smoke": True, "inject_slowdown": 0.15, "against": [AGAINST]}
FAULTS = {
    "a.py::test[1]": [WorkloadError("unknown model 'x'", next_step="Known: a, b.")],
    "a.py::test[2]": [WorkloadError("unknown model 'x'", next_step="Known: a, b."), WorkloadError("steps=0")],
}
BEFORE = {
    "an ordinary session": before("h200", 12, (130.0, 130.0), 0),
    "a test may be in doubt": before("h200", 1, (16.0, 16.0), 0, most_seconds=140.0),
    "tests that were never timed": before("h200", 8, (8.0, 930.0), 8, most_seconds=960.0),
    "a recording, whose runs may differ": before(
        "h200", 1, (5.0, 600.0), 1, most_seconds=1200.0, recording=5, baselines="baselines/"
    ),
    "all that may be special": before("h200", 1, (5.0, 5.0), 1, recording=7, baselines="baselines/", **SPECIAL),
    "invalid parameters": refused(FAULTS, 40),
    "invalid parameters in brief": refused(FAULTS, 40, in_brief=True),
}


def test_what_is_said_before_the_first_test(same_texts: SameTexts) -> None:
    same_texts("before", BEFORE)


# After the last test


def test_thresholds_that_widened_since_the_recording_are_counted_with_a_next_step() -> None:
    more = judged(Outcome.PASS, threshold=0.12, threshold_recorded=0.05)
    (line,) = (line for line in after(PASSED, WIDENED, more) if str(line).startswith("higher thresholds"))
    assert line == (
        "higher thresholds than when the baselines were recorded: 2 tests, up to 12.0 % where it was 5 %, because "
        "sessions or the machine's speed differ. Next: judge by a reference environment, which needs no history: "
        "tfperf reference create"
    )


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
    BaselineUpdate(baseline(1612.0), baseline(1402.0, between_runs=0.0123)),
    BaselineUpdate(None, baseline(7.25, between_runs=None)),
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


@pytest.mark.parametrize(("change", "is_doubted"), [(0.9, False), (6.0, True)])
def test_a_gain_that_a_lost_digit_may_explain_is_told_with_its_test(change: float, is_doubted: bool) -> None:
    gained = judged(Outcome.IMPROVED, change)
    doubt = f"{gained.test}: 7 times as fast as its baseline: if nothing explains that, correct the row"
    assert (doubt in after(gained)) is is_doubted


def test_what_is_said_after_the_last_test(same_texts: SameTexts) -> None:
    same_texts("after", AFTER)
