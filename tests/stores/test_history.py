"""The local history: what it keeps, what it answers, and what happens when something goes wrong."""

from __future__ import annotations

import math
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.cli.history import by_workload
from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.measurement import EnvironmentChange, Measurement
from pytest_tfperf.core.past import NotProvisional, SessionChanges, Value, not_provisional
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.verdict import NOTHING, Outcome, Verdict, Want, Wants
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.history import History, load_history
from tests.helpers.measurements import (
    BUSY,
    KEY,
    WORKLOAD,
    baseline,
    interleaved,
    measurement,
    pair,
    run,
    session_verdict,
    throughput,
    verdict,
)
from tests.helpers.patience import running

# Appends without end (or COUNT times) and prints the number of each measurement that is kept.
WRITER = f"""
import itertools, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.helpers.measurements import measurement
from pytest_tfperf.stores.history import load_history
from pytest_tfperf.stores.history import History
history = History(Path(sys.argv[1]))
for i in itertools.islice(itertools.count(), int(sys.argv[3]) if len(sys.argv) > 3 else None):
    history.append(measurement(test=f"{{sys.argv[2]}}::{{i}}"))
    print(i, flush=True)
"""


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "dir" / "history.sqlite")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of `history`."""
    return tmp_path / "dir" / "history.sqlite"


TIME = "2026-01-02T03:04:05+00:00"


def judged(*rates: float, session: str = "monday", **more: Any) -> Measurement:
    """Judged against 1,000 images/s."""
    return measurement(throughput(*rates or (1000.0,)), **{"verdict": verdict(), "session": session} | more)


def outcomes(history: History) -> list[str | None]:
    return [row["outcome"] for row in history.rows()]


def measured_tests(history: History) -> list[str]:
    return [row["test"] for row in history.rows()]


# What is read back


def test_users_load_a_history_as_a_data_frame_with_times(history: History, path: Path) -> None:
    history.append(judged(1500.0, time=TIME))
    history.append(judged(900.0, machine="other", time=TIME))
    frame = load_history(path.parent, machine="other")
    assert list(frame["machine"]) == ["other"]
    assert frame["examples_per_sec"].iloc[0] == pytest.approx(900.0)
    assert frame["time"].iloc[0].isoformat() == TIME


def test_a_data_frame_without_pandas_names_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TfperfError, match=r"needs pandas, which is not installed\. pip install pandas"):
        load_history(path.parent)


def test_a_data_frame_lacks_rows_that_can_not_be_read_and_a_warning_says_so(history: History, path: Path) -> None:
    for rate in (1500.0, 900.0):
        history.append(judged(rate))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update tfperf_values set value = 'fast' where value < 1000")
    with pytest.warns(UserWarning, match="1 row of the history can't be read"):
        assert len(load_history(path.parent)) == 1


def test_a_measurement_is_a_row(history: History) -> None:
    history.append(judged(1500.0, seconds=12.0))
    (row,) = history.rows()
    assert row == {
        "session": "monday",
        "time": "2026-01-02T03:04:05+00:00",
        "test": "perf_tests/test_a.py::test_b[1]",
        "machine": "box",
        "workload": WORKLOAD.id,
        "topology": "1x8",
        "unit": "images",
        "examples_per_sec": pytest.approx(1500.0),
        "outcome": "PASS",
        "runs": 1,
        "seconds": 12.0,
        "name": "",
        "is_slowed_on_purpose": False,
    }


def test_a_result_is_told_from_its_columns(history: History) -> None:
    measured = measurement(verdict=verdict(), name="net", commit="c0ffee")
    history.append(measured)
    (found,) = history.values(figure="", test=measured.test, machine=measured.machine)
    assert (found.key, found.name, found.commit, found.outcome) == (measured.key, "net", "c0ffee", "PASS")
    throughput = measured.throughput
    assert (found.value, found.low, found.high) == (
        throughput.examples_per_sec,
        throughput.low,
        throughput.high,
    )


@pytest.mark.parametrize(
    "kept",
    [
        measurement(),
        measurement(verdict=verdict(Outcome.REGRESSED, -0.1)),
        measurement(verdict=verdict(baseline=baseline(provenance=Provenance.PROVISIONAL))),
        measurement(verdict=verdict(is_floor=True)),
        measurement(verdict=verdict(), environment={"injected_slowdown": "0.1"}),
        measurement(verdict=verdict(Outcome.INCONCLUSIVE, -0.1, wants=Wants(Want.RUNS, 3))),
    ],
    ids=["measured", "regressed", "provisional", "floor", "slowed on purpose", "undecided"],
)
def test_a_history_says_of_a_measurement_what_a_report_of_its_session_says(history: History, kept: Measurement) -> None:
    history.append(kept)
    (found,) = history.values(figure="")
    assert found._replace(number=0) == Value.of(kept)


def test_a_measurement_beside_another_side_is_kept_whole_and_in_no_series(history: History) -> None:
    whole = interleaved(None, interval=(-0.11, math.inf), session="monday", time=TIME)
    history.append(whole)
    assert list(history.measurements(is_interleaved=True)) == [whole]
    assert list(history.values()) == []


@pytest.mark.parametrize(
    "not_decided", [None, verdict(wants=Wants(Want.RUNS, 3)), verdict(wants=Wants(Want.COMMON_DRIFT))]
)
def test_what_is_not_judged_or_not_decided_has_no_outcome(history: History, not_decided: Any) -> None:
    history.append(judged(verdict=not_decided))
    assert outcomes(history) == [None]


def test_a_measurement_is_kept_whole(history: History) -> None:
    whole = judged(
        pairs=(pair(-0.1),), discarded=(run([0.1]),), environment={"tensorflow": "2.21.0"}, runs=(run([0.1, 0.2]),)
    )
    history.append(whole)
    assert list(history.measurements()) == [whole]


def test_the_table_of_each_workload_has_the_unit_of_its_last_measurement(history: History) -> None:
    counted = throughput(1000.0, unit="tokens")
    history.append(judged())
    history.append(measurement(counted, workload=Workload(model="bert-tiny", batch_size=8, unit="tokens")))
    lines = by_workload(history.values(figure=""))
    assert [line.split()[6:8] for line in lines[1:]] == [["1,000", "tokens/s"], ["1,000", "images/s"]]


def test_the_median_of_a_workload_is_of_comparable_measurements(history: History) -> None:
    history.append(measurement(throughput(64_000.0, unit="tokens")))
    history.append(judged())
    history.append(judged(500.0, environment={"injected_slowdown": "0.5"}))
    history.append(judged(990.0))
    (_, line) = by_workload(history.values(figure=""))
    assert line.split()[4:9] == ["4", "995.0", "990.0", "images/s", "-0.5"]


# How long tests take


def test_a_test_takes_as_long_as_one_of_its_workers_took_last(history: History) -> None:
    history.append(judged(test="a", seconds=999.0))
    history.append(
        judged(
            test="a", session="tuesday", seconds=60.0, runs=(run(),), discarded=(run(),), pairs=(pair(0.0), pair(0.0))
        )
    )
    history.append(interleaved(test="b", seconds=30.0))
    assert history.earlier.run_seconds(["a", "b", "never seen"]) == {"a": (10.0, 999.0)}
    assert history.earlier.seconds_of_interleaved(["a", "b", "never seen"]) == {"b": 5.0}


def test_a_test_takes_as_long_as_all_of_its_calls_together(history: History) -> None:
    for seconds in (3.0, 4.0):
        history.append(judged(test="a", seconds=seconds))
    assert history.earlier.run_seconds(["a"]) == {"a": (7.0,)}


def test_confirmations_of_real_slowdowns_are_counted_on_these_machines(history: History) -> None:
    confirmed = {"runs": (run(), run(), run()), "verdict": verdict(Outcome.REGRESSED, -0.1)}
    history.append(judged())
    history.append(judged(900.0, **confirmed))
    history.append(judged(900.0, **confirmed, environment={"injected_slowdown": "0.1"}))
    history.append(judged(900.0, **confirmed, machine="another"))
    history.append(measurement())
    assert history.earlier.confirmation_runs(["box", "box-cpu"]) == (2, 2)


# Past sessions


def past(history: History, before: str = "today", least_tests: int = 1, **row: Any) -> list[tuple[str, Any]]:
    of_machine = history.earlier.past_sessions_of_machine([baseline(**row)], before=before, least_tests=least_tests)
    found = of_machine.get(KEY, ())
    return [(one.session, [pytest.approx(change, abs=1e-7) for change in one.changes]) for one in found]


def test_earlier_sessions_come_oldest_first_with_the_changes_of_all_runs(history: History) -> None:
    history.append(judged(990.0, 980.0, session="monday"))
    history.append(judged(1000.0, session="tuesday"))
    history.append(judged(970.0, session="today"))
    assert past(history) == [("monday", [-0.01005034, -0.02020271]), ("tuesday", [0.0])]


def test_a_sessions_last_measurement_counts_for_it_without_the_common_drift(history: History) -> None:
    history.append(judged(1000.0))
    history.append(judged(990.0, verdict=verdict(common_drift=-0.01)))
    assert past(history) == [("monday", [-0.0000503])]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_session_has_the_outcome_that_it_decided(history: History, outcome: Outcome) -> None:
    history.append(judged(verdict=verdict(outcome)))
    found = history.earlier.past_sessions_of_machine([baseline()], before="", least_tests=1)
    assert found == {KEY: (SessionChanges("monday", (0.0,), outcome),)}


@pytest.mark.parametrize(
    "other",
    [
        {"machine": "b"},
        {"topology": "1x4"},
        {"workload": WORKLOAD.with_(batch_size=1)},
        {"environment": {"injected_slowdown": "0.1"}},
        {"verdict": None},
        {"verdict": verdict(baseline=None)},
        {"verdict": verdict(wants=Wants(Want.RUNS, 3))},
        {"verdict": verdict(is_floor=True)},
        {"verdict": verdict(baseline=baseline(1001.0))},
        {"verdict": verdict(baseline=baseline(date="2025-01-01"))},
    ],
    ids=str,
)
def test_only_decided_measurements_against_this_very_row_count(history: History, other: dict[str, Any]) -> None:
    history.append(judged(**other))
    assert past(history) == []


@pytest.mark.parametrize(
    ("lost", "teaches"),
    [
        (session_verdict(), False),
        (session_verdict(Outcome.INCONCLUSIVE), False),
        (session_verdict(kind="software"), False),
        (session_verdict(Outcome.PASS), True),
        (session_verdict(machine="other"), True),
        (session_verdict(kind="drift"), True),
    ],
    ids=["machine", "in doubt", "software", "as it was", "another machine", "drift"],
)
def test_a_session_in_which_all_tests_lost_something_says_nothing_of_their_noise(
    history: History, lost: SessionVerdict, teaches: bool
) -> None:
    history.append(judged(900.0))
    history.append_verdict(lost, session="monday", time=TIME)
    assert bool(past(history)) is teaches


@pytest.mark.parametrize(
    ("commit", "environment", "is_same"),
    [("abc1234", {"numpy": "2.0"}, True), ("abc1234", {"numpy": "2.1"}, False), ("def5678", {"numpy": "2.0"}, False)],
    ids=["same", "another package", "another commit"],
)
def test_a_session_has_the_code_that_it_measured(
    history: History, commit: str, environment: dict[str, str], is_same: bool
) -> None:
    history.append(judged(commit="abc1234", environment={"numpy": "2.0"}))
    history.append(judged(commit=commit, environment=environment, session="tuesday"))
    first, second = history.earlier.past_sessions_of_machine([baseline()], before="", least_tests=1)[KEY]
    assert first.code
    assert (first.code == second.code) is is_same


@pytest.mark.parametrize("commit", ["", "abc1234-dirty"], ids=["no repository", "changes that are in no commit"])
def test_code_that_is_in_no_commit_has_no_name(history: History, commit: str) -> None:
    history.append(judged(commit=commit))
    (session,) = history.earlier.past_sessions_of_machine([baseline()], before="", least_tests=1)[KEY]
    assert session.code == ""


def test_a_rerun_of_one_test_is_not_a_session_of_the_suite(history: History) -> None:
    history.append(judged(990.0, session="nightly"))
    history.append(judged(session="nightly", test="another"))
    history.append(judged(980.0, session="by hand"))
    history.append(judged(980.0, session="by hand"))
    assert [session for session, _ in past(history, least_tests=2)] == ["nightly"]


# Files


def test_asking_before_there_is_a_file_makes_none(history: History, path: Path) -> None:
    assert (history.earlier.run_seconds(["a"]), history.earlier.confirmation_runs(["box"])) == ({}, (0, 0))
    assert (past(history), repeatable(history)) == ([], [])
    for ask in (lambda: list(history.rows()), lambda: list(history.measurements())):
        with pytest.raises(TfperfError, match="no history yet; run pytest first"):
            ask()
    assert not path.parent.exists()


def test_another_versions_file_is_refused_with_the_next_step(history: History, path: Path) -> None:
    history.prepare()
    with closing(sqlite3.connect(path)) as database:
        database.execute("update tfperf_history set version = 3")
        database.commit()
    with pytest.raises(TfperfError, match=r"history\.sqlite has version 3 .*\. Upgrade .* name another folder"):
        history.append(judged())


def test_a_damaged_measurement_is_left_out_and_named(history: History, path: Path) -> None:
    number = history.append(judged())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update tfperf_details set whole = 'x'")
    history.append(judged(test="whole"))
    assert [one.test for one in history.measurements()] == ["whole"]
    assert re.match(rf"1 row of the history .*: measurement {number} is damaged", str(history.unread))


# Several processes


def writer(path: Path, name: str, *count: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return running(WRITER, path, name, *count)


def test_a_killed_writer_loses_nothing_that_it_had_finished_and_blocks_nobody(history: History, path: Path) -> None:
    with writer(path, "killed") as process:
        assert process.stdout is not None
        for _ in range(25):
            said = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
    finished = int([said, *rest.splitlines()][-1])
    assert measured_tests(history)[: finished + 1] == [f"killed::{i}" for i in range(finished + 1)]
    history.append(judged(test="next"))
    assert measured_tests(history)[-1] == "next"


def test_writers_side_by_side_lose_nothing(history: History, path: Path) -> None:
    with writer(path, "one", "30") as one, writer(path, "two", "30") as two:
        for process in (one, two):
            process.communicate()
    found = sorted(measured_tests(history))
    assert found == sorted(f"{name}::{i}" for name in ("one", "two") for i in range(30))


# Earlier measurements, for provisional references


def repeatable(history: History, machine: str = "box", most: int = 10) -> list[tuple[str, list[float]]]:
    found = history.earlier.earlier_measurements(machine, before="today", most=most).get(KEY, ())
    return [(one.session, [round(run.examples_per_sec) for run in one.runs]) for one in found]


def kept(history: History, session: str = "monday", rate: float = 1000.0, **more: Any) -> None:
    history.append(judged(rate, session=session, **more))


def test_earlier_measurements_come_oldest_first_without_todays(history: History) -> None:
    for session, rate in (("monday", 990.0), ("tuesday", 1000.0), ("today", 970.0)):
        kept(history, session, rate)
    assert repeatable(history) == [("monday", [990]), ("tuesday", [1000])]


def test_only_the_latest_measurements_are_read(history: History) -> None:
    for session in ("monday", "tuesday", "wednesday"):
        kept(history, session)
    assert [session for session, _ in repeatable(history, most=2)] == ["tuesday", "wednesday"]


def test_sessions_that_do_not_serve_do_not_hide_the_earlier_ones(history: History) -> None:
    for session in ("monday", "tuesday"):
        kept(history, session)
    for number in range(4):
        kept(history, f"slowed-{number}", environment={"injected_slowdown": "0.02"})
    assert [session for session, _ in repeatable(history, most=2)] == ["monday", "tuesday"]


@pytest.mark.parametrize("found", [None, verdict(Outcome.NO_BASELINE, baseline=None), verdict(Outcome.INCONCLUSIVE)])
def test_what_was_merely_measured_or_in_doubt_can_be_repeated(history: History, found: Verdict | None) -> None:
    kept(history, verdict=found)
    assert repeatable(history) == [("monday", [1000])]
    assert [*map(not_provisional, history.measurements())] == [None]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"verdict": verdict(Outcome.REGRESSED)}, NotProvisional.REGRESSED),
        (
            {"verdict": verdict(Outcome.REGRESSED, baseline=baseline(provenance=Provenance.PROVISIONAL))},
            NotProvisional.REGRESSED,
        ),
        ({"verdict": verdict(Outcome.INVALID)}, NotProvisional.INVALID),
        ({"verdict": verdict(Outcome.INCONCLUSIVE, wants=Wants(Want.RUNS, 3))}, NotProvisional.UNDECIDED),
        ({"recording": NOTHING, "verdict": None, "is_refused": True}, NotProvisional.REFUSED),
        ({"recording": Wants(Want.RUNS, 5), "verdict": None}, NotProvisional.REFUSED),
        ({"environment": {"injected_slowdown": "0.2"}}, NotProvisional.SLOWED_ON_PURPOSE),
        ({"runs": (run(disturbance=BUSY),)}, NotProvisional.DISTURBED),
        ({"machine": "another"}, None),
    ],
    ids=[
        *("a slowdown is no baseline for the next", "a slowdown against earlier sessions", "invalid", "undecided"),
        *("refused as a baseline", "a recording that was cut short", "slowed on purpose", "disturbed"),
        "another machine",
    ],
)
def test_no_reference_rests_on(history: History, more: dict[str, Any], why: NotProvisional | None) -> None:
    kept(history, **more)
    assert repeatable(history) == []
    assert [*map(not_provisional, history.measurements())] == [why]


def test_a_damaged_earlier_measurement_is_left_out_and_named(history: History, path: Path) -> None:
    kept(history)
    with closing(sqlite3.connect(path)) as database:
        database.execute("update tfperf_values set of_runs = '{}'")
        database.commit()
    assert repeatable(history) == []
    assert re.search(r"1 row .* measurement 1: of_runs .* can't be read", str(history.unread))


def test_what_was_judged_against_earlier_sessions_is_no_past_session_of_a_row(history: History) -> None:
    provisional = baseline(provenance=Provenance.PROVISIONAL)
    history.append(judged(990.0, verdict=verdict(baseline=provisional)))
    assert (past(history), outcomes(history)) == ([], ["PASS (provisional)"])


# The verdicts on whole sessions


def test_the_verdicts_on_a_session_are_read_back_by_session_and_machine(history: History) -> None:
    software = session_verdict(Outcome.PASS, kind="software", change=0.001)
    for one in (software, session_verdict(), session_verdict(machine="other")):
        history.append_verdict(one, session="monday", time=TIME)
    assert history.verdicts(session="monday", machine="box") == [software, session_verdict()]
    assert history.verdicts(session="tuesday", machine="box") == []


@pytest.mark.parametrize("kind", ["software", "machine", "together", "drift"])
def test_a_verdict_on_a_session_is_read_back_whole(history: History, kind: str) -> None:
    one = replace(
        session_verdict(kind=kind),
        changed=(EnvironmentChange("driver", "570", None),),
        telemetry=Telemetry(seconds=4.0, load_average_mean=1.5),
    )
    history.append_verdict(one, session="monday", time=TIME)
    assert history.verdicts(session="monday", machine="box") == [one]


def test_after_a_session_whose_clock_was_ahead_only_what_was_measured_since_a_time_counts(history: History) -> None:
    for number, (test, time) in enumerate([("a", "2027-03-01"), ("b", "2026-01-01"), ("c", "2026-03-02")]):
        history.append(measurement(test=test, session=f"s{number}", time=f"{time}T03:00:00+00:00"))
    since = datetime(2026, 3, 1, tzinfo=UTC)
    assert history.earlier.measured_since(["b", "c"], {"box"}, since) == {"c"}
