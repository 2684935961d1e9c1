"""What a session finds out before its first test, and what it says after its last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.profile import Breakdown, Input, OpTime, Profile, Straggler
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.settings import Update
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import NOTHING, Outcome, Reason, Verdict, Want, Wants
from pytest_tfperf.errors import BaselineError, NoData, NotEnoughDevices, NotEnoughNodes, TfperfError, WorkloadError
from pytest_tfperf.session.expected_time import seconds_left
from pytest_tfperf.session.outcomes import missing_as_error
from pytest_tfperf.session.state import SessionState
from pytest_tfperf.session.summary import after, before
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.machines import load
from tests.helpers.measurements import (
    baseline,
    measurement,
    run_at,
    session_verdict,
    throughput,
    verdict,
)
from tests.helpers.states import selects, state_of

TESTS = [
    SelectedTest(id="for_cpus", cpu=True),
    SelectedTest(id="for_gpus", gpu=True),
    SelectedTest(id="for_both", cpu=True, gpu=True),
    SelectedTest(id="unmarked"),
    SelectedTest(id="reads_data", cpu=True, reads_data=True),
    SelectedTest(id="faulty", cpu=True, faults=(WorkloadError("batch_size=0"),)),
]
NO_GPU = load("no-gpu")
SEVEN = "needs 8 equal GPUs, and this machine has 7"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    is_found(monkeypatch, NO_GPU)


def is_found(monkeypatch: pytest.MonkeyPatch, topology: Topology) -> None:
    monkeypatch.setattr("pytest_tfperf.bench.session.discover", lambda **_: topology)


def session(folder: Path, **settings: Any) -> SessionState:
    return state_of(folder, TESTS, **settings)


# Which tests can run


@pytest.mark.parametrize(
    ("has_gpus", "has_data", "runnable"),
    [
        (False, False, ["for_cpus", "for_both", "unmarked"]),
        (True, False, ["for_cpus", "for_gpus", "for_both", "unmarked"]),
        (False, True, ["for_cpus", "for_both", "unmarked", "reads_data"]),
    ],
)
def test_tests_that_lack_gpus_or_data_or_are_faulty_are_left_out(
    has_gpus: bool, has_data: bool, runnable: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_found(monkeypatch, load("dgx1-p100") if has_gpus else NO_GPU)
    made = session(tmp_path, data_dir=tmp_path if has_data else None)
    assert [test.id for test in made.session.runnable] == runnable


CPUS, GPUS = {"cpu": True, "gpu": False}, {"cpu": False, "gpu": True}
BOTH, NEITHER = {"cpu": True, "gpu": True}, {"cpu": False, "gpu": False}
FAILING = replace(NO_GPU, driver_fault=True)


@pytest.mark.parametrize(
    ("marks", "machine", "on_cpus"),
    [
        (CPUS, load("dgx1-p100"), True),
        (CPUS, FAILING, True),
        *((marks, load("dgx1-p100"), False) for marks in (GPUS, BOTH, NEITHER)),
        (GPUS, NO_GPU, False),
        *((marks, NO_GPU, True) for marks in (BOTH, NEITHER)),
        *((marks, FAILING, False) for marks in (BOTH, NEITHER)),
    ],
    ids=[
        *("cpu beside GPUs", "cpu beside a driver that fails"),
        *(f"{marks} beside GPUs" for marks in ("gpu", "both", "neither")),
        *("gpu without a GPU", "both without a GPU", "neither without a GPU"),
        *(f"{marks} beside a driver that fails" for marks in ("both", "neither")),
    ],
)
def test_the_marks_decide_between_cpus_and_gpus_and_without_one_the_machine_does(
    marks: dict[str, bool], machine: Topology, on_cpus: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_found(monkeypatch, machine)
    assert session(tmp_path).session.topology_for(**marks).on_cpus == on_cpus


# When a skip is an error


def in_place_of(made: SessionState, error: NoData | NotEnoughDevices) -> str:
    """The text of the error in a skip's place; "" if the test may skip."""
    found = missing_as_error(made, error)
    return "" if found is None else str(found)


def missing(folder: Path, *, name: str = "box", wanted: int = 8, **row: Any) -> str:
    """What is said of a test that wants so many GPUs, where the named machine's file has a measured row of eight."""
    known: Baseline = baseline(**{"gpu": "Tesla P100"} | row)
    BaselineStore(folder / "baselines", published=None).update(known.machine, {known.key: known})
    return in_place_of(session(folder, machine=name), NotEnoughDevices(SEVEN, wanted=wanted))


def test_gpus_that_a_named_machine_was_measured_on_are_missing(tmp_path: Path) -> None:
    assert missing(tmp_path) == f"{SEVEN}. Its baselines were measured on 8 GPUs: one is missing"


