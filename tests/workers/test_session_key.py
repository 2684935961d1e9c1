"""The file with a session's key: who can read it, how long it lasts, and what a killed session leaves."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pytest_tfperf.workers.wire import new_key_file, read_key
from tests.helpers.patience import running

KEY = "0a" * 32
HOLDER = """
import sys, time
from pathlib import Path
from pytest_tfperf.workers.wire import new_key_file
with new_key_file(Path(sys.argv[1]), "0b" * 32) as path:
    print(path, flush=True)
    time.sleep(600)
"""


def test_a_new_key_can_be_read_by_its_owner_while_ranks_are_awaited_and_is_then_gone(tmp_path: Path) -> None:
    with new_key_file(tmp_path / "made", KEY) as path:
        assert (read_key(path), stat.S_IMODE(path.stat().st_mode)) == (KEY, 0o600)
    assert not any((tmp_path / "made").iterdir())


def test_a_key_is_removed_where_the_ranks_failed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_key_file(tmp_path, KEY):
        raise RuntimeError
    assert not any(tmp_path.iterdir())


def test_the_next_session_removes_the_key_of_a_killed_one_and_leaves_all_others(tmp_path: Path) -> None:
    own = tmp_path / "key-of-a-user"
    own.touch()
    with running(HOLDER, tmp_path) as killed, running(HOLDER, tmp_path) as living:
        left, used = (
            Path((process.stdout.readline() if process.stdout else "").strip()) for process in (killed, living)
        )
        killed.kill()
        killed.wait()
        with new_key_file(tmp_path, KEY) as path:
            assert set(tmp_path.iterdir()) == {own, used, path}
        living.kill()
    assert left != used
