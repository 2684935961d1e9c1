"""The bench, with workers that are played: what it keeps of a night, what it takes again, what it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from machines import load
from measurements import baseline, record, throughput
from workers import Played

from pytest_tfperf.bench import bench as measure
from pytest_tfperf.bench import disturbance as guard
from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.one_run import TRIES, Spoilt
from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineError, MeasurementError
from pytest_tfperf.hardware import sampler
from pytest_tfperf.hardware.nvml import NvmlError
from pytest_tfperf.judging.common_drift import LEAST_TESTS
from pytest_tfperf.reports.live import LiveLine
from pytest_tfperf.settings import Settings, Update
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.workers.launcher import Job, Progress

WORKLOAD = Workload(model="trivial", batch_size=1)
BOX = Topology(
    host=Host(cpu_model="a CPU", usable_cores=1, total_cores=1),
    devices=Devices(kind=DeviceKind.CPU, count=1),
    machine_name="box",
)
OTHER = BOX.named("other")
KEY = Key(WORKLOAD.id, BOX.shape)
PLAN = Plan(steps=40, warmup_steps=1)


@dataclass
class PlayedLauncher:
    """Its workers give these images/s, or die so, one after the other; all after the last are like it."""

    script: tuple[float | Exception, ...]
    started: int = 0

    def start(self, job: Job, progress: Progress) -> Played:
        self.started += 1
        now = self.script[min(self.started, len(self.script)) - 1]
        if isinstance(now, Exception):
            raise now
        return Played(now)

    def close(self) -> None:
        pass


def steady(*script: float | Exception) -> PlayedLauncher:
    return PlayedLauncher(script)


def bench(
    folder: Path, launcher: PlayedLauncher, *, tests: int = 1, history: Path | None = None, **settings: Any
) -> Bench:
    return Bench(
        launcher=launcher,
        baselines=BaselineStore(folder / "baselines", published=None),
        history=History(history or folder / "history.sqlite"),
        settings=Settings(**{"root": folder, "busy": 1.0, "swap": math.inf} | settings),
        watch=LiveLine(),
        tests=tests,
        look=lambda: None,
    )


def expect(folder: Path, images_per_sec: float = 100.0, machine: str = "box", **more: Any) -> None:
    """A row of the machine."""
    row = baseline(images_per_sec, machine=machine, key=KEY, **more)
    BaselineStore(folder / "baselines", published=None).update(machine, {KEY: row})


def decided(made: Bench) -> Measurement:
    """As the session does: until it is."""
    found = made.check(WORKLOAD, BOX, PLAN, test="a.py::test")
    while found.undecided:
        found = made.check(WORKLOAD, BOX, PLAN, test="a.py::test", earlier=found)
    return found


def outcomes(folder: Path) -> list[str]:
    """Of the history's records."""
    return list(History(folder / "history.sqlite").frame()["outcome"])


