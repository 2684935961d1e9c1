from __future__ import annotations

import math
from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import WORKLOAD, attempt, baseline, record, throughput

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run, Trial
from pytest_tfperf.core.throughput import DivergedAt
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict
from pytest_tfperf.judging.common_drift import Shift
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import Noise
from pytest_tfperf.reports.message import headline, message
from pytest_tfperf.settings import Again

TEST = "perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]"
NOISE = Noise(0.012, 36, "9 rows of this machine")
DOCUMENT = baseline(
    1612.0,
    machine="dgx1-p100",
    provenance=Provenance.PUBLISHED,
    source="tensorpack-multigpu-dgx1.md, replicated, 8 GPUs",
    runs=1,
    spread=None,
    gpu="Tesla P100",
    environment="tensorflow=1.3.0",
)
MEASURED = baseline(1612.0, source="--update-baselines at 0123456789ab", date="2026-01-01")


def says(text: str) -> str:
    return dedent(text).strip("\n")


def told(outcome: Outcome, *runs: float, base: Any = MEASURED, **more: Any) -> Measurement:
    """A verdict by hand: bounds of 5 % about 1,612 images/s."""
    given: dict[str, Any] = {
        "outcome": outcome,
        "reason": "within what is accepted",
        "baseline": base,
        "change": runs[0] / 1612 - 1,
        "lower": 1531.4,
        "upper": 1692.6,
        "tolerance": Tolerance(-0.05, 0.05),
        "threshold": 0.05,
        "noise": NOISE,
        "smallest_loss": 0.071,
    }
    now = throughput(*runs, steps=100 * len(runs))
    return record(now, test=TEST, machine="dgx1-p100", verdict=Verdict(**given | more))


def test_a_confirmed_regression_reads_as_in_the_design() -> None:
    now = throughput(1401.0, 1404.0, 1402.0, 1403.0, 1401.8, low=1396.0, high=1409.0)
    found = record(
        now,
        test=TEST,
        machine="dgx1-p100",
        environment={"tensorflow": "2.21.0"},
        verdict=judge(now, DOCUMENT, Tolerance(-0.05, 0.05), NOISE),
    )
    assert message(found) == says("""
        resnet50-b64-replicated-device on 8x Tesla P100 (dgx1-p100): 1,402 images/s (95 % CI 1,396 to 1,409), 13.0 % slower than 1,612
          bounds      1,531 .. 1,693    (reference 1,612, tolerance 5 %)
          baseline    published, tensorpack-multigpu-dgx1.md, replicated, 8 GPUs
          confirmed   5 of 5 fresh workers: 1,401  1,404  1,402  1,403  1,402
          spent       500 steps in 500 windows, 12 s in all
          detects     losses from 7.4 %, 95 times in 100; runs differ by 1.2 % (9 rows of this machine)
          environment tensorflow 1.3.0 -> 2.21.0
          rerun       pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]'
          accept      pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]' --update-baselines    (where the drop is meant; commit the row)
    """)  # noqa: E501


def test_a_pass_says_what_it_passed() -> None:
    assert message(told(Outcome.PASS, 1600.0)) == says("""
        resnet50-b64-replicated-device on 8x Tesla P100 (dgx1-p100): 1,600 images/s (95 % CI 1,592 to 1,608), 0.7 % slower than 1,612
          bounds      1,531 .. 1,693    (reference 1,612, tolerance 5 %)
          baseline    measured, --update-baselines at 0123456789ab (2026-01-01), 5 runs
          runs        1,600: within what is accepted
          spent       100 steps in 100 windows, 12 s in all
          detects     losses from 7.1 %, 95 times in 100; runs differ by 1.2 % (9 rows of this machine)
          rerun       pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]'
    """)  # noqa: E501


def test_a_row_that_names_no_source_leaves_no_gap() -> None:
    assert "\n  baseline    measured, 5 runs\n" in message(told(Outcome.PASS, 1600.0, base=baseline(1612.0)))


def test_what_the_night_was_credited_with_is_said() -> None:
    found = told(Outcome.PASS, 1600.0, shift=Shift(-0.012, tests=13), credited=-0.012)
    assert "  night       -1.2 % of it is what 13 tests have in common tonight, and not held against it\n" in message(
        found
    )


def test_a_doubt_shows_all_runs_and_why() -> None:
    reason = "not every one of 3 fresh workers shows the drop"
    assert "  runs        1,402  1,600  1,404: not every one of 3 fresh workers shows the drop\n" in message(
        told(Outcome.INCONCLUSIVE, 1402.0, 1600.0, 1404.0, reason=reason)
    )


