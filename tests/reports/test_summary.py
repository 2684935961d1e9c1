"""What a session prints before its first test and after its last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from measurements import NOISE, baseline, measurement, run_at, throughput, verdict

from pytest_tfperf.core.baseline import BaselineUpdate
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import Doubt, DoubtKind, MachineVerdict, SoftwareVerdict
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.reports.measurement_table import measurement_table
from pytest_tfperf.reports.summary import before, machine_line, refused, skips, software_line, summary


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


# What all tests have in common


THEN = baseline(environment="tensorflow=2.20.0 driver=570")
NOW = replace(judged(Outcome.PASS, -0.08, baseline=THEN), environment={"tensorflow": "2.21.0", "driver": "580"})


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (
            {"outcome": Outcome.REGRESSED, "change": -0.081, "low": -0.09, "high": -0.072, "is_apart": True},
            "machine box: REGRESSED: the reference environment is 8.1 % slower than the baselines (95 % CI -9.0 % to "
            "-7.2 %, fails from -5.0 %). Changed outside of it: driver 570 -> 580. Single verdicts of this session "
            "mean little: the common drift is taken out of them, and the loss of one test can hide in a drift of 8.1 "
            "%. Check clocks, cooling and other work on the machine, or record new baselines with --update-baselines",
        ),
        (
            {"outcome": Outcome.REGRESSED, "change": -0.081, "low": -0.09, "high": -0.072},
            "machine and software on box: REGRESSED: all tests together are 8.1 % slower than the baselines (95 % CI "
            "-9.0 % to -7.2 %, fails from -5.0 %). Changed since: driver 570 -> 580, tensorflow 2.20.0 -> 2.21.0. "
            "Single verdicts of this session mean little: the common drift is taken out of them, and the loss of one "
            "test can hide in a drift of 8.1 %. Only a reference environment tells the machine from the software: "
            "tfperf reference create",
        ),
        ({"outcome": Outcome.PASS, "change": 0.009, "low": -0.01, "high": 0.01}, ""),
    ],
    ids=["slower machine", "slower, and nobody knows which", "all as before"],
)
def test_the_machine_has_a_verdict_of_its_own(verdict: dict[str, Any], line: str) -> None:
    assert machine_line("box", MachineVerdict(threshold=0.05, tests=13, **verdict), [NOW, UNKNOWN]) == line


@pytest.mark.parametrize("is_apart", [True, False])
def test_a_slower_machine_shows_what_else_ran_on_it(is_apart: bool) -> None:
    busy = Telemetry(seconds=4.0, other_cpu_fraction_mean=0.49, other_processes={"make (pid 4711)": 0.48})
    slower = MachineVerdict(
        outcome=Outcome.REGRESSED, change=-0.4, low=-0.41, high=-0.39, threshold=0.05, tests=8, is_apart=is_apart
    )
    line = machine_line("box", slower, [replace(NOW, runs=(run_at(1000.0, telemetry=busy),))])
    assert "During the runs: other processes 49 % of the CPU (most of it make (pid 4711)). " in line


SLOWER_SOFTWARE = SoftwareVerdict(
    outcome=Outcome.REGRESSED, change=-0.03, low=-0.035, high=-0.025, threshold=0.02, tests=4, pairs=16
)


def test_the_software_has_a_verdict_of_its_own() -> None:
    assert software_line("box", SLOWER_SOFTWARE, [NOW]) == (
        "software on box: REGRESSED: the current environment is 3 % slower than the reference "
        "environment (95 % CI -3.5 % to -2.5 %, fails from -2.0 %) in 16 interleaved pairs of 4 tests. "
        "Changed since the baselines: driver 570 -> 580, tensorflow 2.20.0 -> 2.21.0"
    )


@pytest.mark.parametrize(
    ("doubt", "why"),
    [
        (
            Doubt(DoubtKind.TESTS_DISAGREE, 2, 3),
            "the tests disagree (2 of 4 show at least half of the threshold, and 3 must)",
        ),
        (Doubt(DoubtKind.WITHIN_NOISE), "noise may explain the slowdown"),
        (Doubt(DoubtKind.UNDECIDED), "the session ended before its last pairs"),
    ],
)
def test_software_in_doubt_says_why(doubt: Doubt, why: str) -> None:
    line = software_line("box", replace(SLOWER_SOFTWARE, outcome=Outcome.INCONCLUSIVE, doubt=doubt), [NOW])
    assert line.startswith(f"software on box: INCONCLUSIVE, because {why}: the current environment is 3 % slower")


@pytest.mark.parametrize(
    ("doubt", "why"),
    [
        (
            Doubt(DoubtKind.FEW_TESTS, 3, 8),
            "the session has too few tests to fail for it (3 with a baseline, and it takes 8)",
        ),
        (Doubt(DoubtKind.FEW_WITH_PAIRS, 2, 4), "too few tests show it to fail for it (2 with pairs, and it takes 4)"),
    ],
)
def test_a_machine_in_doubt_says_why(doubt: Doubt, why: str) -> None:
    found = MachineVerdict(
        outcome=Outcome.INCONCLUSIVE,
        change=-0.598,
        low=-0.61,
        high=-0.58,
        threshold=0.09,
        tests=2,
        is_apart=True,
        doubt=doubt,
    )
    line = machine_line("box", found, [NOW])
    assert line.startswith(f"machine box: INCONCLUSIVE, because {why}: the reference environment is 59.8 % slower")


def test_where_any_drop_is_accepted_the_software_has_no_threshold() -> None:
    accepted = replace(SLOWER_SOFTWARE, outcome=Outcome.PASS, threshold=None)
    assert software_line("box", accepted, [NOW]).endswith(
        "(95 % CI -3.5 % to -2.5 %) in 16 interleaved pairs of 4 tests"
    )


def test_the_summary_says_how_much_runs_and_sessions_differ() -> None:
    noisy = replace(NOISE, between_sessions=0.004)
    lines = after(judged(Outcome.PASS), judged(Outcome.PASS, noise=noisy), judged(Outcome.PASS, noise=noisy))
    (line,) = [line for line in lines if line.startswith("noise")]
    assert "runs differ by 1.2 %, the sessions of a test by 0.4 % more" in line
