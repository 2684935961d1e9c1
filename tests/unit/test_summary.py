from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from measurements import baseline, record, throughput

from pytest_tfperf.core.baseline import Baseline, Change
from pytest_tfperf.core.canary import Moved
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.judging.common_drift import Cause, Shift
from pytest_tfperf.reports.summary import before, skips, summary
from pytest_tfperf.settings import Settings, Update

SETTINGS = Settings(root=Path("/home/u/project"), baselines=Path("/home/u/project/baselines"))


def judged(kind: Outcome, change: float = 0.0, reference: Baseline | None = None) -> Measurement:
    now = throughput(1000.0 * (1 + change))
    return record(now, verdict=Verdict(outcome=kind, baseline=reference or baseline(), change=change))


UNKNOWN = record(verdict=Verdict(outcome=Outcome.NO_BASELINE, reason="there is no baseline"))


def said(*records: Measurement, changes: tuple[Change, ...] = (), settings: Settings = SETTINGS) -> str:
    return "\n".join(summary(records, changes, settings, measured_nothing=False))


def test_skips_are_counted_by_reason_the_most_frequent_first() -> None:
    assert skips({"needs 2 GPUs": 1, "needs 4 GPUs": 63}) == ["63 skipped: needs 4 GPUs", "1 skipped: needs 2 GPUs"]


# Before


def test_machine_tests_and_time_are_announced() -> None:
    assert before("h200", 12, 130.0, 0, SETTINGS) == ["tfperf: h200, 12 throughput tests, about 2 min 10 s"]


def test_one_test_is_one() -> None:
    assert before("h200", 1, 5.0, 0, SETTINGS) == ["tfperf: h200, 1 throughput test, about 5 s"]


def test_tests_that_were_never_timed_are_counted() -> None:
    assert before("h200", 2, 30.0, 2, SETTINGS) == ["tfperf: h200, 2 throughput tests, about 30 s (2 never timed here)"]


def test_recording_is_announced_with_its_place() -> None:
    settings = Settings(root=SETTINGS.root, baselines=SETTINGS.baselines, update_baselines=Update.ALL, runs=7)
    assert before("h200", 1, 5.0, 0, settings)[1:] == [
        "tfperf: recording baselines, 7 fresh runs of each, into baselines/"
    ]


def test_a_place_outside_of_the_project_is_given_in_full() -> None:
    settings = Settings(root=SETTINGS.root, baselines=Path("/srv/b"), update_baselines=Update.ALL)
    assert before("h200", 1, 5.0, 0, settings)[1].endswith(" into /srv/b/")


def test_a_smoke_run_is_announced() -> None:
    assert before("h200", 1, 5.0, 0, Settings(smoke=True))[1:] == [
        "tfperf: smoke: one window of each test, nothing judged"
    ]


@pytest.mark.parametrize(("unknown", "lines"), [(2, 1), (1, 0)])
def test_holding_without_an_earlier_night_is_told(unknown: int, lines: int) -> None:
    said = before("h200", 2, 5.0, unknown, Settings(hold=True))[1:]
    assert len([line for line in said if "no earlier night of these tests" in line]) == lines


def test_a_loss_on_purpose_is_announced() -> None:
    assert before("h200", 1, 5.0, 0, Settings(inject_slowdown=0.1))[1:] == [
        "tfperf: workers lose 10% of their throughput on purpose"
    ]


# After


def test_a_night_is_summed_up() -> None:
    assert said(judged(Outcome.PASS), judged(Outcome.INCONCLUSIVE, -0.13), UNKNOWN) == dedent("""\
        workload                        topology  images/s  +/-   baseline   change  outcome
        resnet50-b64-replicated-device  1x8          1,000  1.50     1,000   +0.0 %  PASS
        resnet50-b64-replicated-device  1x8          870.0  1.50     1,000  -13.0 %  INCONCLUSIVE
        resnet50-b64-replicated-device  1x8          1,000  1.50         -        -  NO_BASELINE

        box: 1 PASS, 1 INCONCLUSIVE, 1 NO_BASELINE in 36 s
        in doubt: resnet50-b64-replicated-device on 8x Tesla P100 (box): 870.0 images/s (95 % CI 865.7 to 874.4), 13.0 % slower than 1,000
        1 without a baseline: record them with --update-baselines, then commit baselines/""")  # noqa: E501


def test_what_is_faster_is_to_be_recorded() -> None:
    assert said(judged(Outcome.IMPROVED)).splitlines()[-1] == (
        "1 IMPROVED: record them with --update-baselines, or losing the gain again will pass"
    )


def test_a_good_night_has_nothing_more_to_say() -> None:
    assert said(judged(Outcome.PASS)).splitlines()[-1] == "box: 1 PASS in 12 s"


def test_a_session_without_measurements_says_nothing() -> None:
    assert said() == ""


def test_a_gate_that_measured_nothing_says_so_and_no_more() -> None:
    assert summary([UNKNOWN], [], SETTINGS, measured_nothing=True) == [
        "NOTHING WAS MEASURED: --tfperf-require-baseline was given, and no selected test came to a measurement: "
        "see each one's reason. `tfperf topology` shows the devices"
    ]


