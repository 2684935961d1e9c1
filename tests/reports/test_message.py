"""What a message about one measurement says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Breakdown, Input, Slower
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.run import StepParts
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.throughput import DivergedAt
from pytest_tfperf.core.verdict import Noise, Outcome, Reason, Rule, Tolerance, Verdict
from pytest_tfperf.judging.breakdown import of_a_slowdown
from pytest_tfperf.reports.invalid import ADVICE, disturbance_fact
from pytest_tfperf.reports.message import message, not_measured
from pytest_tfperf.reports.verdict import headline, in_brief
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import (
    BUSY,
    TEST,
    WORKLOAD,
    acknowledged,
    baseline,
    measurement,
    pair,
    run,
    run_at,
    throughput,
    verdict,
)

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
    found = verdict(outcome, throughput(*runs).examples_per_sec / 1612 - 1, **given | of)
    return measurement(throughput(*runs), **{"verdict": found, "machine": "dgx1-p100"} | (more or {}))


def line(label: str, found: Measurement, **more: Any) -> str:
    """The text beside a label; "" where there is no such line."""
    return next((line.text for line in message(found, **more) if line.label == label), "")


CONFIRMED = measurement(
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

SAME, LESS = {"baseline": baseline(1612.0)}, {"outcome": Outcome.REGRESSED}
REFERENCE: dict[str, Any] = {"rule": Rule.REFERENCE_ENVIRONMENT}
SURE = Noise(between_runs=0.013, degrees_of_freedom=math.inf, between_sessions=0.003)
ONE_RUN = baseline(1612.0, runs=1, between_runs=None)
PAIRS = {"pairs": (pair(0.001), pair(-0.002))}
MIXED = (1402.0, 1404.0, 1610.0)
LOST = throughput(*MIXED).examples_per_sec / 1612 - 1


MESSAGES = {
    "confirmed against the reference environment": CONFIRMED,
    "passed": judged(1600.0),
    "widened by noise": judged(1600.0, threshold=0.083),
    "widened since the recording": judged(1600.0, threshold=0.083, threshold_recorded=0.06),
    "common drift": judged(1600.0, common_drift=math.log(0.99)),
    "common drift too small to show": judged(1600.0, common_drift=-0.0005),
    "a floor": judged(1600.0, baseline=DOCUMENT, is_floor=True),
    "any slowdown is accepted": judged(1600.0, threshold=None, **SAME),
    "a baseline of one run": judged(1600.0, baseline=ONE_RUN),
    "assumed noise": judged(1600.0, noise=SURE),
    "runs that disagree": judged(
        *MIXED,
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.RUNS_DISAGREE,
        interval=(-0.19, -0.008),
        confirmed_change=-0.099,
    ),
    "the parts of a program's step": judged(
        1402.0,
        outcome=Outcome.REGRESSED,
        baseline=replace(ROW, environment="step_ms=input:0.478,compute:0.655,other:0.442"),
        more={"runs": (run(step_parts=StepParts(input=0.00048, compute=0.0012, other=0.000441)),)},
    ),
    "too noisy": judged(1402.0, outcome=Outcome.TOO_NOISY, reason=Reason.TOO_NOISY, threshold=0.31),
    "a single run": judged(1402.0, reason=Reason.SINGLE_RUN, **LESS),
    "confirmed by runs": judged(*MIXED, confirmed_change=LOST, **LESS),
    "pairs": judged(1402.0, more=PAIRS, **REFERENCE),
    "a discarded run": judged(1600.0, more={"discarded": (run_at(829.0, disturbance=BUSY),)}),
    "a discarded pair": judged(1600.0, more={"discarded_pairs": (pair(-0.3),)}),
    "no baseline": measurement(verdict=NO_BASELINE),
    "no test": judged(1402.0, more={"test": ""}),
    "too good": judged(6000.0, outcome=Outcome.IMPROVED),
    "earlier sessions": judged(1402.0, baseline=EARLIER),
    "slower than earlier sessions": judged(1402.0, outcome=Outcome.REGRESSED, baseline=EARLIER),
    "a name": judged(1600.0, more={"name": "the big one"}),
    "diverged": measurement(NAN, verdict=DIVERGED),
}


def test_messages(same_texts: SameTexts) -> None:
    of_fleet = RerunCommand(" --tfperf-machine=dgx1-p100")
    texts = {case: message(found, of_fleet) for case, found in MESSAGES.items()}
    runs = [run(disturbance=BUSY, telemetry=HOST)]
    earlier = not_measured(TEST, RerunCommand(), disturbance=BUSY, runs=runs, earlier=judged(1600.0))
    same_texts("messages", texts | {"below an error": earlier})


def test_what_slowed_down_is_told_by_what_the_reference_environment_gives_today() -> None:
    """The machine is a fifth faster than when the baseline was recorded: its figure would clear both parts."""
    parts = Breakdown(input=Input.FETCHED, pipeline_examples_per_sec=1780.0, device_data_examples_per_sec=3000.0)
    verdict = judged(1700.0, confirmed_change=-0.15, more=PAIRS, **LESS, **REFERENCE).verdict
    assert verdict is not None
    assert verdict.expected == pytest.approx(2000.0)
    assert of_a_slowdown(parts, 1700.0, 2000.0).slower is Slower.PIPELINE


HEADLINES = {
    "level": judged(1612.1),
    "floor": judged(3224.0, is_floor=True),
    "earlier sessions": judged(3224.0, baseline=EARLIER),
    "measured": measurement(throughput(1402.0)),
    "no baseline": measurement(verdict=NO_BASELINE),
    "no interval": measurement(throughput(1402.0, low=0.0)),
    "a log": measurement(throughput(1402.0, high=math.inf), file="a.log"),
    "slower": judged(1402.0, **LESS),
    "slower than the reference environment": judged(1402.0, confirmed_change=-0.05, **REFERENCE, **LESS),
    "diverged": measurement(NAN, verdict=DIVERGED),
    "diverged in the warm-up": measurement(
        throughput(1.0, 1.0, loss=-math.inf, diverged=DivergedAt(2, 0, 1200)), verdict=DIVERGED
    ),
    "a command has no steps to name": measurement(NAN, workload=Command([], name="my-train"), verdict=DIVERGED),
}


def test_headlines_and_what_is_said_in_brief(same_texts: SameTexts) -> None:
    texts = {case: [headline(found)] for case, found in HEADLINES.items()}
    for case, found in HEADLINES.items():
        texts[case] += [in_brief(found)] if found.verdict else []
    same_texts("headlines", texts)


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
        discarded=(run(disturbance=Disturbance(kind)),),
        verdict=Verdict(outcome=Outcome.INVALID, reason=Reason.DISTURBED),
    )
    assert headline(found).endswith(f": INVALID: {disturbance_fact(Disturbance(kind))}")
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
def test_every_line_below_the_headline_has_a_label_and_fits(
    runs: list[float], pairs: tuple[Any, ...], of: dict[str, Any]
) -> None:
    found = judged(*runs, more={"pairs": pairs}, **of)
    first, *rest = message(found)
    assert str(first) == headline(found)
    assert all(line.label and line.text for line in rest)
    assert max(len(str(line)) for line in (first, *rest)) < 320


def test_a_damaged_rows_drift_gives_no_finite_rate_and_no_error() -> None:
    one = measurement(verdict=verdict(common_drift=710.0))
    assert one.verdict is not None
    assert one.verdict.expected is not None
    assert one.verdict.expected > 1e300


@pytest.mark.parametrize(
    ("interval", "day", "says"),
    [
        ((-0.15, -0.11), "2027-01-15", "acknowledged 13.0 % slower until 2027-01-15: bug 123"),
        ((-0.15, -0.11), "2027-01-16", "acknowledged 13.0 % slower until 2027-01-15, which is over: bug 123"),
        ((-0.25, -0.21), "2027-01-15", "WORSE than acknowledged 13.0 % slower until 2027-01-15: bug 123"),
    ],
)
def test_a_known_loss_and_the_owner_are_named(interval: tuple[float, float], day: str, says: str) -> None:
    of = {"interval": interval, "acknowledged": acknowledged()}
    m = judged(1402.0, outcome=Outcome.REGRESSED, more={"time": f"{day}T03:00:00", "owner": "team-vision"}, **of)
    labelled = {line.label: line.text for line in message(m)}
    assert (labelled["known loss"], labelled["owner"]) == (says, "team-vision")


def test_a_known_loss_of_a_figure_is_in_its_unit() -> None:
    known = acknowledged(1.5 * 2**30, 2.0 * 2**30, figure="peak_memory")
    memory = Verdict(
        figure=Figure("peak_memory"),
        outcome=Outcome.REGRESSED,
        value=3.0 * 2**30,
        interval=(2**30, 2.0 * 2**30),
        acknowledged=known,
    )
    labelled = {line.label: line.text for line in message(judged(1612.0, more={"figures": (memory,)}))}
    assert labelled["known loss"] == "acknowledged peak memory +1.5 GiB until 2027-01-15: bug 123"
