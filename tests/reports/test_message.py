"""What a message about one measurement says."""

from __future__ import annotations

import math
from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import BUSY, TEST, WORKLOAD, baseline, measurement, pair, run, run_at, throughput, verdict

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.breakdown import Breakdown
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Input
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.throughput import DivergedAt
from pytest_tfperf.core.verdict import Noise, Outcome, Reason, Rule, Tolerance, Verdict
from pytest_tfperf.reports.advice import ADVICE
from pytest_tfperf.reports.message import headline, in_brief, message, not_measured

DOCUMENT = baseline(
    1612.0,
    machine="dgx1-p100",
    provenance=Provenance.PUBLISHED,
    source="tensorpack-multigpu-dgx1.md, replicated, 8 GPUs",
    runs=1,
    between_runs=None,
    gpu="Tesla P100",
)
ROW = baseline(1612.0, source="--update-baselines at 0123456789ab", date="2026-01-01", environment="tensorflow=2.20.0")
EARLIER = replace(ROW, provenance=Provenance.PROVISIONAL, source="3 earlier sessions here")
HOST = Telemetry(seconds=4.0, cpu_mhz_median=2893.0, load_average_mean=2.13, other_cpu_fraction_mean=0.031)
NO_BASELINE = Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE)
DIVERGED = Verdict(outcome=Outcome.INVALID, reason=Reason.DIVERGED)
NAN = throughput(1402.0, loss=math.nan, diverged=DivergedAt(run=1, window=3, step=45))


def judged(*runs: float, outcome: Outcome = Outcome.PASS, more: dict[str, Any] | None = None, **of: Any) -> Measurement:
    """A measurement of these runs against 1,612 images/s; `of` is of its verdict, `more` of the measurement."""
    given: dict[str, Any] = {"baseline": ROW, "confirmed_change": None}
    found = verdict(outcome, runs[0] / 1612 - 1, **given | of)
    return measurement(throughput(*runs), **{"verdict": found, "machine": "dgx1-p100"} | (more or {}))


def line(label: str, found: Measurement, **more: Any) -> str:
    """The text beside a label; "" where there is no such line."""
    lines = message(found, **more).splitlines()
    return next((text[14:] for text in lines if text[2:13].rstrip() == label), "")


def test_a_regression_confirmed_against_the_reference_environment() -> None:
    found = measurement(
        throughput(1402.0, low=1396.0, high=1409.0),
        machine="dgx1-p100",
        runs=(run(telemetry=HOST),),
        pairs=tuple(pair(change) for change in (-0.051, -0.048, -0.052, -0.01)),
        discarded_pairs=(pair(-0.3, disturbance=BUSY),),
        environment={"tensorflow": "2.21.0"},
        verdict=verdict(
            Outcome.REGRESSED,
            -0.13,
            reason=Reason.CONFIRMED,
            rule=Rule.REFERENCE_ENVIRONMENT,
            confirmed_change=-0.05,
            baseline=ROW,
            tolerance=Tolerance(-0.02, 0.02),
            threshold=0.031,
            common_drift=math.log(0.92),
        ),
    )
    expected = dedent("""\
        resnet50-b64-replicated-device on 8x Tesla P100 (dgx1-p100): 1,402 images/s (95 % CI 1,396 to 1,409), 5 % slower than the reference environment, 13.0 % slower than 1,612
          threshold   fails from 3.1 % slower than the reference environment    (tolerance 2 %, widened to 3.1 % by noise)
          baseline    measured, --update-baselines at 0123456789ab (2026-01-01), 5 runs
          confirmed   3 of 4 interleaved pairs with the reference environment: -5.1 %  -4.8 %  -5.2 %  -1.0 %
          drift       -8.0 % is common to all tests of this session
          discarded   pair at -30.0 %: other processes used 43 % of 2 cores, most of it make (pid 4711)
          detectable  slowdowns from 8.7 % (95 % power); between-run standard deviation 1.2 % (9 rows of this machine)
          environment tensorflow 2.20.0 -> 2.21.0
          machine     CPU 2.9 GHz, load 2.1, other processes 3 % of the CPU
          rerun       pytest 'perf_tests/test_a.py::test_b[1]' --tfperf-machine=dgx1-p100
          accept      pytest 'perf_tests/test_a.py::test_b[1]' --tfperf-machine=dgx1-p100 --update-baselines    (if the slowdown is intended; commit the row)""")  # noqa: E501
    assert message(found, RerunCommand(" --tfperf-machine=dgx1-p100")) == expected


def test_an_error_shows_the_machine_earlier_results_and_what_to_do() -> None:
    runs = [run(disturbance=BUSY, telemetry=HOST)]
    lines = not_measured(TEST, RerunCommand(), disturbance=BUSY, runs=runs, earlier=judged(1600.0))
    assert lines == [
        "  machine     CPU 2.9 GHz, load 2.1, other processes 3 % of the CPU",
        f"  before      {headline(judged(1600.0))}",
        "  next        end the other processes, or accept more of them: -o tfperf_busy=1 (default 0.25)",
        f"  rerun       pytest '{TEST}'",
    ]