def test_recorded_rows_are_shown_old_to_new() -> None:
    changes = (Change(baseline(1612.0), baseline(1402.0, spread=0.0123)), Change(None, baseline(7.25, spread=None)))
    assert said(record(), changes=changes).splitlines()[-3:] == [
        "recorded in baselines/: 1 new, 1 changed; commit them when they are right",
        "  box.csv  resnet50-b64-replicated-device 1x8  1,612 -> 1,402  -13.0 %  runs differ by 1.2 %",
        "  box.csv  resnet50-b64-replicated-device 1x8  new 7.25",
    ]


def test_what_regressed_is_not_called_in_doubt() -> None:
    assert "in doubt" not in said(judged(Outcome.REGRESSED, -0.13))


# What moved all tests at once


def common(records: tuple[Measurement, ...], **shifts: Shift) -> list[str]:
    """What is said of the shift of each machine."""
    lines = summary(records, [], SETTINGS, measured_nothing=False, shifts=shifts)
    return [line for line in lines if line.startswith("together")]


def together(change: float, *records: Measurement, **more: object) -> str:
    moved = Shift(math.log1p(change), tests=13, **more)  # type: ignore[arg-type]
    return "\n".join(common(records or (judged(Outcome.PASS),), box=moved))


CANARIES = {"matrix product": Moved(math.log1p(-0.06), 0.01), "memory copy": Moved(0.0, 0.02)}


def test_a_shift_that_is_next_to_nothing_is_not_said() -> None:
    assert together(-0.004) == ""


def test_a_nights_shift_is_said_and_excused() -> None:
    assert together(-0.021) == (
        "together: 13 tests are 2.1 % slower than their baselines: no more than nights differ by (3 %), and not held "
        "against any of them"
    )


def test_a_slower_machine_is_named_with_its_evidence() -> None:
    assert together(-0.08, cause=Cause.MACHINE, canaries=CANARIES) == (
        "together: 13 tests are 8 % slower than their baselines, and so is the machine itself "
        "(matrix product -6 +/- 1 %, memory copy +0 +/- 2 %, without TensorFlow): "
        "not held against them. See to its clocks, cooling and neighbours"
    )


def test_slower_software_is_named_with_what_has_changed() -> None:
    then = baseline(environment="tensorflow=2.20.0 keras=3.1")
    now = record(
        environment={"tensorflow": "2.21.0", "keras": "3.1"}, verdict=Verdict(outcome=Outcome.REGRESSED, baseline=then)
    )
    assert together(-0.08, now, cause=Cause.SOFTWARE, canaries=CANARIES) == (
        "together: 13 tests are 8 % slower than their baselines, and the machine itself is not "
        "(matrix product -6 +/- 1 %, memory copy +0 +/- 2 %, without TensorFlow): "
        "each is judged as it stands. Changed since: tensorflow 2.20.0 -> 2.21.0"
    )


def test_without_canaries_a_shift_has_no_culprit() -> None:
    assert together(0.08, cause=Cause.UNKNOWN) == (
        "together: 13 tests are 8 % faster than their baselines, "
        "whether by the machine or the software is not known: each is judged as it stands. "
        "Changed since: nothing that is recorded"
    )


def test_each_machine_is_told_with_its_own_changes() -> None:
    tensorflow, driver = baseline(environment="tensorflow=2.20.0"), baseline(environment="driver=570")
    records = (
        replace(judged(Outcome.REGRESSED, -0.08, tensorflow), environment={"tensorflow": "2.21.0"}),
        replace(judged(Outcome.PASS, 0.05, driver), environment={"driver": "580"}, machine="h200"),
    )
    box, h200 = (Shift(math.log1p(change), tests=13, cause=Cause.UNKNOWN) for change in (-0.08, 0.05))
    assert common(records, box=box, h200=h200) == [
        "together: 13 tests are 8 % slower than their baselines, "
        "whether by the machine or the software is not known: each is judged as it stands. "
        "Changed since: tensorflow 2.20.0 -> 2.21.0",
        "together: 13 tests are 5 % faster than their baselines, "
        "whether by the machine or the software is not known: each is judged as it stands. "
        "Changed since: driver 570 -> 580",
    ]


# What came to nothing


GONE = [("a.py::test_b", "the worker died"), ("a.py::test_c", "INVALID: others used 90 %")]
GONE_SAID = ["not measured: a.py::test_b: the worker died", "not measured: a.py::test_c: INVALID: others used 90 %"]


def test_what_could_not_be_measured_is_listed_with_its_reason() -> None:
    lines = summary([judged(Outcome.PASS)], [], SETTINGS, not_measured=GONE, measured_nothing=False)
    assert lines[-2:] == GONE_SAID


def test_a_gate_that_measured_nothing_says_why() -> None:
    lines = summary([], [], SETTINGS, not_measured=GONE, measured_nothing=True)
    assert (lines[0].startswith("NOTHING WAS MEASURED"), lines[1:]) == (True, GONE_SAID)


def test_what_the_trials_folder_lacks_is_said() -> None:
    lines = summary([judged(Outcome.PASS)], [], SETTINGS, measured_nothing=False, not_saved="/t: no space left")
    assert lines[-1] == "not in --tfperf-save-trials' folder: /t: no space left"


def test_what_the_history_lacks_is_said() -> None:
    lines = summary([judged(Outcome.PASS)], [], SETTINGS, measured_nothing=False, not_kept="the disk is full")
    assert lines[-1] == "not in the history: the disk is full"
