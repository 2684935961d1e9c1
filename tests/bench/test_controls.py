"""The controls beside a recording of few rows, with workers that play a script."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pytest_tfperf.bench.recording import BaselineRecorder, ControlledRecording, Controls
from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.figure import FIRST_STEP, PEAK_MEMORY, Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Verdict
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.session_effects import MIN_TESTS
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.measurements import baseline, measurement, run_at, throughput
from tests.helpers.played import BOX, BUSY, PLAN, TRIVIAL, Notes, PlayedGuard, PlayedLauncher, steady
from tests.helpers.played_session import PlayedSession

RUNS = 5
OTHERS = [TRIVIAL.with_(batch_size=size) for size in (8, 16, 32, 64)]
ROWS = {
    Key(one.id, BOX.shape): baseline(100.0, key=Key(one.id, BOX.shape), between_runs=0.001 * (1 + number))
    for number, one in enumerate(OTHERS)
}


class Recording:
    """One test that is recorded at 50 images/s, and the controls beside it, whose rows have 100.

    Args:
        launcher: gives the runs, the controls' and the test's in the order in which they are taken.
        disturbances: of all runs, in order.
        rows: the machine's.
        tests: how many the session selects.
    """

    def __init__(
        self,
        launcher: PlayedLauncher,
        *disturbances: Disturbance | None,
        rows: dict[Key, Baseline] = ROWS,
        tests: int = 1,
        recorded: int = 1,
    ) -> None:
        session, engine = PlayedSession(row=None), RunEngine(Notes(), PlayedGuard(list(disturbances)))
        self.launcher = launcher
        self.controls = Controls(engine, lambda _: rows, lambda _: tests, PLAN)
        tasks = [session.task(launcher, batch_size=size, test=f"a.py::test[{size}]") for size in range(1, recorded + 1)]
        self.measured: list[Measurement | None] = [None] * recorded
        for _ in range(RUNS):
            for number, task in enumerate(tasks):
                earlier = self.measured[number]
                self.controls.before_run(task, len(earlier.runs) if earlier else 0)
                self.measured[number] = session.bench.record(task, earlier)
        self.found = dict(self.controls.after_last_run())

    @property
    def ran(self) -> list[str]:
        """The batch sizes of all runs, in order; 1 is the recorded test."""
        return [str(job.workload.batch_size) for job in self.launcher.jobs]


def test_three_controls_run_before_each_round_and_after_the_last() -> None:
    beside = ["8", "16", "32"]
    assert Recording(steady(50.0)).ran == [*[*beside, "1"] * RUNS, *beside]


def test_a_round_of_several_tests_has_its_controls_once() -> None:
    beside = ["8", "16", "32"]
    assert Recording(steady(50.0), tests=2, recorded=2).ran == [*[*beside, "1", "2"] * RUNS, *beside]


LOST = [80.0, 90.0, 95.0, 50.0] * RUNS
MANY = ROWS | {
    Key(f"program-{number}", "1x1"): baseline(1.0, key=Key(f"program-{number}", "1x1")) for number in range(MIN_TESTS)
}


def test_the_new_rows_are_corrected_by_what_the_controls_lost() -> None:
    found = Recording(steady(*LOST, 90.0), rows=MANY).found["box"]
    assert found.correction == pytest.approx(0.10536, abs=1e-4)  # ln(100 / 90)
    assert found.others == len(MANY)
    assert (found.runs, len(found.controls), found.note) == (18, 3, "corrected by +11.1 % by 18 runs of controls")


def test_where_rows_are_too_few_for_a_common_drift_no_more_than_sessions_differ_is_corrected() -> None:
    found = Recording(steady(*LOST, 90.0)).found["box"]
    assert (found.correction, found.note) == (0.0, "not corrected, although controls changed by -10.0 %")
    assert Recording(steady(96.0)).found["box"].note == "corrected by +4.2 % by 18 runs of controls"


@pytest.mark.parametrize("tests", [MIN_TESTS, MIN_TESTS + 1])
def test_a_recording_of_many_tests_takes_none(tests: int) -> None:
    recording = Recording(steady(50.0), tests=tests)
    assert (recording.found, recording.launcher.started) == ({}, RUNS)


def test_one_test_that_records_many_rows_takes_none_once_they_are_known() -> None:
    recording = Recording(steady(50.0), recorded=MIN_TESTS)
    assert (recording.found, recording.launcher.started) == ({}, 3 + RUNS * MIN_TESTS)


def test_a_row_that_is_recorded_too_is_no_control() -> None:
    rows = {**ROWS, Key(TRIVIAL.with_(batch_size=2).id, BOX.shape): baseline(1.0, between_runs=0.0001)}
    rows = {key: baseline(row.value, key=key, between_runs=row.between_runs) for key, row in rows.items()}
    recording = Recording(steady(100.0), rows=rows, tests=2, recorded=2)
    found = recording.found["box"]
    assert recording.ran[:3] == ["2", "8", "16"]
    assert (found.correction, [name.split("-")[1] for name in found.controls]) == (0.0, ["b8", "b16", "b32"])


def test_a_control_that_fails_is_replaced_in_the_next_round() -> None:
    recording = Recording(steady(MeasurementError("no such model"), 100.0))
    assert recording.ran == ["8", "16", "32", "1", *["16", "32", "64", "1"] * (RUNS - 1), "16", "32", "64"]
    (failed,) = recording.found["box"].failures.items()
    assert (failed[0], failed[1].endswith("no such model")) == (OTHERS[0].id, True)


def test_a_disturbed_run_of_a_control_does_not_count() -> None:
    recording = Recording(steady(10.0, 100.0), BUSY)
    assert (recording.found["box"].correction, recording.found["box"].runs) == (0.0, 17)


def test_where_no_control_runs_the_recording_is_as_it_would_be() -> None:
    recording = Recording(steady(50.0), rows={})
    (found,) = recording.found.values()
    assert (recording.ran, found.correction, found.note) == (["1"] * RUNS, 0.0, "recorded without controls")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"key": Key("my-program", BOX.shape)}, "a program, whose command is not known"),
        ({"key": Key(OTHERS[0].id, "1x2")}, "on another number of devices"),
        ({"key": Key(OTHERS[0].id, BOX.shape), "between_runs": None}, "of one run"),
        ({"key": Key(OTHERS[0].id, BOX.shape), "gpu": "Tesla P100"}, "of other devices"),
        ({"key": Key(OTHERS[0].id, BOX.shape), "unit": "tokens"}, "in another unit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_row_is_no_control_that_is(row: dict[str, object], why: str) -> None:
    only = baseline(100.0, **row)
    assert Recording(steady(50.0), rows={only.key: only}).found["box"].runs == 0, why


# What is written

FOUND = ControlledRecording(
    change=-math.log(1.1), correction=math.log(1.1), controls=["a", "b", "c"], runs=18, others=3, failures={}
)
NONE = ControlledRecording(change=0.0, correction=0.0, controls=[], runs=0, others=0, failures={})
TIME, MEMORY = Figure(FIRST_STEP), Figure(PEAK_MEMORY)


@pytest.fixture
def recorder(tmp_path: Path) -> BaselineRecorder:
    """After the recording of one test, with its first step and its memory, without a run of a control so far."""
    made = BaselineRecorder(BaselineStore(tmp_path, published=None))
    runs = tuple(run_at(1000.0, figures={FIRST_STEP: 2.0, PEAK_MEMORY: 8e9}) for _ in range(RUNS))
    figures = tuple(Verdict(figure=figure, value=1.0) for figure in (TIME, MEMORY))
    made.record(measurement(throughput(*[1000.0] * RUNS), runs=runs, figures=figures), "recorded under load: a", NONE)
    return made


def test_a_session_that_is_killed_leaves_rows_that_say_what_they_lack(recorder: BaselineRecorder) -> None:
    assert {one.new.note for one in recorder.changes} == {"recorded under load: a; recorded without controls"}


def test_corrected_is_what_goes_with_the_machines_speed(recorder: BaselineRecorder, tmp_path: Path) -> None:
    recorder.correct("box", FOUND)
    store = BaselineStore(tmp_path, published=None)
    rows = [*store.load("box").values(), *store.figures("box").values()]
    assert {row.key.figure: row.value for row in rows} == pytest.approx(
        {"": 1100.0, FIRST_STEP: 2.0 / 1.1, PEAK_MEMORY: 8e9}, rel=1e-5
    )
    note = "recorded under load: a; corrected by +10.0 % by 18 runs of controls"
    assert ({row.note for row in rows}, rows[0].load) == ({note}, "recorded under load: a")


def test_a_corrected_row_is_still_one_change_of_what_was_there_before(recorder: BaselineRecorder) -> None:
    before = [(one.old, one.new.key) for one in recorder.changes]
    recorder.correct("box", FOUND)
    assert [(one.old, one.new.key) for one in recorder.changes] == before
    assert before[0][0] is None


def test_another_machines_rows_are_not_corrected(recorder: BaselineRecorder) -> None:
    before = list(recorder.changes)
    recorder.correct("another", FOUND)
    assert recorder.changes == before
