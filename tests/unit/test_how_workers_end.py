"""What the driver makes of a worker's end: out of memory, or something else."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.connection import ConnectionLost
from pytest_tfperf.errors import MeasurementError, OutOfMemory
from pytest_tfperf.launchers import local
from pytest_tfperf.launchers.local import LocalRun

BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
MKL = """\
W0000 bfc_allocator.cc:502] Allocator (mklcpu) ran out of memory trying to allocate 32.00MiB requested by op while/conv
W0000 op_kernel.cc:1858] OP_REQUIRES failed at mkl_util.h:848 : RESOURCE_EXHAUSTED: OOM when allocating tensor
"""
CHECKED = "F0000 stream.cc:102] Non-OK-status: stream->Memset() Status: INTERNAL: CUDA_ERROR: Internal: out of memory\n"
NCCL = "F0000 nccl_manager.cc:50] unhandled cuda error. Last NCCL warning log entry: 'Cuda failure 'out of memory''\n"
COULD_DO_WITH_MORE = """\
W0000 bfc_allocator.cc:310] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.20GiB with freed_by_count=0. \
The caller indicates that this is not a failure, but this may mean that there could be performance gains.
"""
STACKS = "Fatal Python error: Segmentation fault\n\n" + '  File "execute.py", line 53 in quick_execute\n' * 40


class Ended:
    """A worker process that has ended."""

    pid = 4711

    def __init__(self, status: int) -> None:
        self._status = status

    def exit_status(self, timeout_seconds: float) -> int:
        return self._status

    def end(self) -> None:
        pass


class Lingering(Ended):
    """One that was killed, and that the driver of its GPU holds for a while."""

    waited_seconds = 0.0

    def exit_status(self, timeout_seconds: float) -> int:
        self.waited_seconds += timeout_seconds
        return super().exit_status(timeout_seconds)


class Last:
    """A channel on which one more message comes, or none."""

    def __init__(self, message: dict[str, Any] | None) -> None:
        self._message = message

    def receive(self, timeout_seconds: float) -> dict[str, Any]:
        if self._message is None:
            raise ConnectionLost("closed")
        return self._message


def end(folder: Path, status: int = 1, log: str = "", message: dict[str, Any] | None = None) -> MeasurementError:
    """What `receive` raises of a worker that ended so."""
    path = folder / "worker.log"
    path.write_text(log)
    run = LocalRun(Ended(status), path, folder / "scratch", 5.0, "python")
    run._channel = Last(message)  # type: ignore[assignment]  # `prepare` takes it from a real connection
    with pytest.raises(MeasurementError) as caught:
        run.receive()
    return caught.value


@pytest.fixture
def kernel_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's count of out-of-memory kills rises each time it is looked at."""
    counts = iter(range(1000))
    monkeypatch.setattr(local, "_out_of_memory_kills", lambda: next(counts))


@pytest.fixture
def kernel_is_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_out_of_memory_kills", lambda: 7)


@pytest.mark.usefixtures("kernel_kills")
def test_a_kill_that_the_kernel_counted_is_out_of_memory(tmp_path: Path) -> None:
    assert type(end(tmp_path, -signal.SIGKILL)) is OutOfMemory


@pytest.mark.usefixtures("kernel_is_calm")
def test_somebodys_kill_is_not_out_of_memory(tmp_path: Path) -> None:
    assert type(end(tmp_path, -signal.SIGKILL)) is MeasurementError


@pytest.mark.usefixtures("kernel_kills")
def test_a_crash_while_the_kernel_killed_another_is_not_out_of_memory(tmp_path: Path) -> None:
    assert type(end(tmp_path, -signal.SIGSEGV)) is MeasurementError


def test_native_code_that_could_not_allocate_is_out_of_memory(tmp_path: Path) -> None:
    assert type(end(tmp_path, -signal.SIGABRT, BAD_ALLOC)) is OutOfMemory


@pytest.mark.parametrize("end_by", [signal.SIGABRT, signal.SIGSEGV])
@pytest.mark.parametrize("said", [MKL, CHECKED, NCCL], ids=["mkl", "checked", "nccl"])
def test_native_code_that_spoke_of_memory_above_its_stacks_ran_out_of_it(
    tmp_path: Path, said: str, end_by: signal.Signals
) -> None:
    assert type(end(tmp_path, -end_by, said + STACKS)) is OutOfMemory


def test_a_crash_after_an_allocator_only_warned_is_not_out_of_memory(tmp_path: Path) -> None:
    assert type(end(tmp_path, -signal.SIGSEGV, COULD_DO_WITH_MORE + STACKS)) is MeasurementError


def test_native_code_that_gave_up_otherwise_is_not_out_of_memory(tmp_path: Path) -> None:
    assert type(end(tmp_path, -signal.SIGABRT, "check failed\n")) is MeasurementError


@pytest.mark.parametrize(("flag", "kind"), [(True, OutOfMemory), (False, MeasurementError)])
def test_a_worker_says_itself_whether_it_ran_out_of_memory(
    tmp_path: Path, flag: bool, kind: type[MeasurementError]
) -> None:
    error = {"type": "InternalError", "message": "no", "out_of_memory": flag}
    assert type(end(tmp_path, message={"error": error})) is kind


@pytest.mark.parametrize(("on_cpus", "seconds"), [(True, 0.0), (False, 60.0)])
def test_a_worker_on_gpus_is_waited_for_until_its_memory_is_free(tmp_path: Path, on_cpus: bool, seconds: float) -> None:
    process = Lingering(-signal.SIGKILL)
    LocalRun(process, tmp_path / "worker.log", tmp_path / "scratch", 5.0, "python", on_cpus=on_cpus).close()
    assert process.waited_seconds == seconds