@pytest.fixture
def disturbances(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What disturbs the next workers, one after the other; nothing disturbs those after them."""
    left: list[str] = []
    monkeypatch.setattr(guard, "disturbance", lambda samples, limits: left.pop(0) if left else "")
    return left


# Each machine has its own night


def test_what_the_tests_have_in_common_is_told_for_each_machine(tmp_path: Path) -> None:
    expect(tmp_path, 100.0, "box")
    expect(tmp_path, 104.0, "other")
    made = bench(tmp_path, steady(102.0), tests=2 * LEAST_TESTS)
    for i in range(LEAST_TESTS):
        for machine in (BOX, OTHER):
            made.check(WORKLOAD, machine, PLAN, test=f"a.py::test[{i}]")
    assert {machine: shift.common for machine, shift in made.shifts.items()} == pytest.approx(
        {"box": math.log(102 / 100), "other": math.log(102 / 104)}
    )


def test_one_machines_tests_tell_nothing_of_another(tmp_path: Path) -> None:
    expect(tmp_path, 100.0, "box")
    expect(tmp_path, 100.0, "other")
    made = bench(tmp_path, steady(100.0), tests=2 * LEAST_TESTS)
    for i in range(LEAST_TESTS):
        made.check(WORKLOAD, BOX, PLAN, test=f"a.py::test[{i}]")
    verdict = made.check(WORKLOAD, OTHER, PLAN, test="a.py::other").verdict
    assert verdict is not None
    assert verdict.waits


@pytest.mark.usefixtures("disturbances")
@pytest.mark.parametrize(("machine", "workers"), [(BOX, 4), (OTHER, 3)], ids=["same", "another"])
def test_only_a_test_of_the_same_machine_is_a_control(tmp_path: Path, machine: Topology, workers: int) -> None:
    expect(tmp_path, 100.0, "box")
    expect(tmp_path, 100.0, "other")
    launcher = steady(100.0, 80.0, 80.0, 100.0)
    made = bench(tmp_path, launcher, busy=0.25)
    made.check(WORKLOAD, BOX, PLAN, test="a.py::good")
    first = made.check(WORKLOAD, machine, PLAN, test="a.py::slow")
    made.check(WORKLOAD, machine, PLAN, test="a.py::slow", earlier=first)
    assert launcher.started == workers


# Who shares the night's false alarms


def one_of_five(folder: Path) -> tuple[Bench, Measurement]:
    """Of five tests that were selected one has a baseline and is slow, one has none, and three never came to run."""
    expect(folder)
    made = bench(folder, steady(80.0), tests=5)
    made.check(WORKLOAD.with_(batch_size=2), BOX, PLAN, test="a.py::unknown")
    return made, made.check(WORKLOAD, BOX, PLAN, test="a.py::slow")


def test_until_all_have_run_the_selected_tests_share_the_false_alarms(tmp_path: Path) -> None:
    made, _ = one_of_five(tmp_path)
    assert made.sharing == 5


def test_once_all_have_run_those_that_were_judged_share_them(tmp_path: Path) -> None:
    made, first = one_of_five(tmp_path)
    made.check(WORKLOAD, BOX, PLAN, test="a.py::slow", earlier=first)
    assert made.sharing == 1


def test_tests_that_came_to_nothing_widen_no_threshold(tmp_path: Path) -> None:
    found = []
    for tests in (1, 1000):
        expect(tmp_path / str(tests))
        verdict = decided(bench(tmp_path / str(tests), steady(90.0), tests=tests)).verdict
        found.append(verdict and verdict.threshold)
    assert found[0] == found[1]


# What the history gets


def without_history(folder: Path) -> Bench:
    """Nothing can be written where its file should be."""
    (folder / "file").touch()
    expect(folder)
    return bench(folder, steady(100.0), history=folder / "file" / "history.sqlite")


def test_a_history_that_can_not_be_written_leaves_the_verdict(tmp_path: Path) -> None:
    verdict = decided(without_history(tmp_path)).verdict
    assert verdict is not None
    assert verdict.outcome is Outcome.PASS


def test_a_history_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    made = without_history(tmp_path)
    decided(made)
    assert "the history can't be used" in made.not_kept


def test_a_history_that_broke_meanwhile_leaves_the_verdict(tmp_path: Path) -> None:
    expect(tmp_path)
    (tmp_path / "history.sqlite").write_text("no history\n" * 1000)
    made = bench(tmp_path, steady(100.0))
    verdict = decided(made).verdict
    assert verdict is not None
    assert (verdict.outcome, "the history can't be used" in made.not_kept) == (Outcome.PASS, True)


def test_of_a_whole_history_nothing_is_told(tmp_path: Path) -> None:
    expect(tmp_path)
    made = bench(tmp_path, steady(100.0))
    decided(made)
    assert (made.not_kept, outcomes(tmp_path)) == ("", ["PASS"])


def test_the_runs_before_a_worker_that_died_are_kept(tmp_path: Path) -> None:
    expect(tmp_path)
    made = bench(tmp_path, steady(80.0, MeasurementError("the worker died")))
    with pytest.raises(MeasurementError, match="the worker died"):
        decided(made)
    assert outcomes(tmp_path) == ["INCONCLUSIVE"]


def test_a_worker_that_died_is_told_with_its_workload_and_devices(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError) as caught:
        decided(bench(tmp_path, steady(MeasurementError("the worker died"))))
    assert str(caught.value) == f"{WORKLOAD.id} on {BOX.describe()}: the worker died"


def test_a_workload_that_an_error_names_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError) as caught:
        decided(bench(tmp_path, steady(MeasurementError(f"{WORKLOAD.id}: nccl needs GPUs"))))
    assert str(caught.value) == f"{WORKLOAD.id} on {BOX.describe()}: nccl needs GPUs"


def test_the_runs_before_one_that_was_never_undisturbed_are_kept(tmp_path: Path, disturbances: list[str]) -> None:
    expect(tmp_path)
    disturbances += ["", *["others used 90 %"] * TRIES]
    with pytest.raises(Spoilt):
        decided(bench(tmp_path, steady(80.0)))
    assert outcomes(tmp_path) == ["INCONCLUSIVE"]


# What is only measured


def test_a_disturbed_run_is_taken_again(tmp_path: Path, disturbances: list[str]) -> None:
    disturbances += ["others used 90 %"]
    trial = bench(tmp_path, steady(100.0)).measure(WORKLOAD, BOX, PLAN).trial
    assert ([a.disturbance for a in trial.attempts], [a.disturbance for a in trial.set_aside]) == (
        [""],
        ["others used 90 %"],
    )


def test_a_machine_that_is_never_quiet_measures_nothing(tmp_path: Path, disturbances: list[str]) -> None:
    disturbances += ["others used 90 %"] * TRIES
    launcher = steady(100.0)
    with pytest.raises(Spoilt, match=r"INVALID: others used 90 %.*Free the machine"):
        bench(tmp_path, launcher).measure(WORKLOAD, BOX, PLAN)
    assert launcher.started == TRIES


def test_a_machine_that_stays_busy_gives_later_tests_one_try(
    tmp_path: Path, disturbances: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "MOST_SECONDS_IN_VAIN", 1e-9)
    disturbances += ["others used 90 %"] * (TRIES + 1)
    launcher = steady(100.0)
    made = bench(tmp_path, launcher)
    with pytest.raises(Spoilt, match="in each of 3 fresh workers"):
        made.measure(WORKLOAD, BOX, PLAN)
    with pytest.raises(Spoilt, match=r"the tests before it spent .* on such tries"):
        made.measure(WORKLOAD, BOX, PLAN)
    assert launcher.started == TRIES + 1


def test_a_machine_that_recovers_measures_again_at_the_first_try(
    tmp_path: Path, disturbances: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "MOST_SECONDS_IN_VAIN", 1e-9)
    disturbances += ["others used 90 %"] * TRIES
    made = bench(tmp_path, steady(100.0))
    with pytest.raises(Spoilt):
        made.measure(WORKLOAD, BOX, PLAN)
    assert made.measure(WORKLOAD, BOX, PLAN).throughput.windows


def test_a_record_names_its_gpus_and_their_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "session", _no_driver)
    found = bench(tmp_path, steady(100.0)).measure(WORKLOAD, load("h200").take(1), PLAN)
    assert (found.gpu, found.gpu_fp32_tflops) == ("NVIDIA H200", pytest.approx(66.9, abs=0.1))


def test_what_is_below_a_floor_needs_no_second_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "session", _no_driver)
    on = load("h200").take(1)
    floor = baseline(100.0, machine="paper", key=Key(WORKLOAD.id, on.shape), provenance=Provenance.PUBLISHED)
    weaker = replace(floor, gpu="Tesla P100", gpu_fp32_tflops=10.6)
    BaselineStore(tmp_path / "baselines", published=None).update("paper", {weaker.key: weaker})
    made = bench(tmp_path, steady(50.0), hold=True)
    found = made.check(WORKLOAD, on, PLAN)
    while found.undecided:
        found = made.check(WORKLOAD, on, PLAN, earlier=found)
    assert found.verdict is not None
    assert (found.verdict.floor, found.verdict.outcome) == (True, Outcome.REGRESSED)


def _no_driver() -> NoReturn:
    raise NvmlError("no driver")


# Recording


def recorded(folder: Path) -> Baseline:
    """The row that five new runs make."""
    runs = throughput(100.0, 101.0, 99.0, 100.5, 99.5)
    return bench(folder, steady(100.0)).save(record(runs, workload=WORKLOAD, topology=BOX.shape)).new


def test_a_row_that_is_recorded_anew_keeps_the_tolerance_that_someone_wrote(tmp_path: Path) -> None:
    expect(tmp_path, lower=-0.1, upper=0.3)
    row = recorded(tmp_path)
    assert (row.lower, row.upper) == (-0.1, 0.3)


def test_a_documents_tolerance_does_not_become_a_measured_rows(tmp_path: Path) -> None:
    expect(tmp_path, lower=-0.1, upper=0.3, provenance=Provenance.PUBLISHED, source="a document")
    row = recorded(tmp_path)
    assert (row.lower, row.upper) == (None, None)


@pytest.mark.parametrize("update", [None, Update.ALL], ids=["checking", "recording"])
def test_a_row_of_gpus_is_refused_before_cpus_are_measured(tmp_path: Path, update: Update | None) -> None:
    expect(tmp_path, gpu="Tesla P100")
    launcher = steady(100.0)
    with pytest.raises(BaselineError, match="was measured on Tesla P100, and this test runs on CPUs"):
        bench(tmp_path, launcher, update_baselines=update).check(WORKLOAD, BOX, PLAN)
    assert launcher.started == 0
