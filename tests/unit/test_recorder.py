"""What is kept of a measurement that was given up, and where nothing is to be kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from measurements import WORKLOAD, attempt, record

from pytest_tfperf.bench.one_run import Spoilt
from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.run import Trial
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.settings import Settings
from pytest_tfperf.stores import trial_file
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.recorder import Recorder, Taking
from pytest_tfperf.stores.recording import Recording

TOPOLOGY = Topology(
    host=Host(cpu_model="a CPU", usable_cores=1, total_cores=1),
    devices=Devices(kind=DeviceKind.CPU, count=1),
    machine_name="box",
)
TAKING = Taking(test="a.py::test", place=0, workload=WORKLOAD, topology=TOPOLOGY, plan=Plan(), tolerance=None)
BUSY = attempt([0.2], disturbance="others used 90 %", environment={"tensorflow": "2.21.0"})


def recorder(folder: Path, **settings: object) -> Recorder:
    asked = Settings(**{"save_trials": folder / "trials"} | settings)  # type: ignore[arg-type]
    return Recorder(asked, BaselineStore(folder, published=None), lambda: 7, lambda _: ())


def kept(folder: Path) -> list[Recording]:
    return [trial_file.read(path) for path in (folder / "trials").glob("*.json")]


def spoilt(topology: Topology = TOPOLOGY) -> Spoilt:
    return Spoilt(WORKLOAD, topology, "others used 90 %", "(and so on)", [BUSY, BUSY])


def test_what_was_given_up_is_kept_with_its_reason(tmp_path: Path) -> None:
    recorder(tmp_path).keep_spoilt(spoilt(), None, TAKING)
    (found,) = kept(tmp_path)
    assert (found.invalid, found.trial, found.tests) == ("others used 90 %", Trial((), (BUSY, BUSY)), 7)


def test_runs_before_it_are_kept_too(tmp_path: Path) -> None:
    good = attempt([0.1])
    earlier = record(trial=Trial((BUSY, good)))
    recorder(tmp_path).keep_spoilt(spoilt(), earlier, TAKING)
    (found,) = kept(tmp_path)
    assert found.trial == Trial((good,), (BUSY, BUSY, BUSY))


def test_a_controls_runs_are_no_runs_of_the_test(tmp_path: Path) -> None:
    control = spoilt(replace(TOPOLOGY, machine_name="control"))
    recorder(tmp_path).keep_spoilt(control, record(trial=Trial((attempt([0.1]),))), TAKING)
    (found,) = kept(tmp_path)
    assert found.trial.set_aside == ()


def test_a_loss_on_purpose_is_told_of_what_was_given_up(tmp_path: Path) -> None:
    recorder(tmp_path, inject_slowdown=0.4).keep_spoilt(spoilt(), None, TAKING)
    assert kept(tmp_path)[0].environment == {"tensorflow": "2.21.0", "injected_slowdown": "0.4"}


def test_a_folder_that_can_not_be_written_any_more_costs_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "trials").touch()
    made = recorder(tmp_path)
    made.keep(record(), TAKING)
    assert str(tmp_path / "trials") in made.not_kept


def test_nothing_is_kept_where_nobody_asks(tmp_path: Path) -> None:
    silent = recorder(tmp_path, save_trials=None)
    silent.prepare()
    silent.keep(record(), TAKING)
    silent.keep_spoilt(spoilt(), None, TAKING)
    assert list(tmp_path.iterdir()) == []