def test_what_rounds_to_the_tolerance_widens_nothing() -> None:
    assert "tolerance 5 %)" in message(told(Outcome.PASS, 1600.0, threshold=0.0503))


def test_what_was_replayed_begins_with_its_file() -> None:
    assert message(record(file="night/azure.log", verdict=Verdict(outcome=Outcome.PASS))).startswith(
        "night/azure.log: resnet50-b64-replicated-device on "
    )


def test_a_missing_baseline_says_how_to_record_one() -> None:
    found = record(test=TEST, verdict=judge(throughput(1.0), None, Tolerance()), document=DOCUMENT)
    assert message(found) == says("""
        resnet50-b64-replicated-device on 8x Tesla P100 (box): 1,000 images/s (95 % CI 995.0 to 1,005); there is no baseline for this workload on this machine
          document    1,612 images/s on dgx1-p100: tensorpack-multigpu-dgx1.md, replicated, 8 GPUs
          record one  pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]' --update-baselines
    """)  # noqa: E501


def test_a_missing_baseline_leaves_the_first_calls_time_told() -> None:
    now = throughput(1.0, compile_seconds=7.3)
    found = record(now, test=TEST, verdict=judge(now, None, Tolerance()))
    assert "; the first call, which compiles, took 7.3 s\n" in message(found)


def test_an_invalid_result_is_not_to_be_recorded() -> None:
    found = record(test=TEST, verdict=judge(throughput(1.0, loss=math.nan), MEASURED, Tolerance(), NOISE))
    assert message(found) == says("""
        resnet50-b64-replicated-device on 8x Tesla P100 (box): 1,000 images/s (95 % CI 995.0 to 1,005); INVALID: the loss is nan: what it trains is not a model
          rerun       pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]'
    """)  # noqa: E501


def test_a_command_names_the_same_machine() -> None:
    found = record(test=TEST, verdict=judge(throughput(1.0), None, Tolerance()))
    line = message(found, Again(" --tfperf-machine=h200")).splitlines()[-1]
    assert line.endswith("[8-replicated]' --tfperf-machine=h200 --update-baselines")


NAN = throughput(1402.0, loss=math.nan, diverged=DivergedAt(run=1, window=3, step=45))


def test_a_loss_that_is_no_number_is_invalid_in_the_first_line() -> None:
    said = message(record(NAN, test=TEST, verdict=judge(NAN, MEASURED, Tolerance(), NOISE))).splitlines()[0]
    assert said.endswith("; INVALID: the loss is nan by step 45, in window 3: what it trains is not a model")


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({}, "  next        the pipeline: a NaN among the images, "),
        (
            {"precision": "mixed_float16"},
            "  next        precision='float32', because float16 ends at 65,504; the",
        ),
        ({"optimizer": "momentum"}, "  next        optimizer='sgd', which takes smaller steps; the pipeline"),
    ],
    ids=["plain", "float16", "momentum"],
)
def test_a_loss_that_is_no_number_has_a_next_step(of: dict[str, Any], said: str) -> None:
    found = record(NAN, workload=WORKLOAD.with_(**of), verdict=judge(NAN, MEASURED, Tolerance(), NOISE))
    assert f"\n{said}" in message(found)


def test_what_is_invalid_already_is_not_called_so_twice() -> None:
    found = record(verdict=Verdict(outcome=Outcome.INVALID, reason="INVALID: busy"))
    assert headline(found).endswith("; INVALID: busy")


def test_a_log_can_not_be_run_again() -> None:
    now = throughput(1402.0)
    found = record(now, test="azure.log", verdict=judge(now, MEASURED, Tolerance(), NOISE, most_runs=1))
    assert "rerun" not in message(found)


def test_a_log_without_a_baseline_records_none() -> None:
    found = record(test="azure.log", verdict=judge(throughput(1.0), None, Tolerance()))
    assert message(found) == headline(found)


def test_one_run_that_was_all_there_is_confirms_nothing() -> None:
    found = told(Outcome.REGRESSED, 1402.0, reason="shown by 1 fresh worker alone")
    assert "\n  runs        1,402: shown by 1 fresh worker alone\n" in message(found)


def test_a_floor_says_what_it_is() -> None:
    found = told(Outcome.PASS, 1600.0, base=DOCUMENT, floor=True, upper=None)
    assert "replicated, 8 GPUs; a floor: measured on the weaker Tesla P100\n" in message(found)


