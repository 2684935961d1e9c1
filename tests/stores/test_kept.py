"""A kept file is read as it was written; what can't be read says why and what to do."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_tfperf.errors import BaselineError, TfperfError, worded
from pytest_tfperf.stores import kept

AGAIN = "Begin anew with --again"


@dataclass(frozen=True)
class Note:
    """A noun that is kept."""

    lines: tuple[str, ...] = ()


def read(path: Path) -> Note | None:
    return kept.read(Note, path, 2, AGAIN)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "note.json"
    assert read(path) is None
    kept.write(path, Note(("a", "b")), 2)
    assert read(path) == Note(("a", "b"))


def test_fields_of_a_later_version_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_text('{"version": 1, "lines": ["a"], "later": 3}')
    assert read(path) == Note(("a",))


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (b"", "Expecting value"),
        (b"[]", 'it is no object with a "version"'),
        (b"\xff", "can't decode"),
        (b"[" * 5000, "nested too deeply"),
        (b'{"version": 0}', "0 is no version of its format"),
        (b'{"version": 1, "lines": 3}', "note.json.lines: expected list, found 3"),
    ],
)
def test_a_damaged_file_says_what_to_do(text: bytes, fact: str, tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_bytes(text)
    with pytest.raises(kept.Damaged) as refused:
        read(path)
    assert fact in refused.value.fact
    assert refused.value.fact.startswith(f"{path} is damaged: ")
    assert refused.value.next_step == AGAIN


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_text('{"version": 3}')
    with pytest.raises(kept.NewerFormat, match=r"has version 3 .* reads version 2\. Upgrade pytest-tfperf$"):
        read(path)


def test_what_the_system_refuses_is_worded(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match=r"can't be read: Is a directory\. Correct its permissions$"):
        read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(TfperfError, match=r"can't be written: a file is in its way\. Move that file away$"):
        kept.write(tmp_path / "file" / "note.json", Note(), 1)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), "x can't be read: Permission denied. Do that"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "x can't be read: No space left on device. Free some space"),
        (OSError("odd"), "x can't be read: odd. Do that"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"), "x can't be read: it is not UTF-8. Do that"),
    ],
)
def test_an_error_of_the_system_gets_a_next_step(error: Exception, text: str) -> None:
    with pytest.raises(BaselineError) as refused, worded("x", "read", "Do that", kind=BaselineError):
        raise error
    assert str(refused.value) == text


def test_the_other_way_out_holds_on_a_full_disk() -> None:
    with pytest.raises(TfperfError) as refused, worded("x", "written", "Make it writable, or name another with --dir"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert refused.value.next_step == "Free some space, or name another with --dir"


def test_a_text_that_can_not_be_encoded_is_no_fault_of_the_file() -> None:
    with pytest.raises(UnicodeDecodeError), worded("x", "written"):
        b"\xff".decode()
