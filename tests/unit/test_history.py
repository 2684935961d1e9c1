from __future__ import annotations

import json
import math
import signal
import sqlite3
import subprocess
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from measurements import WORKLOAD, baseline, comparison, record, throughput
from patience import running

from pytest_tfperf import cli
from pytest_tfperf.core.comparison import SetAside
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.common_drift import Night, Shift
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import Noise
from pytest_tfperf.stores.history import SCHEMA, History

# Appends without end (or COUNT times) and says of each record that it is kept.
WRITER = f"""
import itertools, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from measurements import record
from pytest_tfperf.stores.history import History
history = History(Path(sys.argv[1]))
for i in itertools.islice(itertools.count(), int(sys.argv[3]) if len(sys.argv) > 3 else None):
    history.append(record(test=f"{{sys.argv[2]}}::{{i}}"))
    print(i, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dir" / "history.sqlite"


def writer(path: Path, name: str, *count: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return running(WRITER, path, name, *count)


def judged(now: float, days_ago: int = 0, **more: Any) -> Measurement:
    """Judged against 1,000 images/s."""
    noise = Noise(0.001, float("inf"), "")
    when = datetime.now().astimezone() - timedelta(days=days_ago)
    verdict = judge(throughput(now), baseline(), Tolerance(), noise)
    return record(throughput(now), time=when.isoformat(timespec="seconds"), **{"verdict": verdict} | more)


def drops(path: Path) -> list[list[float]]:
    return [[pytest.approx(drop, abs=1e-7) for drop in night.drops] for night in History(path).nights(baseline())]


def test_a_record_is_read_back(path: Path) -> None:
    History(path).append(judged(1500.0, seconds=12.0))
    (row,) = History(path).frame().to_dict("records")
    assert row | {"time": ""} == {
        "time": "",
        "test": "perf_tests/test_a.py::test_b[1]",
        "machine": "box",
        "workload": WORKLOAD.id,
        "topology": "1x8",
        "images_per_sec": pytest.approx(1500.0),
        "outcome": "IMPROVED",
        "runs": 1,
        "seconds": 12.0,
    }


def test_records_are_read_in_their_order(path: Path) -> None:
    for name in ("b", "a", "c"):
        History(path).append(record(test=name))
    assert list(History(path).frame()["test"]) == ["b", "a", "c"]


def test_what_was_not_judged_has_no_outcome(path: Path) -> None:
    History(path).append(record(verdict=None))
    assert History(path).frame()["outcome"].isna().all()


def test_the_whole_record_is_kept(path: Path) -> None:
    History(path).append(record(environment={"tensorflow": "2.21.0"}))
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("select json_extract(record, '$.environment.tensorflow') from records").fetchone()
    assert found == ("2.21.0",)


def test_without_a_file_there_is_no_history_to_show(path: Path) -> None:
    with pytest.raises(TfperfError, match="no history yet; run the suite first"):
        History(path).frame()


def test_asking_for_nothing_makes_no_file(path: Path) -> None:
    History(path).seconds_of(["a"])
    History(path).nights(baseline())
    assert not path.parent.exists()


# Before the first measurement


def test_preparing_makes_the_file(path: Path) -> None:
    History(path).prepare()
    assert path.is_file()


def test_preparing_leaves_what_is_there(path: Path) -> None:
    History(path).append(record(test="a"))
    History(path).prepare()
    assert list(History(path).frame()["test"]) == ["a"]


def test_preparing_finds_out_that_the_file_can_not_be_made(path: Path) -> None:
    path.parent.touch()
    with refused(path):
        History(path).prepare()


# Records of tests that wait for further runs


def test_a_record_that_replaces_an_earlier_one_is_the_only_one(path: Path) -> None:
    number = History(path).append(record(test="a", seconds=1.0))
    History(path).append(record(test="b"))
    History(path).append(record(test="a", seconds=2.0), replaces=number)
    assert list(History(path).frame()["test"]) == ["b", "a"]


def test_what_waits_for_the_other_tests_counts_for_no_night(path: Path) -> None:
    waits = Verdict(outcome=Outcome.PASS, baseline=baseline(), shift=Shift(waits=True))
    History(path).append(judged(990.0, days_ago=1, verdict=waits))
    assert History(path).nights(baseline()) == ()
    assert list(History(path).frame()["outcome"]) == [None]


# How long tests take


def test_a_test_takes_as_long_as_one_run_took_last(path: Path) -> None:
    History(path).append(record(test="a", seconds=999.0))
    History(path).append(record(throughput(1.0, 1.0, 1.0), test="a", seconds=30.0))
    assert History(path).seconds_of(["a"]) == {"a": 10.0}


def test_a_test_that_was_never_seen_is_left_out(path: Path) -> None:
    History(path).append(record(test="a", seconds=5.0))
    assert History(path).seconds_of(["a", "b"]) == {"a": 5.0}


def test_a_test_that_was_not_asked_for_is_left_out(path: Path) -> None:
    History(path).append(record(test="a", seconds=5.0))
    assert History(path).seconds_of([]) == {}


# Earlier nights


def credited_night(shift: float) -> Measurement:
    verdict = judge(throughput(990.0), baseline(), Tolerance(), Noise(0.01, 4, ""), shift=Shift(shift, tests=10))
    return judged(990.0, days_ago=1, verdict=verdict)


def test_earlier_days_are_nights_oldest_first(path: Path) -> None:
    History(path).append(judged(990.0, days_ago=3))
    History(path).append(judged(980.0, days_ago=1))
    assert drops(path) == [[-0.01005034], [-0.02020271]]


def test_today_is_no_earlier_night(path: Path) -> None:
    History(path).append(judged(990.0))
    assert drops(path) == []


def test_a_nights_last_measurement_counts_for_it(path: Path) -> None:
    History(path).append(judged(990.0, days_ago=1))
    History(path).append(judged(980.0, days_ago=1))
    assert drops(path) == [[-0.02020271]]


def at(images_per_sec: float, days_ago: int, hour: int) -> Measurement:
    """Judged at this hour by the clock on the wall."""
    when = datetime.now().replace(hour=hour, minute=0) - timedelta(days=days_ago)
    return replace(judged(images_per_sec), time=when.astimezone().isoformat(timespec="seconds"))


def test_before_and_after_midnight_is_one_night(path: Path) -> None:
    History(path).append(at(990.0, days_ago=3, hour=23))
    History(path).append(at(980.0, days_ago=2, hour=1))
    assert drops(path) == [[-0.02020271]]


def test_before_and_after_noon_are_two_nights(path: Path) -> None:
    History(path).append(at(990.0, days_ago=3, hour=11))
    History(path).append(at(980.0, days_ago=3, hour=13))
    assert drops(path) == [[-0.01005034], [-0.02020271]]


def test_every_run_of_a_night_is_kept(path: Path) -> None:
    History(path).append(judged(1.0, days_ago=1, throughput=throughput(990.0, 980.0)))
    assert drops(path) == [[-0.01005034, -0.02020271]]


def test_what_a_night_was_credited_with_is_taken_out(path: Path) -> None:
    History(path).append(credited_night(-0.01))
    assert drops(path) == [[-0.0000503]]


@pytest.mark.parametrize("outcome", Outcome)
def test_only_a_night_in_doubt_is_doubtful(path: Path, outcome: Outcome) -> None:
    verdict = Verdict(outcome=outcome, baseline=baseline())
    History(path).append(judged(990.0, days_ago=1, verdict=verdict))
    assert [night.doubtful for night in History(path).nights(baseline())] == [outcome is Outcome.INCONCLUSIVE]


@pytest.mark.parametrize("outcome", Outcome)
def test_only_a_night_that_passed_is_good(path: Path, outcome: Outcome) -> None:
    History(path).append(judged(990.0, days_ago=1, verdict=Verdict(outcome=outcome, baseline=baseline())))
    assert [night.good for night in History(path).nights(baseline())] == [outcome is Outcome.PASS]


@pytest.mark.parametrize("other", [{"machine": "b"}, {"topology": "1x4"}, {"workload": WORKLOAD.with_(batch_size=1)}])
def test_another_machine_topology_or_workload_is_no_night_of_this(path: Path, other: dict[str, Any]) -> None:
    History(path).append(judged(990.0, days_ago=1, **other))
    assert drops(path) == []


def test_nights_against_another_reference_do_not_count(path: Path) -> None:
    History(path).append(judged(990.0, days_ago=1))
    assert History(path).nights(baseline(1001.0)) == ()


def test_a_night_that_was_only_measured_does_not_count(path: Path) -> None:
    History(path).append(judged(990.0, days_ago=1, verdict=None))
    assert drops(path) == []


def test_a_night_that_lost_throughput_on_purpose_does_not_count(path: Path) -> None:
    History(path).append(judged(990.0, days_ago=1, environment={"injected_slowdown": "0.1"}))
    assert drops(path) == []


def test_a_night_is_a_night(path: Path) -> None:
    History(path).append(judged(1000.0, days_ago=1))
    assert History(path).nights(baseline()) == (Night((pytest.approx(0.0),), good=True),)


# Comparisons


def test_a_comparison_is_read_back(path: Path) -> None:
    History(path).append_comparison(comparison(time="2026-01-02T03:04:05+00:00"))
    (row,) = History(path).comparisons().to_dict("records")
    assert row == {
        "time": "2026-01-02T03:04:05+00:00",
        "test": "perf_tests/test_a.py::test_b[1]",
        "machine": "box",
        "topology": "1x8",
        "workload_a": WORKLOAD.id,
        "workload_b": WORKLOAD.id,
        "tensorflow_a": "2.16.2",
        "tensorflow_b": "2.21.0",
        "images_per_sec_a": pytest.approx(1000.0),
        "images_per_sec_b": pytest.approx(900.0),
        "ratio": 0.9,
        "low": 0.89,
        "high": 0.91,
        "outcome": "REGRESSED",
        "pairs": 3,
        "seconds": 30.0,
    }


def test_the_whole_comparison_is_kept_what_was_set_aside_too(path: Path) -> None:
    History(path).append_comparison(comparison(set_aside=(SetAside(-0.3, "swapping 12 MiB/s"),)))
    with closing(sqlite3.connect(path)) as database:
        (text,) = database.execute("select comparison from comparisons").fetchone()
    assert json.loads(text)["set_aside"] == [{"log_ratio": -0.3, "disturbance": "swapping 12 MiB/s"}]


def test_an_interval_without_an_upper_end_is_kept(path: Path) -> None:
    History(path).append_comparison(comparison(high=math.inf, outcome=None))
    (row,) = History(path).comparisons().to_dict("records")
    assert (row["high"], row["outcome"]) == (None, None)


def test_a_comparison_is_no_measurement(path: Path) -> None:
    History(path).append_comparison(comparison())
    assert History(path).frame().empty


def test_a_test_that_compares_takes_as_long_as_it_took_last(path: Path) -> None:
    History(path).append_comparison(comparison(test="a", seconds=30.0))
    assert History(path).seconds_of(["a"]) == {"a": 30.0}


# Files from before


FIRST_FORM = (
    "create table records (id integer primary key, time text not null, test text not null, machine text not null,"
    " workload text not null, topology text not null, images_per_sec real not null, outcome text,"
    " seconds real not null, record text not null)"
)
FIRST_ROW = (
    "insert into records values (1, '2026-01-01T00:00:00+00:00', 'a', 'box', 'w', '1x1', 100.0, 'PASS', 6.0,"
    """ '{"throughput": {"runs": [1, 2, 3]}}')"""
)


def old(path: Path, *statements: str) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("pragma user_version").fetchone()[0]


def test_a_file_of_the_first_form_keeps_its_rows_and_takes_new_ones(path: Path) -> None:
    old(path, FIRST_FORM, FIRST_ROW)
    History(path).append(record(test="b"))
    assert list(History(path).frame()["test"]) == ["a", "b"]


def test_older_rows_learn_how_many_runs_they_were(path: Path) -> None:
    old(path, FIRST_FORM, FIRST_ROW)
    assert list(History(path).frame()["runs"]) == [3]


def test_a_file_of_the_first_form_takes_comparisons(path: Path) -> None:
    old(path, FIRST_FORM, FIRST_ROW)
    History(path).append_comparison(comparison())
    assert len(History(path).comparisons()) == 1


def test_a_file_of_an_older_form_is_given_todays(path: Path) -> None:
    old(path, FIRST_FORM)
    History(path).frame()
    assert version(path) == SCHEMA


@pytest.mark.parametrize("columns", ["machine, workload, topology, reference", "test"])
def test_a_verdicts_question_reads_no_more_than_it_needs(path: Path, columns: str) -> None:
    old(path, FIRST_FORM, FIRST_ROW)
    History(path).frame()
    where = " and ".join(f"{column} = 1" for column in columns.split(", "))
    with closing(sqlite3.connect(path)) as database:
        (*_, plan), *_ = database.execute(f"explain query plan select id from records where {where}")
    assert "USING COVERING INDEX" in plan


def test_a_form_that_can_not_be_mended_is_left_as_it_was(path: Path) -> None:
    old(path, "create table records (id integer primary key, speed real)")
    with refused(path):
        History(path).frame()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("select sql from sqlite_master").fetchall() == [
            ("CREATE TABLE records (id integer primary key, speed real)",)
        ]


def test_a_newer_programs_file_is_refused_with_the_next_step(path: Path) -> None:
    old(path, f"pragma user_version = {SCHEMA + 1}")
    with pytest.raises(TfperfError, match=rf"history\.sqlite: a newer pytest-tfperf made .*form {SCHEMA + 1}.*upgrade"):
        History(path).append(record())


# What can go wrong


def test_a_killed_writer_loses_nothing_that_it_had_finished(path: Path) -> None:
    with writer(path, "killed") as process:
        assert process.stdout is not None
        for _ in range(25):
            said = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
    finished = [said, *rest.splitlines()][-1]
    kept = list(History(path).frame()["test"])
    assert kept[: int(finished) + 1] == [f"killed::{i}" for i in range(int(finished) + 1)]


def test_a_killed_writer_does_not_keep_the_next_from_writing(path: Path) -> None:
    with writer(path, "killed") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        process.send_signal(signal.SIGKILL)
    History(path).append(record(test="next"))
    assert History(path).frame()["test"].iloc[-1] == "next"


def test_writers_side_by_side_lose_nothing(path: Path) -> None:
    with writer(path, "one", "30") as one, writer(path, "two", "30") as two:
        for process in (one, two):
            process.communicate()
    found = sorted(History(path).frame()["test"])
    assert found == sorted(f"{name}::{i}" for name in ("one", "two") for i in range(30))


def refused(path: Path) -> Any:
    return pytest.raises(TfperfError, match=r"history\.sqlite: the history can't be used: .*\. Move the file away")


def test_a_file_that_is_no_history_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("workload,topology,reference\n" * 100)
    with refused(path):
        History(path).append(record())


def test_a_file_that_is_no_history_is_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("workload,topology,reference\n" * 100)
    with refused(path):
        History(path).seconds_of(["a"])
    assert path.read_text() == "workload,topology,reference\n" * 100


def test_a_file_that_breaks_off_is_refused(path: Path) -> None:
    for i in range(20):
        History(path).append(record(test=str(i)))
    path.write_bytes(path.read_bytes()[:-4096])
    with refused(path):
        History(path).seconds_of(["0"])


def test_a_damaged_page_is_refused_when_it_is_read(path: Path) -> None:
    for i in range(20):
        History(path).append(record(test=str(i)))
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with refused(path):
        History(path).seconds_of(["0"])


def test_a_table_of_another_form_is_refused_when_it_is_written(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table records (id integer primary key, speed real)")
    with refused(path):
        History(path).append(record())


def test_a_folder_in_the_files_place_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    with refused(path):
        History(path).append(record())


def test_a_file_in_the_folders_place_is_refused(path: Path) -> None:
    path.parent.touch()
    with refused(path):
        History(path).append(record())


# What `tfperf history` shows


def shown(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert cli.main(["history", f"--dir={path.parent}", *more]) == 0
    return capsys.readouterr().out


def test_comparisons_are_shown_below_the_measurements(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    History(path).append(record())
    History(path).append_comparison(comparison())
    above, below = shown(path, capsys).split("\n\n")
    assert "median" in above
    assert f"{WORKLOAD.id} (tensorflow 2.16.2) {WORKLOAD.id} (tensorflow 2.21.0)" in below
    assert "0.900 0.890 0.910 REGRESSED" in below


def test_two_workloads_need_no_software_to_be_told_apart(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = comparison()
    History(path).append_comparison(replace(other, b=replace(other.b, workload=WORKLOAD.with_(batch_size=1))))
    assert "tensorflow" not in shown(path, capsys)


def test_comparisons_alone_can_be_had_as_csv(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    History(path).append(record())
    History(path).append_comparison(comparison())
    lines = shown(path, capsys, "--comparisons", "--csv").splitlines()
    assert (lines[0].split(",")[:3], len(lines)) == (["time", "test", "machine"], 2)
