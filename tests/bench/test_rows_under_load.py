"""A row that a busy machine gave says so, and so does each verdict against it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_tfperf.bench.recording import BaselineRecorder
from pytest_tfperf.core.baseline import Baseline, BaselineUpdate
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.judging.validity import load_of
from pytest_tfperf.reports.baselines import recorded_under_load
from pytest_tfperf.reports.invalid import load_note
from pytest_tfperf.reports.message import message
from pytest_tfperf.reports.verdict import lines_about
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.measurements import KEY, baseline, measurement, run_at, throughput, verdict

QUIET = Telemetry(seconds=1.0, usable_cores=2, other_cpu_fraction_mean=0.1, idle_fraction_mean=0.9)
BUSY = replace(QUIET, other_cpu_fraction_mean=0.61, idle_fraction_mean=0.0, other_processes={"make (pid 1)": 0.6})
NOTE = "recorded under load: other processes used 61 % of 2 cores (2 of 5 runs)"
RATES = [1000.0, 1010.0, 990.0, 1005.0, 995.0]


def recorded(folder: Path, *telemetry: Telemetry, rates: list[float] = RATES) -> Baseline:
    runs = tuple(replace(run_at(1000.0), telemetry=one) for one in telemetry)
    recorder = BaselineRecorder(BaselineStore(folder, published=None))
    recorder.record(measurement(throughput(*rates), runs=runs), load_note(load_of(runs), len(runs)))
    return recorder.changes[0].new


def test_a_row_tells_the_load_of_its_runs_without_pids(tmp_path: Path) -> None:
    row = recorded(tmp_path, BUSY, QUIET, BUSY, QUIET, QUIET)
    (kept,) = BaselineStore(tmp_path, published=None).load(row.machine).values()
    assert (kept.note, kept.load) == (NOTE, NOTE)


def test_a_row_of_a_quiet_machine_has_no_note(tmp_path: Path) -> None:
    assert recorded(tmp_path, QUIET, QUIET, QUIET, QUIET, QUIET).note == ""


def test_the_load_stands_beside_what_was_left_out(tmp_path: Path) -> None:
    row = recorded(tmp_path, BUSY, QUIET, BUSY, QUIET, QUIET, rates=[*RATES, 800.0])
    assert (row.note, row.load) == (f"{NOTE}; left out as slow runs: 800 images/s", NOTE)


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.REGRESSED])
def test_a_message_repeats_it(outcome: Outcome) -> None:
    judged = measurement(verdict=verdict(outcome, baseline=baseline(1000.0, note=NOTE)))
    assert any(line.text.endswith(f"; {NOTE}") for line in message(judged) if line.label == "baseline")


def said(*rows: Baseline) -> list[str]:
    return list(recorded_under_load([BaselineUpdate(None, row) for row in rows]))


def test_a_session_that_recorded_such_rows_says_so() -> None:
    assert said(baseline(1000.0, note=NOTE)) == [
        f"row of {KEY.workload} on {KEY.topology}: {NOTE}. It may be too low: record again on a quiet machine"
    ]


def test_of_many_such_rows_the_first_are_named() -> None:
    keys = [KEY._replace(workload=f"program-{number}") for number in range(7)]
    (line,) = said(*(baseline(1.0, key=key, note=NOTE) for key in keys))
    assert line.startswith(f"rows of program-0 on {KEY.topology}, program-1 on")
    assert f"program-4 on {KEY.topology}, 2 more: {NOTE}. They may be too low" in line


LOSS = Verdict(figure=Figure("loss"), value=2.3)


def test_the_row_of_a_figure_tells_the_load_and_no_throughputs_that_were_left_out(tmp_path: Path) -> None:
    runs = tuple(run_at(1000.0, figures={"loss": 2.3}) for _ in range(6))
    recorder = BaselineRecorder(BaselineStore(tmp_path, published=None))
    recorder.record(measurement(throughput(*RATES, 800.0), runs=runs, figures=(LOSS,)), NOTE)
    assert [change.new.note for change in recorder.changes if change.new.key.figure] == [NOTE]


def test_the_lines_of_a_figure_repeat_it() -> None:
    row = baseline(2.3, key=KEY._replace(figure="loss"), unit="", note=NOTE)
    judged = replace(LOSS, outcome=Outcome.REGRESSED, baseline=row, change=0.3, threshold=0.115)
    lines = lines_about(measurement(figures=(judged,)), judged)
    assert [line.text for line in lines if line.label == "baseline"] == [f"measured, 5 runs; {NOTE}"]


def test_rows_of_figures_are_not_counted_with_those_of_throughputs() -> None:
    rows = [baseline(1000.0, note=NOTE), baseline(2.3, key=KEY._replace(figure="loss"), unit="", note=NOTE)]
    (line,) = said(*rows)
    assert line.startswith("row of ")