def test_gpus_of_a_driver_that_fails_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_found(monkeypatch, replace(NO_GPU, driver_fault=True))
    assert in_place_of(session(tmp_path), NotEnoughDevices(SEVEN, wanted=8)).startswith(f"{SEVEN}. A driver is")


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({"wanted": 16}, id="more than it ever had"),
        pytest.param({"name": ""}, id="a machine without a name: with one GPU less it is another machine"),
        pytest.param({"gpu": ""}, id="rows of virtual CPU devices"),
        pytest.param({"provenance": Provenance.PUBLISHED, "source": "a document"}, id="a document's rows"),
        pytest.param({"wanted": 0}, id="something else is missing"),
    ],
)
def test_other_tests_that_lack_gpus_may_skip(tmp_path: Path, known: dict[str, Any]) -> None:
    assert missing(tmp_path, **known) == ""


@pytest.mark.parametrize(("launcher", "said"), [("local", ""), ("external --nodes=2", "needs 3 nodes")])
def test_missing_nodes_are_an_error_where_a_launcher_was_named(tmp_path: Path, launcher: str, said: str) -> None:
    assert in_place_of(session(tmp_path, launcher=launcher), NotEnoughNodes("needs 3 nodes")) == said


def test_missing_data_is_an_error(tmp_path: Path) -> None:
    assert in_place_of(session(tmp_path), NoData("no data")) == "no data"


# How long it takes


def timed(folder: Path, **settings: Any) -> SessionState:
    """A session of three tests, of which the history knows one: 10 s."""
    made = session(folder, machine="box", **settings)
    made.session.history.append(measurement(test="for_cpus", session="yesterday", seconds=10.0))
    return made


def announced(made: SessionState) -> str:
    return before(made)[0].partition("tests, ")[2]


def test_a_first_session_is_guessed(tmp_path: Path) -> None:
    assert announced(session(tmp_path)) == "3 s to 6 min (3 never timed here)"


def test_a_first_recording_is_guessed(tmp_path: Path) -> None:
    made = session(tmp_path, update_baselines=Update.ALL)
    assert announced(made) == "15 s to 30 min (3 never timed here), up to 1 h 0 min if runs differ"


def test_while_a_test_is_left_that_was_never_timed_no_time_is_announced(tmp_path: Path) -> None:
    made, known = session(tmp_path / "new"), timed(tmp_path / "known")
    assert (seconds_left(made), seconds_left(known)) == (None, None)
    selects(known, TESTS[:1])
    assert seconds_left(known) == (10.0, 30.0)


def test_tests_that_were_never_timed_make_the_time_a_range(tmp_path: Path) -> None:
    assert announced(timed(tmp_path)) == "13 s to 5 min (2 never timed here)"


def test_likely_confirmations_are_added_to_what_is_known(tmp_path: Path) -> None:
    made = timed(tmp_path)
    selects(made, TESTS[:1])
    assert before(made)[0].partition("test, ")[2] == "about 11 s, up to 31 s if a test is in doubt"


def test_a_file_of_baselines_that_cannot_be_read_changes_no_estimate(tmp_path: Path) -> None:
    made = timed(tmp_path)
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "box.csv").write_text("<<<<<<< HEAD\n")
    assert announced(made) == announced(timed(tmp_path / "other"))


def test_recording_takes_five_runs_of_each(tmp_path: Path) -> None:
    assert (
        announced(timed(tmp_path, update_baselines=Update.ALL))
        == "1 min to 21 min (2 never timed here), up to 42 min if runs differ"
    )


def test_without_a_baseline_the_nightly_gate_has_no_doubts(tmp_path: Path) -> None:
    assert "up to" not in announced(timed(tmp_path, require_baseline=True))


def test_a_doubt_against_a_recorded_row_takes_eight_runs(tmp_path: Path) -> None:
    made = timed(tmp_path)
    key = Key("trivial-b1-replicated-device", "1x1")
    made.session.baselines.update("box", {key: Baseline(machine="box", key=key, value=1.0)})
    selects(made, TESTS[:1])
    assert before(made)[0].endswith("up to 2 min if a test is in doubt")  # 11 s, and seven further runs of 10 s


def test_what_is_left_shrinks_with_each_test_that_is_done(tmp_path: Path) -> None:
    made = timed(tmp_path, require_baseline=True)  # no test can be in doubt
    tests = "for_cpus", "for_both", "unmarked"
    for test in tests[1:]:
        made.session.history.append(measurement(test=test, session="yesterday", seconds=10.0))
    left = [seconds_left(made)]
    for test in tests:
        made.queue.begin(test)
        made.queue.keep(test, 0, measurement(test=test, seconds=10.0))
        left.append(seconds_left(made))
    assert left == [(30.0, 30.0), (20.0, 20.0), (10.0, 10.0), (0.0, 0.0)]


