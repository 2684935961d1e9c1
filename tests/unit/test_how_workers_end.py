"""What the driver makes of a worker's end: out of memory, or something else."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.errors import Hung, MeasurementError, OutOfMemory, OutOfTime
from pytest_tfperf.workers import local
from pytest_tfperf.workers.local import LocalRun
from pytest_tfperf.workers.wire import ConnectionLost, Silence

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


def test_native_code_that_could_not_allocate_is_known_above_the_stacks(tmp_path: Path) -> None:
    log = BAD_ALLOC + "Current thread 0x0 (most recent call first):\n" + '  File "/lib/f.py", line 1 in f\n' * 100
    assert type(end(tmp_path, -signal.SIGABRT, log)) is OutOfMemory


def test_native_code_that_gave_up_otherwise_is_not_out_of_memory(tmp_path: Path) -> None:
    assert type(end(tmp_path, -signal.SIGABRT, "check failed\n")) is MeasurementError


@pytest.mark.parametrize(("flag", "kind"), [(True, OutOfMemory), (False, MeasurementError)])
def test_a_worker_says_itself_whether_it_ran_out_of_memory(
    tmp_path: Path, flag: bool, kind: type[MeasurementError]
) -> None:
    assert type(end(tmp_path, message=raised("no", out_of_memory=flag))) is kind


@pytest.mark.parametrize(("on_cpus", "seconds"), [(True, 0.0), (False, 60.0)])
def test_a_worker_on_gpus_is_waited_for_until_its_memory_is_free(tmp_path: Path, on_cpus: bool, seconds: float) -> None:
    process = Lingering(-signal.SIGKILL)
    LocalRun(process, tmp_path / "worker.log", tmp_path / "scratch", 5.0, "python", on_cpus=on_cpus).close()
    assert process.waited_seconds == seconds


def raised(message: str, **more: Any) -> dict[str, Any]:
    fault = {"type": "InternalError", "message": message, "hint": "", "ours": False, "out_of_memory": False}
    return {"error": fault | more}


class Mute:
    """A channel on which nothing comes in time."""

    def receive(self, timeout_seconds: float) -> dict[str, Any]:
        raise Silence("nothing")


@pytest.mark.parametrize(("max_seconds", "kind", "hung"), [(0.0, OutOfTime, []), (math.inf, Hung, ["hung"])])
def test_a_worker_whose_time_is_over_did_not_hang(
    tmp_path: Path, max_seconds: float, kind: type[MeasurementError], hung: list[str]
) -> None:
    told: list[str] = []
    run = LocalRun(
        Ended(0), tmp_path / "a", tmp_path, 5.0, "python", on_hang=lambda: told.append("hung"), max_seconds=max_seconds
    )
    run._channel = Mute()  # type: ignore[assignment]  # as above
    with pytest.raises(kind):
        run.receive()
    assert told == hung


ASSERTION = 'Graph execution error:\n\n  File "/lib/layer.py", line 3, in f\nassertion failed: [no]\n\t [[{{node A}}]]'


def test_the_headline_names_the_cause(tmp_path: Path) -> None:
    headline = str(end(tmp_path, message=raised(ASSERTION))).splitlines()[0]
    assert headline == "the worker raised InternalError in phase 'start': assertion failed: [no]"


def test_an_error_without_words_has_a_headline(tmp_path: Path) -> None:
    assert str(end(tmp_path, message=raised(""))).splitlines()[0] == "the worker raised InternalError in phase 'start'"


def test_what_may_be_behind_an_error_follows_its_cause(tmp_path: Path) -> None:
    said = str(end(tmp_path, message=raised(ASSERTION, hint=". Look at nvidia-smi")))
    assert "assertion failed: [no]. Look at nvidia-smi\n" in said


NO_FUNCTION = "model 'nets:nosuch': 'nets' has no function 'nosuch'"
OUR_FRAME = f'  File "{local.__file__}", line 3, in f\n'


def test_an_error_of_ours_is_shown_as_it_is_without_our_frames(tmp_path: Path) -> None:
    said = str(end(tmp_path, log=OUR_FRAME, message=raised(f"{NO_FUNCTION}\nKnown: tiny", ours=True)))
    assert said == f"{NO_FUNCTION} (in phase 'start')\nKnown: tiny\nits log: {tmp_path / 'worker.log'}"


def test_an_error_of_ours_shows_the_users_line_that_led_to_it(tmp_path: Path) -> None:
    users = '  File "/home/me/nets.py", line 7, in tiny\n'
    assert "  | " + users.strip("\n") in str(end(tmp_path, log=users, message=raised("it raised", ours=True)))
