"""Files that are replaced in one step, and what is no file."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_tfperf.stores import files
from tests.helpers.patience import PATIENCE_SECONDS


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "today.html", tmp_path / "latest.html"
    target.write_bytes(b"old")
    link.symlink_to(target)
    files.replace(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    files.require_writable(pipe, "--output")
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    files.replace(pipe, b"text")
    reader.join()
    assert (read, pipe.is_fifo()) == ([b"text"], True)


def test_what_is_written_leaves_no_other_file(tmp_path: Path) -> None:
    files.replace(tmp_path / "a", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# Writes a file many times: its own lines, or, with a lock, one line more than there are. First it waits for the other.
WRITES = """
import os, sys, time
from contextlib import nullcontext
from pathlib import Path
from pytest_tfperf.stores import files
path, own, adds = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "adds"
(path.parent / f"{own}.ready").write_text(str(os.getpid()))
while len(list(path.parent.glob("*.ready"))) < 2:
    time.sleep(0.01)
for number in range(200):
    with files.locked(path.parent) if adds else nullcontext():
        files.replace(path, (path.read_bytes() if adds else b"") + f"{own}{number}\\n".encode())
"""


def written_by_two_containers(path: Path, how: str) -> list[str]:
    """The lines of a file after 200 writes of each of two processes with the same pid."""
    alone = ["unshare", "--pid", "--fork"]  # as a container does, with pids from 1 on
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("making PID namespaces needs root")
    path.touch()
    command = [*alone, sys.executable, "-c", WRITES, str(path)]
    writers = [subprocess.Popen([*command, own, how]) for own in "ab"]
    assert [writer.wait(PATIENCE_SECONDS) for writer in writers] == [0, 0]
    assert {ready.read_text() for ready in path.parent.glob("*.ready")} == {"1"}
    return path.read_text().split()


def test_no_write_fails_because_another_container_has_the_same_pid(tmp_path: Path) -> None:
    (last,) = written_by_two_containers(tmp_path / "shared", "replaces")
    assert last in ("a199", "b199")
    assert not list(tmp_path.glob(".*"))


def test_two_containers_that_lock_the_folder_lose_no_write(tmp_path: Path) -> None:
    lines = written_by_two_containers(tmp_path / "shared", "adds")
    assert sorted(lines) == sorted(f"{own}{number}" for own in "ab" for number in range(200))


def test_a_link_of_a_temporary_files_name_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    files.replace(tmp_path / "a", b"1")
    victim, link = tmp_path / "victim", tmp_path / ".tfperf-guessed"
    link.symlink_to(victim)
    with pytest.raises(FileExistsError):
        files.replace(tmp_path / "a", b"2")
    assert ((tmp_path / "a").read_bytes(), victim.exists(), link.is_symlink()) == (b"1", False, True)


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.replace(tmp_path / "a", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    files.replace(tmp_path / ("n" * 255), b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]