def test_a_floor_asks_for_a_baseline_in_the_place_of_a_rerun() -> None:
    found = told(Outcome.PASS, 1600.0, base=DOCUMENT, floor=True, upper=None)
    assert message(found).splitlines()[-1] == (
        "  record one  pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]' --update-baselines"
        "    (a floor is no baseline of this machine)"
    )


def test_a_log_above_a_floor_can_not_be_recorded() -> None:
    found = replace(told(Outcome.PASS, 1600.0, base=DOCUMENT, floor=True, upper=None), test="azure.log")
    assert "record one" not in message(found)


def test_a_headline_names_the_floor() -> None:
    assert headline(told(Outcome.PASS, 3224.0, floor=True)).endswith(", 100.0 % faster than the floor of 1,612")


def test_a_wider_threshold_is_shown_beside_the_tolerance() -> None:
    found = told(Outcome.PASS, 1600.0, threshold=0.083, lower=1478.2)
    assert "  bounds      1,478 .. 1,693    (reference 1,612, tolerance 5 %, widened to 8.3 % by noise)\n" in message(
        found
    )


def test_unbounded_sides_are_called_any() -> None:
    found = told(
        Outcome.PASS,
        1600.0,
        lower=None,
        upper=None,
        tolerance=Tolerance(None, None),
        threshold=None,
        smallest_loss=None,
    )
    assert "  bounds      any .. any    (reference 1,612, tolerance none)\n" in message(found)


def test_an_unbounded_drop_detects_nothing() -> None:
    found = told(Outcome.PASS, 1600.0, tolerance=Tolerance(None, 0.05), threshold=None, smallest_loss=None)
    assert "  detects     nothing: the drop is unbounded\n" in message(found)


def test_a_change_too_small_to_write_is_none() -> None:
    assert headline(told(Outcome.PASS, 1612.1)).endswith(", level with 1,612")


def test_what_was_only_measured_has_a_headline() -> None:
    assert headline(record(throughput(1402.0))) == (
        "resnet50-b64-replicated-device on 8x Tesla P100 (box): 1,402 images/s (95 % CI 1,395 to 1,409)"
    )


@pytest.mark.parametrize("ends", [{"low": 0.0, "high": math.inf}, {"low": 0.0}, {"high": math.inf}])
def test_an_interval_that_is_not_known_is_left_out(ends: dict[str, float]) -> None:
    assert headline(record(throughput(1402.0, **ends))).endswith("1,402 images/s")


def test_what_was_never_timed_has_no_duration() -> None:
    assert "  spent       100 steps in 100 windows\n" in message(
        record(throughput(1.0), seconds=0.0, verdict=told(Outcome.PASS, 1600.0).verdict)
    )


def test_the_first_call_has_its_time() -> None:
    found = record(throughput(1600.0, compile_seconds=7.3), verdict=told(Outcome.PASS, 1600.0).verdict)
    assert (
        "  spent       100 steps in 100 windows, 12 s in all; the first call, which compiles, took 7.3 s\n"
        in message(found)
    )


@given(st.lists(st.floats(10, 10_000), min_size=1, max_size=6), st.booleans())
def test_the_first_line_can_stand_alone(runs: list[float], floor: bool) -> None:
    now = throughput(*runs)
    found = record(now, verdict=judge(now, MEASURED, Tolerance(), NOISE, floor=floor))
    assert message(found).partition("\n")[0] == headline(found)


@given(st.lists(st.floats(10, 10_000), min_size=1, max_size=6))
def test_labels_stand_in_one_column(runs: list[float]) -> None:
    now = throughput(*runs)
    lines = message(record(now, verdict=judge(now, MEASURED, Tolerance(), NOISE))).splitlines()[1:]
    assert all(line.startswith("  ") and line[13] == " " and line[14] != " " for line in lines)


def at(images_per_sec: float, disturbance: str = "") -> Run:
    return attempt([64 / images_per_sec] * 5, disturbance=disturbance)


def test_a_run_that_was_set_aside_is_shown_with_its_reason() -> None:
    trial = Trial((at(1400.0),), (at(829.0, "the machine is slower by now"),))
    shown = replace(told(Outcome.REGRESSED, 1400.0), trial=trial)
    assert "  set aside   829.0: the machine is slower by now" in message(shown).splitlines()


def test_a_disturbed_run_that_counts_says_so() -> None:
    shown = replace(told(Outcome.PASS, 1600.0), trial=Trial((at(1600.0, "swapping 12 MiB/s"),)))
    assert "  disturbed   1,600: swapping 12 MiB/s" in message(shown).splitlines()