def test_a_test_of_a_function_that_was_timed_takes_half_to_twice_as_long(tmp_path: Path) -> None:
    made = session(tmp_path, machine="box", require_baseline=True)
    selects(made, [replace(TESTS[0], id=f"t.py::f[{number}]") for number in (1, 2)])
    made.session.history.append(measurement(test="t.py::f[1]", session="yesterday", seconds=10.0))
    assert seconds_left(made) == (15.0, 30.0)


def test_a_test_in_doubt_has_its_least_and_its_most_further_runs_left(tmp_path: Path) -> None:
    made = timed(tmp_path)
    selects(made, TESTS[:1])
    key = Key("trivial-b1-replicated-device", "1x1")
    made.session.baselines.update("box", {key: Baseline(machine="box", key=key, value=1.0)})
    made.queue.begin("for_cpus")
    made.queue.keep(
        "for_cpus", 0, measurement(seconds=10.0, verdict=verdict(Outcome.INCONCLUSIVE, wants=Wants(Want.RUNS, 3)))
    )
    assert seconds_left(made) == (20.0, 70.0)


def test_a_test_that_measured_nothing_has_no_time_left(tmp_path: Path) -> None:
    made = timed(tmp_path)
    for test in ("for_cpus", "for_both", "unmarked"):
        made.queue.begin(test)
    assert seconds_left(made) == (0.0, 0.0)


# Files


def with_broken_file(folder: Path, machine: str, **settings: Any) -> SessionState:
    """A session of the machine "box", where `machine`'s file is no file of baselines."""
    (folder / "baselines").mkdir()
    (folder / "baselines" / f"{machine}.csv").write_text("garbage\n")
    return session(folder, machine="box", **settings)


@pytest.mark.parametrize("settings", [{}, {"update_baselines": Update.ALL}, {"smoke": True}], ids=str)
def test_this_machines_broken_file_is_refused_before_the_first_test(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(BaselineError, match=r"box\.csv, line 1: "):
        with_broken_file(tmp_path, "box", **settings).check_stores()


@pytest.mark.parametrize(("machine", "settings"), [("dgx2", {}), ("box", {"against": Path("python")})], ids=str)
def test_a_broken_file_that_the_session_does_not_need_is_ignored(
    tmp_path: Path, machine: str, settings: dict[str, Any]
) -> None:
    with_broken_file(tmp_path, machine, **settings).check_stores()


@pytest.mark.parametrize("provenance", [Provenance.PUBLISHED, Provenance.MEASURED])
def test_bounds_that_someone_wrote_into_a_measured_row_are_kept(tmp_path: Path, provenance: Provenance) -> None:
    store = BaselineStore(tmp_path / "baselines", published=None)
    old = baseline(lower=-0.1, upper=0.3, provenance=provenance, source="a document")
    store.update(old.machine, {old.key: old})
    five_runs = tuple(run_at(rate) for rate in (100.0, 101.0, 99.0, 100.5, 99.5))
    session(tmp_path).recorder.record(measurement(throughput(100.0, 101.0, 99.0, 100.5, 99.5), runs=five_runs))
    row = BaselineStore(tmp_path / "baselines", published=None).load("box")[old.key]
    expected = (-0.1, 0.3) if provenance is Provenance.MEASURED else (None, None)
    assert (row.lower, row.upper) == expected


# What it says at the end


def test_what_could_not_be_measured_is_not_listed_as_in_doubt(tmp_path: Path) -> None:
    made = session(tmp_path)
    made.queue.begin("for_cpus")
    doubt = measurement(test="for_cpus", verdict=verdict(Outcome.INCONCLUSIVE, -0.13, wants=Wants(Want.RUNS, 3)))
    made.queue.keep("for_cpus", 0, doubt)
    made.not_measured["for_cpus"] = "the worker died"
    assert after(made, skips=False) == ["1 not measured: the error of each test says why, and what to do"]


def test_a_session_that_compared_nothing_makes_no_launcher_for_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_tfperf.bench.session.LocalLauncher", None)
    made = session(tmp_path, against=Path("python"))
    made.is_compared = True
    assert made.uncompared() == ["NO CHECK WAS COMPARED with the other side, so the session does not pass"]


def without_baseline(folder: Path, **settings: Any) -> list[str]:
    made = session(folder, **settings)
    made.queue.begin("for_cpus")
    unknown = Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE)
    made.queue.keep("for_cpus", 0, measurement(test="for_cpus", verdict=unknown))
    made.conclude()
    return after(made, skips=False)


