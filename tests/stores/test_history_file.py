"""How SQLite keeps a history: its journal, readers beside a writer, and folders where nothing can be written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import history_file
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import measurement


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Two measurements."""
    made = History(tmp_path / "dir" / "history.sqlite")
    for name in "ab":
        made.append(measurement(test=name))
    return made


def measured_tests(history: History) -> list[str]:
    return [value.test for value in history.values()]


def journal(history: History) -> str:
    with closing(sqlite3.connect(history.database.path)) as connection:
        ((mode,),) = connection.execute("pragma journal_mode")
    return str(mode)


def mounted(monkeypatch: pytest.MonkeyPatch, mounts: str) -> None:
    read_text = Path.read_text

    def read(path: Path, *given: str) -> str:
        return mounts if str(path) == "/proc/self/mounts" else read_text(path, *given)

    monkeypatch.setattr(Path, "read_text", read)


# The journal


@pytest.mark.parametrize(
    ("mounts", "mode"),
    [
        ("/dev/sda1 / ext4 rw 0 0", "wal"),
        ("overlay / overlay rw 0 0\nserver:/home {folder} nfs4 rw 0 0", "delete"),
        ("server:/ / nfs4 rw 0 0\n/dev/sdb {folder} xfs rw 0 0", "wal"),
        ("/dev/sdb {folder} xfs rw 0 0\nserver:/ / nfs4 rw 0 0", "wal"),
        ("/dev/sda1 / ext4 rw 0 0\n/dev/sdb {folder} ext4 rw 0 0\nserver:/ {folder} cifs rw 0 0", "delete"),
        ("/dev/sda1 / ext4 rw 0 0\nserver:/ {folder}/di nfs4 rw 0 0", "wal"),
        ("/dev/sda1 / ext4 rw 0 0\nhome {folder} fuse.sshfs rw 0 0", "delete"),
        ("", "delete"),
    ],
    ids=range(8),
)
def test_the_write_ahead_log_is_for_local_disks(
    mounts: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(monkeypatch, mounts.format(folder=tmp_path.resolve()))
    history = History(tmp_path / "dir" / "history.sqlite")
    history.append(measurement())
    assert journal(history) == mode


def test_a_folder_with_a_blank_in_its_name_is_found_among_the_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path.resolve() / "a b"
    escaped = str(folder).replace(" ", r"\040")
    mounted(monkeypatch, f"/dev/sda1 / ext4 rw 0 0\nserver:/ {escaped} nfs4 rw 0 0\n")
    history = History(folder / "history.sqlite")
    history.append(measurement())
    assert journal(history) == "delete"


def test_a_history_that_moves_to_a_network_keeps_its_measurements(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(monkeypatch, "server:/ / nfs4 rw 0 0")
    history.append(measurement(test="c"))
    assert (measured_tests(history), journal(history)) == (["a", "b", "c"], "delete")


# Readers


def test_a_writer_and_a_slow_reader_do_not_wait_for_each_other(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_file, "_LOCK_SECONDS", 0)
    slow = history.values()
    first = next(slow)
    history.append(measurement(test="c"))
    with history.database.opened(writes=True):
        assert [first.test, *(value.test for value in slow)] == ["a", "b"]
        assert measured_tests(history) == ["a", "b", "c"]


@pytest.mark.parametrize("read", [History.values, History.measurements])
def test_a_writer_does_not_wait_for_a_slow_reader_on_a_network(
    read: Callable[[History], Iterator[Any]], history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(monkeypatch, "server:/ / nfs4 rw 0 0")
    history.prepare()
    monkeypatch.setattr(history_file, "_LOCK_SECONDS", 0)
    slow = read(history)
    first = next(slow)
    history.append(measurement(test="c"))
    assert ([first.test, *(one.test for one in slow)], journal(history)) == (["a", "b"], "delete")


def test_a_reader_that_stops_early_holds_nothing(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "_LOCK_SECONDS", 0)
    next(history.values())
    with closing(sqlite3.connect(history.database.path, timeout=0, isolation_level=None)) as connection:
        connection.execute("pragma locking_mode = exclusive")
        connection.execute("begin exclusive")
        connection.execute("rollback")


# A folder where nothing can be written


@pytest.fixture
def read_only(history: History, monkeypatch: pytest.MonkeyPatch) -> History:
    """The history in a folder that is another user's: root may write anywhere, so `os.access` says so."""
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    return history


def test_a_history_in_a_folder_that_is_read_only_is_read(read_only: History) -> None:
    before = {path: path.read_bytes() for path in read_only.database.path.parent.iterdir()}
    assert measured_tests(read_only) == ["a", "b"]
    assert {path: path.read_bytes() for path in read_only.database.path.parent.iterdir()} == before


def test_a_history_in_a_folder_that_is_read_only_is_read_with_the_log_of_a_session_that_writes(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(history.database.path, isolation_level=None)) as session:
        session.execute("delete from tfperf_values where measurement = 1")
        monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
        assert measured_tests(history) == ["b"]


def test_a_history_in_a_folder_that_is_read_only_can_not_be_written(read_only: History) -> None:
    with pytest.raises(TfperfError, match=r"it is read-only for this user\. Correct the permissions"):
        read_only.append(measurement())
