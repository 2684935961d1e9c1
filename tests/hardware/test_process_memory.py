"""The most memory that a program and what it starts need, of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_tfperf.hardware.sampler import ProcessMemory

MIB = 2**20
HOLDS = "import sys; held = b'x' * ({mib} << 20); print('ready', flush=True); sys.stdin.read()"
SPIKES = "import sys; len(b'x' * ({mib} << 20)); print('ready', flush=True); sys.stdin.read()"
FORKS = "import os, sys; held = b'x' * ({mib} << 20); os.fork(); print('ready', flush=True); sys.stdin.read()"


@contextmanager
def started(code: str, mib: int) -> Iterator[None]:
    """A child of this process that has printed that it is ready."""
    command = [sys.executable, "-c", code.format(mib=mib)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize(
    ("code", "mib"),
    [
        pytest.param(HOLDS, 200, id="held"),
        pytest.param(SPIKES, 200, id="a-spike-that-is-over"),
        pytest.param(FORKS, 200, id="shared-pages-once"),
    ],
)
def test_the_peak_is_what_the_program_needed(code: str, mib: int) -> None:
    with started(code, mib):
        peak = ProcessMemory(os.getpid()).__enter__().peak_bytes()
    assert peak is not None
    assert mib * MIB < peak < (mib + 100) * MIB


def test_a_program_that_is_gone_has_no_peak() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        assert ProcessMemory(process.pid).__enter__().peak_bytes() is None
