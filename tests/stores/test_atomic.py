"""Files that are replaced in one step, and what is no file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pytest_tfperf.stores import files


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
