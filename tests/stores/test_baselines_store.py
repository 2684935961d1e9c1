"""The store of baselines: which rows count, what an update writes, and who may write."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import IO

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.patience import running
from tests.helpers.space import no_room_for_files

KEY = Key("resnet50-b64-replicated-device", "1x8")


def row(value: float = 1612.0, key: Key = KEY, machine: str = "box", **changes: object) -> Baseline:
    return Baseline(machine=machine, key=key, value=value, **changes)  # type: ignore[arg-type]


def store(folder: Path, published: Path | None = None) -> BaselineStore:
    return BaselineStore(folder, published)


@pytest.mark.parametrize("name", ["", "../box", "a\0b"])
def test_a_name_that_can_not_be_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BaselineError, match="cannot be a machine's name"):
        store(tmp_path).load(name)


def test_an_update_touches_only_its_rows(tmp_path: Path) -> None:
    other = Key("resnet50-b64-replicated-device", "1x4")
    store(tmp_path).update("box", {KEY: row(1612), other: row(800, other)})
    store(tmp_path).update("box", {KEY: row(1700)})
    assert {key: found.value for key, found in store(tmp_path).load("box").items()} == {KEY: 1700, other: 800}


def test_an_update_returns_old_and_new_where_the_old_row_may_be_a_published_one(tmp_path: Path) -> None:
    store(tmp_path / "shipped").update("box", {KEY: row(provenance=Provenance.PUBLISHED, source="a.md")})
    mine = store(tmp_path / "mine", tmp_path / "shipped")
    (first,), (second,) = (mine.update("box", {KEY: row(value)}) for value in (1700, 1800))
    assert [change.old and change.old.value for change in (first, second)] == [1612, 1700]
    assert (first.new, second.new) == (row(1700), row(1800))


def test_an_update_of_a_malformed_file_leaves_it_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "box.csv").write_text("broken")
    with pytest.raises(BaselineError):
        store(tmp_path).update("box", {KEY: row()})
    assert (tmp_path / "box.csv").read_text() == "broken"


def test_an_update_that_fails_half_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(tmp_path).update("box", {KEY: row(1612)})

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(BaselineError, match="No space left on device"):
        store(tmp_path).update("box", {KEY: row(1700)})
    assert [path.name for path in tmp_path.iterdir()] == ["box.csv"]
    assert store(tmp_path).load("box")[KEY].value == 1612


def test_a_lock_that_can_not_be_written_is_a_clear_error(tmp_path: Path) -> None:
    """As on a full disk, where closing the file fails once more."""
    with no_room_for_files(), pytest.raises(BaselineError, match="can't be written"), store(tmp_path).lock():
        pass


def test_the_users_row_wins_over_the_shipped_one(tmp_path: Path) -> None:
    store(tmp_path / "shipped").update("box", {KEY: row(provenance=Provenance.PUBLISHED, source="a.md")})
    store(tmp_path / "mine").update("box", {KEY: row(1700)})
    assert store(tmp_path / "mine", tmp_path / "shipped").load("box") == {KEY: row(1700)}


def test_a_measured_row_of_the_shipped_folder_is_nobody_elses_baseline(tmp_path: Path) -> None:
    store(tmp_path / "shipped").update("box", {KEY: row(provenance=Provenance.MEASURED)})
    assert store(tmp_path / "mine", tmp_path / "shipped").load("box") == {}


def test_published_rows_are_found_on_every_machine_and_hidden_by_no_measured_one(tmp_path: Path) -> None:
    for machine, value in (("p100", 1612), ("k80", 400)):
        published = row(value, machine=machine, provenance=Provenance.PUBLISHED, source="a.md")
        store(tmp_path / "shipped").update(machine, {KEY: published})
    mine = store(tmp_path / "mine", tmp_path / "shipped")
    mine.update("k80", {KEY: row(1700, machine="k80")})
    assert [(found.machine, found.value) for found in mine.published(KEY)] == [("k80", 400), ("p100", 1612)]
    assert mine.published(Key(KEY.workload, "1x4")) == []


def test_another_machines_broken_file_is_ignored(tmp_path: Path) -> None:
    store(tmp_path).update("box", {KEY: row(provenance=Provenance.PUBLISHED, source="a.md")})
    (tmp_path / "yours.csv").write_text("")
    assert [found.machine for found in store(tmp_path).published()] == ["box"]


def test_machines_are_those_with_a_file_in_either_folder(tmp_path: Path) -> None:
    store(tmp_path / "shipped").update("gpus-10", {KEY: row(machine="gpus-10")})
    store(tmp_path / "mine").update("gpus-9", {KEY: row(machine="gpus-9")})
    (tmp_path / "mine" / "not a machine.csv").write_text("")
    assert store(tmp_path / "mine", tmp_path / "shipped").machines() == ["gpus-9", "gpus-10"]


# Unwritable folders and two sessions


@pytest.mark.parametrize("kind", ["file", "below-a-file", "no-new-files"])
def test_an_unwritable_folder_is_found_before_anything_is_measured(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    # /proc takes no new files, not even root's, as a file system that is mounted read-only.
    folders = {"file": tmp_path / "file", "below-a-file": tmp_path / "file" / "b", "no-new-files": Path("/proc/b")}
    unwritable = store(folders[kind])
    with pytest.raises(BaselineError, match="can't be written: "), unwritable.lock():
        pass
    with pytest.raises(BaselineError, match=r"can't be (written|read): "):
        unwritable.update("box", {KEY: row()})


def test_the_owner_of_the_lock_is_not_written_into_the_file_that_a_link_names(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    (tmp_path / ".lock").symlink_to(tmp_path / "notes")
    refused = pytest.raises(BaselineError, match=r"\.lock can't be written: a file is in its way\. Move that")
    with refused, store(tmp_path).lock():
        pass
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_second_session_is_refused_and_told_who_holds_the_lock(tmp_path: Path) -> None:
    refused = pytest.raises(BaselineError, match=rf"pid {os.getpid()} on {os.uname().nodename} since \d{{4}}-")
    with store(tmp_path).lock(), refused:
        store(tmp_path).update("box", {KEY: row()})


def test_a_lock_that_was_deleted_before_it_was_taken_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, deleted = fcntl.flock, []

    def after_another_session_ended(file: IO[str], operation: int) -> None:
        if not deleted:
            deleted.append((tmp_path / ".lock").unlink())
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", after_another_session_ended)
    refused = pytest.raises(BaselineError, match="another session")
    with store(tmp_path).lock(), refused, store(tmp_path).lock():
        pass


def test_a_session_updates_under_its_own_lock(tmp_path: Path) -> None:
    mine = store(tmp_path)
    with mine.lock():
        mine.update("box", {KEY: row()})
    assert mine.load("box") == {KEY: row()}


def test_the_lock_of_a_killed_session_is_free(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from pytest_tfperf.stores.baseline_file import BaselineStore\n"
        "with BaselineStore(pathlib.Path(sys.argv[1]), None).lock():\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    with running(code, tmp_path, stdin=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
    with store(tmp_path).lock():
        pass
