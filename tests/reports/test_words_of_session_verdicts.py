"""What the verdicts on a whole session say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from measurements import baseline, lasting_change, measurement, run_at, verdict

from pytest_tfperf.core.change import Change, ChangeKind
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import (
    BriefVerdict,
    Doubt,
    DoubtKind,
    DriftVerdict,
    MachineVerdict,
    SessionVerdict,
    SoftwareVerdict,
    VerdictOn,
)
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.reports.session_verdicts import fact_of, text_of

THEN = baseline(environment="tensorflow=2.20.0 driver=570")
NOW = measurement(verdict=verdict(baseline=THEN), environment={"tensorflow": "2.21.0", "driver": "580"})
UNKNOWN = measurement(verdict=Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE))
STEP = lasting_change()
DECLINE = lasting_change(test="test_a.py::test_c", kind=ChangeKind.DECLINE, size=-0.06, low=-0.07, high=-0.05)


def said(found: SoftwareVerdict | MachineVerdict, *measurements: Measurement) -> str:
    return text_of(SessionVerdict.of(found, "box", measurements))


def drift(*slowdowns: Change) -> SessionVerdict:
    return SessionVerdict(machine="box", found=DriftVerdict(slowdowns=slowdowns))


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
    assert said(MachineVerdict(threshold=0.05, tests=13, **verdict), NOW, UNKNOWN) == line


@pytest.mark.parametrize("is_apart", [True, False])
def test_a_slower_machine_shows_what_else_ran_on_it(is_apart: bool) -> None:
    busy = Telemetry(seconds=4.0, other_cpu_fraction_mean=0.49, other_processes={"make (pid 4711)": 0.48})
    slower = MachineVerdict(
        outcome=Outcome.REGRESSED, change=-0.4, low=-0.41, high=-0.39, threshold=0.05, tests=8, is_apart=is_apart
    )
    line = said(slower, replace(NOW, runs=(run_at(1000.0, telemetry=busy),)))
    assert "During the runs: other processes 49 % of the CPU (most of it make (pid 4711)). " in line


SLOWER_SOFTWARE = SoftwareVerdict(
    outcome=Outcome.REGRESSED, change=-0.03, low=-0.035, high=-0.025, threshold=0.02, tests=4, pairs=16
)


def test_the_software_has_a_verdict_of_its_own() -> None:
    assert said(SLOWER_SOFTWARE, NOW) == (
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
    line = said(replace(SLOWER_SOFTWARE, outcome=Outcome.INCONCLUSIVE, doubt=doubt), NOW)
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
    line = said(found, NOW)
    assert line.startswith(f"machine box: INCONCLUSIVE, because {why}: the reference environment is 59.8 % slower")


def test_where_any_drop_is_accepted_the_software_has_no_threshold() -> None:
    accepted = replace(SLOWER_SOFTWARE, outcome=Outcome.PASS, threshold=None)
    assert said(accepted, NOW).endswith("(95 % CI -3.5 % to -2.5 %) in 16 interleaved pairs of 4 tests")


def test_the_fact_is_the_first_sentence_of_the_text() -> None:
    verdict = SessionVerdict.of(SLOWER_SOFTWARE, "box", [NOW])
    assert fact_of(verdict).endswith("in 16 interleaved pairs of 4 tests")
    assert text_of(verdict).startswith(f"{fact_of(verdict)}. Changed since the baselines")


def test_of_a_verdict_without_figures_the_outcome_is_said() -> None:
    brief = BriefVerdict(kind=VerdictOn.MACHINE, outcome=Outcome.REGRESSED, change=-0.081)
    assert text_of(SessionVerdict(machine="box", found=brief)) == (
        "machine on box REGRESSED (8.1 % slower than its baselines)"
    )


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


def test_a_drift_of_many_is_short() -> None:
    many = [replace(STEP, test=f"test_{number}") for number in range(40)]
    assert len(text_of(drift(*many)).split("\n")) == 8
