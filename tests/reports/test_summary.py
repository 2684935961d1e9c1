"""What a session prints before its first test and after its last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from measurements import NOISE, baseline, measurement, throughput, verdict

from pytest_tfperf.core.baseline import BaselineUpdate
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.reports.measurement_table import measurement_table
from pytest_tfperf.reports.summary import before, refused, skips, summary


def judged(outcome: Outcome, change: float = 0.0, **more: Any) -> Measurement:
    return measurement(throughput(1000.0 * (1 + change)), verdict=verdict(outcome, change, **more))


UNKNOWN = measurement(verdict=Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE))
PASSED = judged(Outcome.PASS)


def after(*measurements: Measurement, **more: Any) -> list[str]:
    return summary(measurements, baselines="baselines/", **more)


# Before the first test


def test_a_session_announces_machine_tests_and_time() -> None:
    assert before("h200", 12, 130.0, 0) == ["tfperf: h200, 12 throughput tests, about 2 min 10 s"]


def test_a_session_announces_how_long_a_doubt_may_take() -> None:
    (line,) = before("h200", 1, 16.0, 0, most_seconds=140.0)
    assert line == "tfperf: h200, 1 throughput test, about 16 s, up to 3 min if a test is in doubt"


def test_a_recording_announces_how_long_runs_that_differ_may_take() -> None:
    line, _ = before("h200", 1, 25.0, 1, most_seconds=50.0, recording=5)
    assert line == "tfperf: h200, 1 throughput test, about 25 s (1 never timed here), up to 50 s if runs differ"


def test_a_session_announces_what_is_special_about_it() -> None:
    options: dict[str, Any] = {"smoke": True, "inject_slowdown": 0.15, "hold": True, "against": "/py"}
    assert before("h200", 1, 5.0, 1, recording=7, baselines="baselines/", **options) == [
        "tfperf: h200, 1 throughput test, about 5 s (1 never timed here)",
        "tfperf: recording baselines, 7 fresh runs of each test, into baselines/",
        "tfperf: smoke run: one window of each test, no verdicts",
        "tfperf: workers lose 15.0 % of their throughput on purpose",
        "tfperf: --tfperf-hold: the history has no earlier session of these tests, so none of them can fail",
        "tfperf: each check compares this Python (b) with /py (a) instead of a baseline",
    ]


def test_invalid_parameters_are_listed_once_each_with_their_first_test() -> None:
    faults = {"a.py::test[1]": ["unknown model"], "a.py::test[2]": ["unknown model", "steps=0"]}
    assert refused(faults, 40) == [
        "tfperf: 2 of 40 throughput tests have invalid parameters; each of them is an error:",
        "  a.py::test[1] and 1 more: unknown model",
        "  a.py::test[2]: steps=0",
    ]


def test_before_the_first_test_a_fault_is_told_in_brief() -> None:
    faults = {"a.py::test[1]": ["unknown model 'x'. Known: a, b."]}
    assert refused(faults, 40, in_brief=True)[1:] == ["  a.py::test[1]: unknown model 'x'"]


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
    assert [line.split()[0] for line in table[1:3]] == ["refused", "measured"]
    assert table[-1] == "box: 1 refused, 1 measured in 24 s"


def test_every_machine_that_was_measured_is_named_once() -> None:
    names = ["h200", "2-nodes-local-h200", "h200"]
    lines = after(*(measurement(verdict=verdict(), machine=name) for name in names))
    assert [line for line in lines if line.startswith("h200, 2-nodes-local-h200: 3 PASS")] != []


def test_an_improvement_asks_to_be_recorded() -> None:
    last = "1 IMPROVED: record them with --update-baselines, or a later slowdown to the old speed will pass"
    assert after(judged(Outcome.IMPROVED, 0.13))[-1] == last


@pytest.mark.parametrize(
    ("change", "red"), [(-0.41, ()), (0.13, {"box"})], ids=["slower than its baseline", "on a red machine"]
)
def test_what_improved_only_beside_the_other_tests_is_not_to_be_recorded(change: float, red: Collection[str]) -> None:
    last = "1 IMPROVED relative to the common drift only: do not record them"
    assert after(judged(Outcome.IMPROVED, change), red=red)[-1] == last


def test_recorded_rows_are_shown_old_to_new() -> None:
    changes = (
        BaselineUpdate(baseline(1612.0), baseline(1402.0, between_runs=0.0123)),
        BaselineUpdate(None, baseline(7.25, between_runs=None)),
    )
    assert after(measurement(), changes=changes)[-4:] == [
        "recorded in baselines/: 1 new, 1 changed; check and commit them",
        "  file     workload                        topology    old    new   change  between runs",
        "  box.csv  resnet50-b64-replicated-device  1x8       1,612  1,402  -13.0 %         1.2 %",
        "  box.csv  resnet50-b64-replicated-device  1x8         new   7.25        -             -",
    ]


def test_a_gate_that_measured_nothing_says_so() -> None:
    (line,) = after(measured_nothing=True)
    assert line.startswith("NOTHING WAS MEASURED: --tfperf-require-baseline was given")


def test_skips_are_counted_by_reason_the_most_frequent_first() -> None:
    assert skips({"needs 2 GPUs": 1, "needs 4 GPUs": 63}) == ["63 skipped: needs 4 GPUs", "1 skipped: needs 2 GPUs"]


def test_the_summary_says_how_much_runs_and_sessions_differ() -> None:
    noisy = replace(NOISE, between_sessions=0.004)
    lines = after(judged(Outcome.PASS), judged(Outcome.PASS, noise=noisy), judged(Outcome.PASS, noise=noisy))
    (line,) = [line for line in lines if line.startswith("noise")]
    assert "runs differ by 1.2 %, the sessions of a test by 0.4 % more" in line
