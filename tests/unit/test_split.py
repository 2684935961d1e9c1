"""After a regression: the same training on data that lies on the devices, which changes no verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from measurements import baseline
from workers import Played

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.reports.live import LiveLine
from pytest_tfperf.settings import Settings
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.workers.launcher import Job, Progress

WORKLOAD = Workload(model="trivial", batch_size=1, input_pipeline="host")
MACHINE = Topology(
    host=Host(cpu_model="a CPU", usable_cores=1, total_cores=1), devices=Devices(kind=DeviceKind.CPU, count=1)
)


@dataclass
class PlayedLauncher:
    """Its workers give 100 images/s from their pipeline, which is all that this gives, and 300 without it."""

    started: list[str] = field(default_factory=list)
    device_data_fails: bool = False

    def start(self, job: Job, progress: Progress) -> Played:
        self.started.append(job.workload.input_pipeline)
        if self.device_data_fails and job.workload.input_pipeline == "device":
            raise MeasurementError("the worker ran out of memory")
        if job.workload.input_pipeline == "device":
            return Played(300.0)
        return Played(100.0, parts=StepProfile(input=Input.FETCHED, pipeline_images_per_sec=101.0))

    def close(self) -> None:
        pass


def checked(folder: Path, launcher: PlayedLauncher, reference: float, workload: Workload = WORKLOAD) -> Measurement:
    """As the session does: until it is decided."""
    store = BaselineStore(folder / "baselines", published=None)
    key = Key(workload.id, MACHINE.shape)
    store.update(MACHINE.machine, {key: baseline(reference, machine=MACHINE.machine, key=key)})
    bench = Bench(
        launcher=launcher,
        baselines=store,
        history=History(folder / "history.sqlite"),
        settings=Settings(root=folder, busy=1.0, swap=math.inf),
        watch=LiveLine(),
        look=lambda: None,
    )
    plan = Plan(steps=40, warmup_steps=1)
    record = bench.check(workload, MACHINE, plan)
    while record.undecided:
        record = bench.check(workload, MACHINE, plan, earlier=record)
    return record


def device_data(record: Measurement) -> float | None:
    assert record.breakdown is not None
    return record.breakdown.device_data_images_per_sec


def test_a_regression_is_followed_by_one_run_on_device_data(tmp_path: Path) -> None:
    launcher = PlayedLauncher()
    found = checked(tmp_path, launcher, reference=200.0)
    assert launcher.started == ["host"] * len(found.trial.attempts) + ["device"]
    assert device_data(found) == pytest.approx(300)


def test_a_pass_is_followed_by_none(tmp_path: Path) -> None:
    launcher = PlayedLauncher()
    checked(tmp_path, launcher, reference=100.0)
    assert launcher.started == ["host"]


def test_a_regression_on_device_data_is_followed_by_none(tmp_path: Path) -> None:
    launcher = PlayedLauncher()
    found = checked(tmp_path, launcher, 1000.0, WORKLOAD.with_(input_pipeline="device"))
    assert len(launcher.started) == len(found.trial.attempts)


def test_a_split_that_fails_leaves_the_verdict_as_it_is(tmp_path: Path) -> None:
    found = checked(tmp_path, PlayedLauncher(device_data_fails=True), reference=200.0)
    assert found.verdict is not None
    assert (found.verdict.outcome, device_data(found)) == (Outcome.REGRESSED, None)