SAME, LESS = {"baseline": baseline(1612.0)}, {"outcome": Outcome.REGRESSED}
REFERENCE: dict[str, Any] = {"rule": Rule.REFERENCE_ENVIRONMENT}
SURE = Noise(between_runs=0.013, degrees_of_freedom=math.inf, between_sessions=0.003)
ONE_RUN = baseline(1612.0, runs=1, between_runs=None)
PAIRS = {"pairs": (pair(0.001), pair(-0.002))}
MIXED = (1402.0, 1404.0, 1610.0)
LOST = throughput(*MIXED).examples_per_sec / 1612 - 1


@pytest.mark.parametrize(
    ("label", "found", "text"),
    [
        ("threshold", judged(1600.0), "fails below 1,531    (baseline 1,612, tolerance 5 %)"),
        (
            "threshold",
            judged(1600.0, threshold=0.083),
            "fails below 1,478    (baseline 1,612, tolerance 5 %, widened to 8.3 % by noise)",
        ),
        (
            "threshold",
            judged(1600.0, common_drift=math.log(0.99)),
            "fails below 1,516    (baseline 1,612, expected in this session 1,596, tolerance 5 %)",
        ),
        ("threshold", judged(1600.0, is_floor=True), "fails below 1,531    (floor 1,612, tolerance 5 %)"),
        ("threshold", judged(1600.0, threshold=None), "none: any slowdown is accepted"),
        ("baseline", judged(1600.0, **SAME), "measured, 5 runs"),
        ("baseline", judged(1600.0, baseline=ONE_RUN), "measured, 1 run"),
        (
            "baseline",
            judged(1600.0, baseline=DOCUMENT, is_floor=True),
            "published, tensorpack-multigpu-dgx1.md, replicated, 8 GPUs; a floor: measured on the weaker Tesla P100",
        ),
        ("drift", judged(1600.0, common_drift=-0.0005), ""),
        (
            "detectable",
            judged(1600.0, noise=SURE),
            "slowdowns from 8.7 % (95 % power); between-run standard deviation 1.3 % (assumed), between sessions 0.3 %",
        ),
        (
            "runs",
            judged(*MIXED, outcome=Outcome.INCONCLUSIVE, reason=Reason.RUNS_DISAGREE),
            "1,402  1,404  1,610: too few runs show the slowdown",
        ),
        (
            "runs",
            judged(1402.0, reason=Reason.SINGLE_RUN, **LESS),
            "1,402: the slowdown is larger than noise explains, but only one run is known",
        ),
        ("confirmed", judged(*MIXED, confirmed_change=LOST, **LESS), "2 of 3 fresh runs: 1,402  1,404  1,610"),
        (
            "pairs",
            judged(1402.0, more=PAIRS, **REFERENCE),
            "+0.1 %  -0.2 %: within the tolerance",
        ),
        ("discarded", judged(1600.0, more={"discarded": (run_at(829.0, disturbance=BUSY),)}), f"829.0: {BUSY.fact}"),
        (
            "discarded",
            judged(1600.0, more={"discarded_pairs": (pair(-0.3),)}),
            "pair at -30.0 %: the reference environment failed in a later pair",
        ),
        ("record", measurement(verdict=NO_BASELINE), f"pytest '{TEST}' --update-baselines"),
        ("rerun", judged(1402.0, more={"test": ""}), ""),
        (
            "record",
            judged(1700.0, baseline=DOCUMENT, is_floor=True),
            f"pytest '{TEST}' --update-baselines    (a floor is not a baseline of this machine)",
        ),
        ("baseline", judged(1402.0, baseline=EARLIER), "provisional, 3 earlier sessions here (2026-01-01), 5 runs"),
        (
            "threshold",
            judged(1402.0, baseline=EARLIER),
            "warns below 1,531    (3 earlier sessions here 1,612, tolerance 5 %)",
        ),
        (
            "record",
            judged(1402.0, outcome=Outcome.REGRESSED, baseline=EARLIER),
            f"pytest '{TEST}' --update-baselines    (earlier sessions are no baseline, so this test can't fail)",
        ),
        ("accept", judged(1402.0, outcome=Outcome.REGRESSED, baseline=EARLIER), ""),
    ],
)
def test_a_line(label: str, found: Measurement, text: str) -> None:
    assert line(label, found) == text


def test_what_slowed_down_is_told_by_what_the_reference_environment_gives_today() -> None:
    """The machine is a fifth faster than when the baseline was recorded: its figure would clear both parts."""
    parts = Breakdown(input=Input.FETCHED, pipeline_examples_per_sec=1780.0, device_data_examples_per_sec=3000.0)
    found = judged(1700.0, confirmed_change=-0.15, more={**PAIRS, "breakdown": parts}, **LESS, **REFERENCE)
    assert line("slower", found).startswith("the input pipeline")


