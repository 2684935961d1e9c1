"""Which processes are ended as orphans of a program."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from pytest_tfperf.workers import process_end
from pytest_tfperf.workers.process_end import kill_marked


@pytest.fixture(params=[os.pipe, pty.openpty])
def writing_end(request: pytest.FixtureRequest) -> Iterator[int]:
    opens: Callable[[], tuple[int, int]] = request.param
    ends = opens()
    yield ends[1]
    for end in ends:
        os.close(end)


@pytest.fixture
def writer(writing_end: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes to it, and the only one that is looked at: a fault must not end all of this machine."""
    process = subprocess.Popen(["sleep", "60"], stdout=writing_end)
    monkeypatch.setattr(process_end, "_pids", lambda: {process.pid})
    yield process
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()


def test_who_writes_to_the_output_is_ended(writer: subprocess.Popen[bytes], writing_end: int) -> None:
    kill_marked("PYTEST_TFPERF_PROGRAM=of nobody", os.fstat(writing_end), since=0)
    assert writer.wait(60) == -signal.SIGKILL


def test_who_writes_to_another_output_of_the_same_name_is_left_alone(
    writer: subprocess.Popen[bytes], writing_end: int
) -> None:
    here = os.fstat(writing_end)
    elsewhere = os.stat_result((*here[:2], here.st_dev + 1, *here[3:10]))  # as each container has a /dev/pts/0
    kill_marked("PYTEST_TFPERF_PROGRAM=of nobody", elsewhere, since=0)
    writer.terminate()
    assert writer.wait(60) == -signal.SIGTERM


def test_who_began_before_the_program_is_left_alone(writer: subprocess.Popen[bytes], writing_end: int) -> None:
    after = process_end.started_at(writer.pid) + 1
    kill_marked("PYTEST_TFPERF_PROGRAM=of nobody", os.fstat(writing_end), since=after)
    writer.terminate()
    assert writer.wait(60) == -signal.SIGTERM
