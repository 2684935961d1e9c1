"""A recorded trial judged again: run by run, as the gate took it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measurements import KEY, WORKLOAD, baseline

from pytest_tfperf import cli
from pytest_tfperf.bench.replay import files_of, replay_trial
from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run, Trial, Window
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.common_drift import Night
from pytest_tfperf.judging.noise import Noise
from pytest_tfperf.reports.message import message
from pytest_tfperf.stores import trial_file
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.recording import Recording

BUSY = "other processes used 94 % of 2 cores"


def run(images_per_sec: float, disturbance: str = "", unsettled: str = "") -> Run:
    """Twenty windows around this rate."""
    windows = tuple(Window(1, (1 + 0.001 * (-1) ** i) * 64 / images_per_sec) for i in range(20))
    return Run(windows, 64, disturbance=disturbance, unsettled=unsettled)


def saved(folder: Path, attempts: Sequence[Run], aside: Sequence[Run] = (), **more: Any) -> Path:
    given: dict[str, Any] = {
        "test": "test_a.py::test_b",
        "workload": WORKLOAD,
        "topology": KEY.topology,
        "machine": "box",
        "devices": "8x Tesla P100",
        "trial": Trial(tuple(attempts), tuple(aside)),
        "steps": 100,
        "warmup_steps": 10,
        "baseline": baseline(1000.0),
        "noise": Noise(0.01, 4.0, "this row's own runs"),
    }
    return trial_file.write(folder, Recording(**given | more))


def replayed(folder: Path, *rates: float, **more: Any) -> Measurement:
    return replay_trial(saved(folder, [run(rate) for rate in rates], **more))


def judged(record: Measurement) -> tuple[Outcome, int]:
    """The outcome, and after how many runs."""
    assert record.verdict is not None
    return record.verdict.outcome, len(record.trial.attempts)


def test_a_good_first_run_passes(tmp_path: Path) -> None:
    assert judged(replayed(tmp_path, 1000.0)) == (Outcome.PASS, 1)


def test_runs_after_the_verdict_are_not_looked_at(tmp_path: Path) -> None:
    assert judged(replayed(tmp_path, 1000.0, 500.0, 500.0)) == (Outcome.PASS, 1)


def test_three_runs_can_clear_a_suspicion(tmp_path: Path) -> None:
    assert judged(replayed(tmp_path, 970.0, 1000.0, 1000.0, 500.0, 500.0)) == (Outcome.PASS, 3)


def test_five_slow_runs_are_regressed(tmp_path: Path) -> None:
    assert judged(replayed(tmp_path, 900.0, 901.0, 899.0, 900.0, 902.0)) == (Outcome.REGRESSED, 5)


def test_the_part_that_slowed_down_is_said_again(tmp_path: Path) -> None:
    parts = StepProfile(input=Input.FETCHED, pipeline_images_per_sec=905.0)
    slow = [replace(run(rate), parts=parts) for rate in (900.0, 901.0, 899.0, 900.0, 902.0)]
    found = message(replay_trial(saved(tmp_path, slow, device_data_images_per_sec=1500.0)))
    assert "  slower      the input pipeline: " in found


def test_where_fewer_runs_were_recorded_they_decide(tmp_path: Path) -> None:
    record = replayed(tmp_path, 700.0, 701.0)
    assert judged(record) == (Outcome.REGRESSED, 2)
    assert not record.undecided


def test_a_disturbed_first_run_that_passes_counts(tmp_path: Path) -> None:
    record = replay_trial(saved(tmp_path, [run(1000.0, BUSY)]))
    assert judged(record) == (Outcome.PASS, 1)


def test_a_disturbed_first_run_that_is_slow_is_set_aside(tmp_path: Path) -> None:
    record = replay_trial(saved(tmp_path, [run(500.0, BUSY), run(1000.0)]))
    assert judged(record) == (Outcome.PASS, 1)
    assert [attempt.disturbance for attempt in record.trial.set_aside] == [BUSY]


def test_a_slow_run_on_a_busy_machine_is_invalid_and_no_regression(tmp_path: Path) -> None:
    record = replay_trial(saved(tmp_path, [run(500.0, BUSY)]))
    assert record.verdict is not None
    assert (record.verdict.outcome, record.verdict.reason) == (Outcome.INVALID, f"INVALID: {BUSY}")


def test_what_was_given_up_is_invalid_with_its_reason(tmp_path: Path) -> None:
    aside = [run(500.0, BUSY)] * 3
    record = replay_trial(saved(tmp_path, [run(900.0)], aside, invalid=BUSY))
    assert judged(record) == (Outcome.INVALID, 1)


def test_what_never_settled_is_invalid_with_its_reason(tmp_path: Path) -> None:
    reason = "it never settles: the throughput falls by 30% from its first to its last third"
    record = replay_trial(saved(tmp_path, [], [run(900.0, unsettled=reason)] * 3, invalid=reason))
    assert record.verdict is not None
    assert record.verdict.reason == f"INVALID: {reason}"


def test_what_was_given_up_passes_where_no_more_is_wanted(tmp_path: Path) -> None:
    rows = {KEY: baseline(800.0)}
    store = BaselineStore(tmp_path / "mine", published=None)
    store.update("box", rows)
    path = saved(tmp_path, [run(900.0)], [run(500.0, BUSY)] * 3, invalid=BUSY)
    assert judged(replay_trial(path, store)) == (Outcome.IMPROVED, 1)


def test_the_nights_common_shift_is_taken_out(tmp_path: Path) -> None:
    assert judged(replayed(tmp_path, 900.0, credited=math.log(0.9))) == (Outcome.PASS, 1)


def test_more_tests_ask_for_more_certainty(tmp_path: Path) -> None:
    one, many = (replayed(tmp_path, *[900.0] * 5, tests=tests).verdict for tests in (1, 500))
    assert one is not None
    assert many is not None
    assert (one.threshold or 0) < (many.threshold or 0)


def test_the_nights_before_count(tmp_path: Path) -> None:
    doubtful = Night((-0.01,), doubtful=True)
    assert judged(replayed(tmp_path, 1000.0, 1000.0, 1000.0, nights=(doubtful,))) == (Outcome.PASS, 3)


def test_the_nights_before_say_nothing_of_another_row(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path / "mine", published=None)
    store.update("box", {KEY: baseline(1001.0)})
    path = saved(tmp_path, [run(1000.0)] * 3, nights=(Night((-0.01,), doubtful=True),))
    assert judged(replay_trial(path, store)) == (Outcome.PASS, 1)


def test_a_held_regression_stays_held(tmp_path: Path) -> None:
    assert judged(replayed(tmp_path, *[900.0] * 5, hold=True)) == (Outcome.INCONCLUSIVE, 5)


def test_the_tests_own_tolerance_holds(tmp_path: Path) -> None:
    assert judged(replayed(tmp_path, 900.0, tolerance=Tolerance.of(0.2))) == (Outcome.PASS, 1)


def test_a_tolerance_that_is_given_now_wins(tmp_path: Path) -> None:
    path = saved(tmp_path, [run(900.0)], tolerance=Tolerance.of(0.02))
    assert judged(replay_trial(path, tolerance=Tolerance.of(0.2))) == (Outcome.PASS, 1)


def test_what_had_no_baseline_has_none(tmp_path: Path) -> None:
    assert judged(replayed(tmp_path, 900.0, baseline=None, noise=None))[0] is Outcome.NO_BASELINE


# The command


def test_a_trial_without_a_baseline_is_told_where_one_may_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["replay", str(saved(tmp_path, [run(900.0)], baseline=None, noise=None))])
    assert "  next        it was recorded without one: name a folder" in capsys.readouterr().out


def rows(folder: Path, machine: str, row: Baseline) -> str:
    BaselineStore(folder, published=None).update(machine, {KEY: row})
    return f"--baselines={folder}"


def test_a_slow_trial_exits_with_1_and_says_what_the_gate_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, [run(900.0)] * 5)
    assert cli.main(["replay", str(path)]) == 1
    said = capsys.readouterr().out
    assert "10 % slower than 1,000" in said
    assert "confirmed   5 of 5 fresh workers: 900.0" in said
    assert "rerun       pytest test_a.py::test_b" in said


def test_a_folder_of_trials_is_judged_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path, [run(900.0)] * 5)
    saved(tmp_path, [run(1000.0)], test="test_a.py::test_c")
    assert cli.main(["replay", str(tmp_path)]) == 1
    assert "1 REGRESSED, 1 PASS" in capsys.readouterr().out


def test_an_invalid_trial_exits_with_6(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, [run(500.0, BUSY)])
    assert (cli.main(["replay", str(path)]), BUSY in capsys.readouterr().out) == (6, True)


def test_a_trial_is_judged_against_a_folder_that_is_given(tmp_path: Path) -> None:
    path = saved(tmp_path, [run(900.0)] * 5)
    assert cli.main(["replay", str(path), rows(tmp_path / "mine", "box", baseline(900.0))]) == 0


def test_a_trial_is_judged_against_a_machine_that_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path, [run(900.0)] * 5)
    theirs = rows(tmp_path / "mine", "theirs", baseline(900.0, machine="theirs"))
    assert cli.main(["replay", str(path), theirs, "--machine=theirs"]) == 0


def test_a_trial_says_itself_what_it_is_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, [run(900.0)])
    assert cli.main(["replay", str(path), "--topology=1x1"]) == 4
    assert "--workload and --topology are for logs" in capsys.readouterr().err


def test_a_log_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text("1\timages/sec: 56.9\n")
    assert cli.main(["replay", str(tmp_path / "a.log"), "--machine=box"]) == 4
    assert "a.log is a log, which doesn't say what it is of: give --workload, --topology" in capsys.readouterr().err


def test_a_damaged_trial_is_refused_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, [run(900.0)])
    path.write_bytes(path.read_bytes()[:-20])
    assert cli.main(["replay", str(path)]) == 4
    assert f"tfperf: {path}, line " in capsys.readouterr().err


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match=r"this folder holds no trial \(\*\.json\)"):
        files_of([tmp_path])