def test_the_nightly_gate_names_missing_baselines_in_one_line(tmp_path: Path) -> None:
    last = "1 without a baseline: record them with --update-baselines, then commit baselines/"
    assert without_baseline(tmp_path, require_baseline=True)[-1] == last


def test_a_refused_baseline_ends_as_what_could_not_be_recorded(tmp_path: Path) -> None:
    made = session(tmp_path)
    made.refused["for_cpus"] = TfperfError("too noisy for a baseline")
    assert made.exit_status(1, failures=1) == 6
    assert made.exit_status(1, failures=2) == 1


NOTHING_MEASURED, SLOWER = {"measured_nothing": True}, {"machine_slower": True}


@pytest.mark.parametrize(
    ("status", "failed", "not_measured", "more", "becomes"),
    [
        (0, 0, 0, {}, 0),
        (1, 1, 0, {}, 1),
        (1, 0, 1, {}, 6),  # nothing regressed as far as is known
        (1, 1, 1, {}, 1),  # a regression is the graver news
        (1, 0, 0, {}, 1),  # another test's failure
        (0, 0, 0, NOTHING_MEASURED, 6),
        (1, 1, 0, NOTHING_MEASURED, 1),
        (5, 0, 0, NOTHING_MEASURED, 5),  # pytest says itself that nothing was collected
        (2, 0, 1, {}, 2),  # interrupted
        (3, 0, 1, {}, 3),
        (0, 0, 0, SLOWER, 7),
        (1, 1, 0, SLOWER, 1),
        (1, 0, 1, SLOWER, 7),
        (2, 0, 0, SLOWER, 2),
    ],
)
def test_the_status_tells_regressed_from_not_measured_and_from_a_slower_machine(
    tmp_path: Path, status: int, failed: int, not_measured: int, more: dict[str, bool], becomes: int
) -> None:
    made = session(tmp_path, require_baseline="measured_nothing" in more)
    made.not_measured |= {str(number): TfperfError("the worker died") for number in range(not_measured)}
    made.verdicts += [session_verdict(kind="machine")] * ("machine_slower" in more)
    assert made.exit_status(status, failures=failed + not_measured + len(made.verdicts)) == becomes


# Profiles


def test_a_session_without_throughput_tests_makes_no_folder_of_traces(tmp_path: Path) -> None:
    made = session(tmp_path, profile_on_regression=tmp_path / "traces")
    selects(made, [])
    made.check_stores()
    assert not (tmp_path / "traces").exists()


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (Profile(fault="the disk is full"), ["for_cpus: its baseline has no profile: the disk is full"]),
        (Profile(steps=3), ["for_cpus: its baseline has no profile: the trace has no TensorFlow operations"]),
        (Profile(ops=(OpTime(name="conv", type="Conv2D", seconds=0.1, count=1.0),)), []),
        (None, []),
    ],
)
def test_a_baseline_whose_profile_failed_is_named_at_the_end(
    tmp_path: Path, profile: Profile | None, said: list[str]
) -> None:
    made = session(tmp_path, update_baselines=Update.ALL)
    made.queue.keep("for_cpus", 0, measurement(test="for_cpus", recording=NOTHING, profile=profile))
    assert [line for line in after(made, skips=False) if "profile" in line] == said


def test_tests_that_ended_by_time_are_counted_at_the_end_with_the_fewest_windows(tmp_path: Path) -> None:
    made = session(tmp_path)
    slow = replace(run_at(10.0), ended_by_time=True)
    slower = replace(slow, windows=slow.windows[:3])
    for test, runs in (("a", [run_at(10.0)]), ("b", [slow]), ("c", [slow, slower])):
        made.queue.keep(test, 0, measurement(test=test, runs=tuple(runs)))
    assert [line for line in map(str, after(made, skips=False)) if "ended by time" in line] == [
        "2 tests ended by time, before all steps: c after 3 windows. Where its interval is too wide, give the "
        "test more steps (steps=), or all tests more time: -o tfperf_max_time=SECONDS"
    ]


STRAGGLER = Breakdown(input=Input.RESIDENT, straggler=Straggler(rank=1, host="nodeb", slower=1.6))


@pytest.mark.parametrize(
    "more",
    [{"verdict": verdict()}, {"recording": NOTHING}, {"verdict": None}],
    ids=["passed", "being recorded", "measured"],
)
def test_a_straggler_is_named_at_the_end_whatever_the_outcome(tmp_path: Path, more: dict[str, Any]) -> None:
    made = session(tmp_path)
    made.queue.keep("for_cpus", 0, measurement(test="for_cpus", breakdown=STRAGGLER, **more))
    assert [line for line in map(str, after(made, skips=False)) if "straggler" in line] == [
        "for_cpus: straggler: rank 1 on nodeb: its step alone takes 160 % longer than the fastest rank's, and the "
        "others wait for it"
    ]