@pytest.mark.parametrize(
    ("found", "end"),
    [
        (judged(1612.1), ", level with 1,612"),
        (judged(3224.0, is_floor=True), ", 100.0 % faster than the floor of 1,612"),
        (judged(3224.0, baseline=EARLIER), ", 100.0 % faster than 1,612 (against 3 earlier sessions here)"),
        (measurement(throughput(1402.0)), "(box): 1,402 images/s (95 % CI 1,395 to 1,409)"),
        (measurement(verdict=NO_BASELINE), "; there is no baseline for this workload on this machine"),
        (measurement(throughput(1402.0, low=0.0)), ": 1,402 images/s"),
        (measurement(throughput(1402.0, high=math.inf), file="a.log"), ": 1,402 images/s"),
        (
            measurement(throughput(1.0, 1.0, loss=-math.inf, diverged=DivergedAt(2, 0, 1200)), verdict=DIVERGED),
            "INVALID: loss became infinite by step 1,200, in the warm-up of run 2; "
            "the throughput of a diverged run is not reported",
        ),
    ],
    ids=[
        "level",
        "floor",
        "earlier sessions",
        "measured",
        "no baseline",
        "no interval",
        "a log",
        "diverged in the warm-up",
    ],
)
def test_the_end_of_a_headline(found: Measurement, end: str) -> None:
    assert headline(found).endswith(end)


@pytest.mark.parametrize(
    ("of", "first"),
    [
        ({"precision": "mixed_float16"}, "try precision='float32', because float16 overflows above 65,504; look in"),
        ({"optimizer": "momentum"}, "try optimizer='sgd', which takes smaller steps; look in the input pipeline"),
    ],
)
def test_the_likeliest_cause_of_a_diverged_loss_comes_first(of: dict[str, Any], first: str) -> None:
    assert line("next", measurement(NAN, workload=WORKLOAD.with_(**of), verdict=DIVERGED)).startswith(first)


@pytest.mark.parametrize("kind", DisturbanceKind)
def test_each_disturbance_is_named_and_has_advice(kind: DisturbanceKind) -> None:
    found = measurement(
        discarded=(run(disturbance=Disturbance(kind, "it was disturbed")),),
        verdict=Verdict(outcome=Outcome.INVALID, reason=Reason.DISTURBED),
    )
    assert headline(found).endswith(": INVALID: it was disturbed")
    assert line("next", found) == ADVICE[kind] != ""


@given(
    st.lists(st.floats(0.01, 1e6), min_size=1, max_size=8),
    st.lists(st.floats(-0.9, 9.0).map(pair), max_size=12).map(tuple),
    st.fixed_dictionaries(
        {
            "outcome": st.sampled_from([Outcome.PASS, Outcome.REGRESSED, Outcome.INCONCLUSIVE]),
            "rule": st.sampled_from(Rule),
            "confirmed_change": st.none() | st.floats(-0.9, 9.0),
            "threshold": st.none() | st.floats(0.001, 0.9),
            "common_drift": st.floats(-0.5, 0.5),
        }
    ),
)
def test_every_message_has_labels_in_one_column_and_lines_that_fit(
    runs: list[float], pairs: tuple[Any, ...], of: dict[str, Any]
) -> None:
    found = judged(*runs, more={"pairs": pairs}, **of)
    (first, *rest) = message(found).splitlines()
    assert first == headline(found)
    assert all(text[:2] == "  " and text[2] != " " and text[13] == " " and text[14] != " " for text in rest)
    assert max(map(len, [first, *rest])) < 320


def test_a_command_that_prints_rates_has_no_steps_to_name() -> None:
    found = measurement(NAN, workload=Command(name="my-train"), verdict=DIVERGED)
    assert "INVALID: loss became NaN in window 3; the throughput" in headline(found)


# In brief


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (judged(1402.0, **LESS), "REGRESSED: 13.0 % slower than 1,612 images/s"),
        (
            judged(1402.0, confirmed_change=-0.05, **REFERENCE, **LESS),
            "REGRESSED: 5 % slower than the reference environment",
        ),
        (judged(1402.0, is_floor=True), "PASS: 13.0 % slower than the floor of 1,612 images/s"),
        (measurement(verdict=NO_BASELINE), "NO_BASELINE: 1,000 images/s"),
        (
            measurement(NAN, verdict=DIVERGED),
            "INVALID: loss became NaN by step 45, in window 3; the throughput of a diverged run is not reported",
        ),
    ],
    ids=["baseline", "reference environment", "floor", "no baseline", "invalid"],
)
def test_a_result_in_brief_is_its_outcome_and_why(found: Measurement, text: str) -> None:
    assert in_brief(found) == text


def test_a_name_stands_in_the_place_of_the_id_which_has_a_line_of_its_own() -> None:
    found = judged(1600.0, more={"name": "the big one"})
    assert headline(found).startswith("the big one on 8x Tesla P100 (dgx1-p100): 1,600")
    assert line("workload", found) == "resnet50-b64-replicated-device    (its key in files)"
