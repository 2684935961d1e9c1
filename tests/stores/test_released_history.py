"""A file that the released version wrote: it gets the columns and indexes of this one, and loses nothing."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.stores import history as stored
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import KEY, interleaved, measurement, throughput, verdict

# What this version has and the released one had not, and the other way round.
_RELEASED = """
drop index tfperf_comparisons;
drop index tfperf_of_test; drop index tfperf_of_session; drop index tfperf_of_machine; drop index tfperf_of_commit;
drop index tfperf_of_key; drop index tfperf_of_figure; drop index tfperf_verdicts_of;
alter table tfperf_measurements drop column gpu;
alter table tfperf_measurements drop column run_values;
alter table tfperf_history drop column details_from;
create index tfperf_by_test on tfperf_measurements (test, made);
create index tfperf_by_session on tfperf_measurements (session, test);
create index tfperf_by_baseline on tfperf_measurements (machine, workload, topology, baseline, session, made);
pragma user_version = 0;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two sessions of one test, and a comparison."""
    path = tmp_path / "history.sqlite"
    history = History(path)
    for day in (1, 2):
        history.append(measurement(throughput(1000.0 + day), session=f"s{day}", verdict=verdict(), gpu="Tesla P100"))
    history.append(interleaved(session="s3"))
    with closing(sqlite3.connect(path)) as database:
        database.executescript(_RELEASED)
    return path


def names(path: Path) -> set[str]:
    """Of indexes and columns."""
    with closing(sqlite3.connect(path)) as database:
        indexes = {name for (name,) in database.execute("select name from sqlite_master where type = 'index'")}
        columns = {row[1] for row in database.execute("pragma table_info(tfperf_measurements)")}
    return {name for name in indexes | columns if not name.startswith("sqlite_")}


def test_it_is_read_without_being_written(path: Path) -> None:
    before = path.read_bytes()
    history = History(path)
    assert [one.session for one in history.results()] == ["s1", "s2"]
    assert [m.session for m in history.measurements()] == ["s1", "s2", "s3"]
    assert [one.session for one in history.latest()] == ["s2"]
    assert path.read_bytes() == before


def test_the_first_session_adds_what_it_lacks_and_loses_nothing(path: Path, tmp_path: Path) -> None:
    kept = list(History(path).measurements())
    History(path).prepare()
    History(tmp_path / "new.sqlite").prepare()
    assert names(path) == names(tmp_path / "new.sqlite")
    assert list(History(path).measurements()) == kept


def test_sessions_that_complete_it_at_once_do_not_disturb_each_other(path: Path, tmp_path: Path) -> None:
    faults: list[Exception] = []

    def complete() -> None:
        try:
            History(path).prepare()
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=complete) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    History(tmp_path / "new.sqlite").prepare()
    assert (faults, names(path)) == ([], names(tmp_path / "new.sqlite"))


def earlier(history: History) -> list[tuple[str, str, float]]:
    found = history.earlier.earlier_measurements("box", before="today", most=10)[Key(*KEY)]
    return [(one.session, one.gpu, one.runs[0].log_rate) for one in found]


def test_its_rows_serve_as_provisional_baselines_and_are_read_whole_only_once(path: Path) -> None:
    history = History(path)
    history.prepare()
    before = earlier(history)
    assert [(session, gpu) for session, gpu, _ in before] == [("s1", "Tesla P100"), ("s2", "Tesla P100")]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update tfperf_measurements set whole = x'00' where session = 's1'")
    assert (earlier(history), str(history.unread)) == (before, "")


def test_a_large_one_is_announced_because_it_takes_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_LARGE", 0)
    said: list[str] = []
    for _ in range(2):
        History(path).prepare(said.append)
    assert said == [f"{path}: adding this version's indexes, once; it takes a few seconds for each GB"]
