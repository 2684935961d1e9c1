"""Files of a history that are damaged, locked or of another version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import history_file
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import measurement
from tests.helpers.space import no_room_for_files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


@pytest.fixture
def history(path: Path) -> History:
    return History(path)


def fill(history: History) -> None:
    for number in range(20):
        history.append(measurement(test=str(number)))


def damage(path: Path) -> bytes:
    """Overwrite all but the first page, as a disk that fails does."""
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x55" * (len(whole) - 4096))
    return path.read_bytes()


def test_a_file_that_is_no_history_is_moved_aside_before_the_first_test(history: History, path: Path) -> None:
    path.write_text("workload,topology,value\n" * 100)
    history.prepare()
    (aside,) = path.parent.glob("history.sqlite.damaged-*")
    assert (aside.read_text()[:8], aside.name in history.moved_aside) == ("workload", True)


def test_a_damaged_file_costs_no_measurement_that_comes_after(history: History, path: Path) -> None:
    fill(history)
    damaged = damage(path)
    history.append(measurement(test="next"))
    (aside,) = path.parent.glob("history.sqlite.damaged-*")
    assert ([one.test for one in history.values(figure="")], aside.read_bytes()) == (["next"], damaged)


def test_a_further_run_after_a_damaged_file_replaces_no_other_sessions_measurement(
    history: History, path: Path
) -> None:
    fill(history)
    number = history.append(measurement(test="again", session="mine"))
    damage(path)
    for other in range(number):
        History(path).append(measurement(test=str(other), session="other"))
    history.append(measurement(test="again", session="mine"), replaces=number)
    assert [one.test for one in history.values(figure="")] == [*map(str, range(number)), "again"]


def test_the_journal_of_a_damaged_file_goes_with_it(history: History, path: Path) -> None:
    fill(history)
    damage(path)
    journal = path.with_name("history.sqlite-journal")
    journal.write_bytes(b"what is no journal")
    history.append(measurement(test="next"))
    assert ([one.test for one in history.values(figure="")], journal.exists()) == (["next"], False)


def test_reading_a_damaged_file_is_an_error_that_names_it(history: History, path: Path) -> None:
    fill(history)
    damage(path)
    with pytest.raises(TfperfError, match=r"history\.sqlite: the history can't be used: .*malformed"):
        list(history.values(figure=""))


def test_a_whole_file_is_never_moved_aside(history: History, path: Path) -> None:
    fill(history)
    assert history.database.move_aside() is None
    assert len(list(history.values(figure=""))) == 20


def test_a_locked_file_is_an_error_that_says_so(history: History, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "_LOCK_SECONDS", 0)
    history.prepare()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin exclusive")
        with pytest.raises(TfperfError, match=r"another process has held its lock for 30 s\. Wait until"):
            History(path).append(measurement())


def test_a_folder_that_can_not_be_made_is_to_be_made_writable_or_replaced() -> None:
    with pytest.raises(TfperfError, match=r"its folder can't be made: .*\. Make the place writable, or give another"):
        History(Path("/proc/no-such-folder/history.sqlite")).prepare()


def test_a_full_disk_shows_before_the_first_test(history: History) -> None:
    fill(history)
    with no_room_for_files(), pytest.raises(TfperfError, match="can't be used"):
        history.prepare()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dir").write_text("text")
    with pytest.raises(
        TfperfError, match=r"a file is in the place of its folder\. Move that file away, or give another"
    ):
        History(tmp_path / "dir" / "history.sqlite").prepare()


def test_a_folder_in_the_place_of_the_file_keeps_what_is_there(path: Path) -> None:
    path.mkdir()
    with pytest.raises(TfperfError, match=r"can't be used: it can't be opened\. Check that it is a file"):
        History(path).prepare()


def test_another_programs_database_is_refused(history: History, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table measurements (id integer)")
    with pytest.raises(TfperfError, match=r"its tables are another program's\. Move the file away, or give"):
        history.prepare()
