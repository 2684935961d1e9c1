"""What the session knows of its tests and its machine, before and after they run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machines import load
from measurements import baseline, comparison, record

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.errors import BaselineError, NotEnoughDevices, TfperfError
from pytest_tfperf.reports.live import LiveLine
from pytest_tfperf.session import Session
from pytest_tfperf.settings import Settings, Update
from pytest_tfperf.stores.baselines import BaselineStore

MARKS = {"for_cpus": (True, False), "for_gpus": (False, True), "for_both": (True, True), "unmarked": (False, False)}
NO_GPU = load("no-gpu")
SEVEN = "needs 8 equal GPUs, and this machine has 7"


def session(folder: Path, topology: Topology = NO_GPU, **settings: Any) -> Session:
    """Of the tests in `MARKS`."""
    given = {"root": folder, "dir": folder / "dir", "baselines": folder / "baselines"}
    made = Session(Settings(**given | settings), LiveLine())
    made.topology = topology  # else it asks the machine at hand
    made.tests, made.marks = list(MARKS), dict(MARKS)
    return made


# Which tests can run


def test_without_gpus_tests_for_gpus_alone_are_left_out(tmp_path: Path) -> None:
    assert session(tmp_path).runnable == ["for_cpus", "for_both", "unmarked"]


def test_with_gpus_every_test_can_run(tmp_path: Path) -> None:
    assert session(tmp_path, load("h200")).runnable == list(MARKS)


def test_only_what_can_run_is_announced(tmp_path: Path) -> None:
    assert ", 3 throughput tests, " in session(tmp_path).before()[0]


def test_only_what_can_run_shares_the_false_alarms(tmp_path: Path) -> None:
    assert session(tmp_path).bench.sharing == 3


# GPUs that are gone


def lost(folder: Path, *, name: str = "box", wanted: int = 8, **row: Any) -> str:
    """Said of a test that wants so many GPUs, where the named machine's file has a measured row of eight."""
    known: Baseline = baseline(**{"gpu": "Tesla P100"} | row)
    BaselineStore(folder / "baselines", published=None).update(known.machine, {known.key: known})
    return session(folder, machine=name).fault(NotEnoughDevices(SEVEN, wanted=wanted))


def test_gpus_that_a_named_machine_was_measured_on_are_missed(tmp_path: Path) -> None:
    assert lost(tmp_path) == f"{SEVEN}. Its baselines were measured on 8 GPUs: one is missing"


def test_gpus_of_a_driver_that_fails_are_missed(tmp_path: Path) -> None:
    broken = replace(NO_GPU, driver_fault=True)
    assert session(tmp_path, broken).fault(NotEnoughDevices(SEVEN, wanted=8)).startswith(f"{SEVEN}. A driver is")


def test_more_gpus_than_it_was_ever_measured_on_are_not_missed(tmp_path: Path) -> None:
    assert lost(tmp_path, wanted=16) == ""


def test_a_machine_without_a_name_misses_nothing(tmp_path: Path) -> None:
    """Its key counts its GPUs: with one less it is another machine."""
    assert lost(tmp_path, name="") == ""


def test_rows_of_as_many_virtual_cpu_devices_had_no_gpus(tmp_path: Path) -> None:
    assert lost(tmp_path, gpu="") == ""


def test_a_documents_rows_are_no_proof_of_gpus(tmp_path: Path) -> None:
    assert lost(tmp_path, provenance=Provenance.PUBLISHED, source="a document") == ""


def test_a_want_of_another_kind_is_no_loss(tmp_path: Path) -> None:
    assert lost(tmp_path, wanted=0) == ""


# Before and after


def test_a_history_that_can_not_be_used_is_found_out_before_the_first_test(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TfperfError, match="the history can't be used"):
        session(tmp_path, dir=tmp_path / "file").check()


def broken(folder: Path, machine: str, **settings: Any) -> Session:
    """Of `box`, where this machine's file is no file of baselines."""
    (folder / "baselines").mkdir()
    (folder / "baselines" / f"{machine}.csv").write_text("garbage\n")
    return session(folder, NO_GPU.named("box"), **settings)


OWN_IS_BROKEN = r"box\.csv, line 1: "


@pytest.mark.parametrize("settings", [{}, {"update_baselines": Update.ALL}, {"smoke": True}], ids=str)
def test_this_machines_broken_file_is_refused_before_the_first_test(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(BaselineError, match=OWN_IS_BROKEN):
        broken(tmp_path, "box", **settings).check()


def test_a_comparison_with_another_python_needs_no_baselines(tmp_path: Path) -> None:
    broken(tmp_path, "box", against=Path("python")).check()


def test_coverage_counts_every_row_and_refuses_a_file_that_is_broken(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=OWN_IS_BROKEN):
        broken(tmp_path, "box", coverage=True).prepare()


def test_another_machines_broken_file_is_told_once_before_the_first_test(tmp_path: Path) -> None:
    made = broken(tmp_path, "dgx2")
    made.check()
    (said,) = made.before()[1:]
    assert said.startswith(f"tfperf: passed over, as another machine's: {tmp_path}/baselines/dgx2.csv, line 1: ")


def test_what_could_not_be_measured_is_not_called_in_doubt(tmp_path: Path) -> None:
    made = session(tmp_path)
    doubtful = Verdict(outcome=Outcome.INCONCLUSIVE, baseline=baseline(), change=-0.13)
    made.deferred = {"for_cpus": [record(test="for_cpus", verdict=doubtful)]}
    made.not_measured = [("for_cpus", "the worker died")]
    assert made.summary(skips=False) == ["not measured: for_cpus: the worker died"]


def test_a_history_that_can_not_be_written_costs_no_comparison(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = session(tmp_path, dir=tmp_path / "file")
    made.keep(comparison())
    assert made.summary(skips=False)[-1].startswith("not in the history: ")


def test_a_smoke_runs_comparison_is_not_kept(tmp_path: Path) -> None:
    session(tmp_path, smoke=True).keep(comparison())
    assert not (tmp_path / "dir").exists()
