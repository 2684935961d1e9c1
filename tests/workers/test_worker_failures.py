"""What a message says about a worker that failed: the fault, the phase, the cause and the end of its log."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_tfperf
from pytest_tfperf.errors import DeviceFailed, FunctionMissing, Hung, MeasurementError, OutOfMemory, UserCodeFailed
from pytest_tfperf.lines import plain
from pytest_tfperf.workers.failures import (
    OUT_OF_MEMORY,
    describe_exit,
    first_line,
    last_lines,
    log_warnings,
    of_program,
    read_end,
    user_frames,
)
from pytest_tfperf.workers.processes import Process
from pytest_tfperf.workers.worker_run import WorkerRun

OURS = f"{Path(pytest_tfperf.__file__).parent}/training/worker.py"
KERAS = "/venv/lib/python3.11/site-packages/keras/src/layer.py"
USERS = '  File "/home/me/nets.py", line 7, in tiny'


def no_oom_kills() -> int:
    return 7


class Failures:
    """The errors of a worker that has this log and ends in these ways; nothing here is started or ended."""

    def __init__(self, folder: Path, log: str, **more: Any) -> None:
        self._log = folder / "worker.log"
        self._log.write_text(log)
        self._more = {"on_cpus": True, "oom_kills": no_oom_kills} | more

    def _worker(self, phase: str, status: int | None = None) -> WorkerRun:
        process = Process(4711, lambda _: status, is_ended_here=False)
        worker = WorkerRun(process, self._log, None, {}, python="python", silence_seconds=3.0, **self._more)
        worker.begin(phase)
        return worker

    def raised(self, sent: dict[str, Any], phase: str) -> MeasurementError:
        return self._worker(phase).raised(sent)

    def died(self, status: int | None, phase: str) -> MeasurementError:
        return self._worker(phase, status).lost()

    def hung(self, phase: str) -> Hung:
        return self._worker(phase).silent()


def failures(folder: Path, log: str = "", **more: Any) -> Failures:
    return Failures(folder, log, **more)


def error(message: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "InternalError",
        "message": message,
        "below": [],
        "hint": "",
        "ours": False,
        "out_of_memory": False,
    } | more


# Out of memory, or another fault

BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
MKL = "W0000 op_kernel.cc:1858] OP_REQUIRES failed at mkl_util.h:848 : RESOURCE_EXHAUSTED: OOM when allocating tensor\n"
CHECKED = "F0000 stream.cc:102] Non-OK-status: stream->Memset() Status: INTERNAL: CUDA_ERROR: Internal: out of memory\n"
NCCL = "F0000 nccl_manager.cc:50] unhandled cuda error. Last NCCL warning log entry: 'Cuda failure 'out of memory''\n"
ONLY_WARNED = """\
W0000 bfc_allocator.cc:310] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.20GiB with freed_by_count=0. \
The caller indicates that this is not a failure, but this may mean that there could be performance gains.
"""
STACKS = "Fatal Python error: Segmentation fault\n\n" + '  File "execute.py", line 53 in quick_execute\n' * 40


@pytest.mark.parametrize("end", [signal.SIGABRT, signal.SIGSEGV])
@pytest.mark.parametrize("log", [BAD_ALLOC, MKL, CHECKED, NCCL], ids=["bad_alloc", "mkl", "checked", "nccl"])
def test_native_code_that_wrote_about_memory_before_it_crashed_ran_out_of_it(
    tmp_path: Path, log: str, end: signal.Signals
) -> None:
    assert type(failures(tmp_path, log + STACKS).died(-end, "steps")) is OutOfMemory


@pytest.mark.parametrize(
    ("status", "log"),
    [
        (-signal.SIGSEGV, ONLY_WARNED + STACKS),
        (-signal.SIGABRT, "check failed\n"),
        (-signal.SIGKILL, BAD_ALLOC),
        (1, BAD_ALLOC),
        (None, ""),
    ],
    ids=["an allocator only warned", "aborted", "killed", "exited", "still runs"],
)
def test_any_other_end_is_not_out_of_memory(tmp_path: Path, status: int | None, log: str) -> None:
    assert type(failures(tmp_path, log).died(status, "steps")) is MeasurementError


HOLDS = "nvidia-smi shows which"
MODE = "-q -d COMPUTE"
SHM = "--shm-size=1g --ulimit memlock=-1"
XLA = "leave xla and jit_compile out"
DRIVER = "CUDA 12 needs R525 or newer"
NO_CODE = "has no code for this GPU"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cudaSetDevice() on GPU:0 failed. Status: out of memory", HOLDS),
        ("cudaSetDevice() on GPU:0 failed. Status: all CUDA-capable devices are busy or unavailable", MODE),
        ("CUDA-capable device(s) is/are busy or unavailable", MODE),
        (
            "cudaSetDevice() on GPU:0 failed. Status: CUDA driver version is insufficient for CUDA runtime version",
            DRIVER,
        ),
        ("cudnnConvolutionForward: no kernel image is available for execution on the device", NO_CODE),
        ("CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH in tensorflow/stream_executor/cuda/cuda_dnn.cc", NO_CODE),
        ("No BLAS support for stream", HOLDS),
        ("No DNN support in stream.", HOLDS),
        ("NCCL operation ncclAllReduce failed: unhandled cuda error", HOLDS),
        ("NCCL operation ncclGroupEnd() failed: unhandled system error", SHM),
        ("NCCL WARN Error: failed to extend /dev/shm/nccl-03v824 to 4194660 bytes", SHM),
        ("LLVM ERROR: PTX version 8.5 does not support target 'sm_120'. Minimum required PTX version is 8.7", XLA),
        ("OOM when allocating tensor", None),  # our own batch is too large
    ],
)
def test_a_known_cause_is_named_whether_the_worker_raised_or_died(tmp_path: Path, text: str, said: str | None) -> None:
    of_gpu = failures(tmp_path, f"{text}\n", on_cpus=False)
    for found in (of_gpu.raised(error(text), "steps"), of_gpu.died(-signal.SIGABRT, "steps")):
        assert [cause for cause in (HOLDS, MODE, SHM, XLA, DRIVER, NO_CODE) if cause in found.fact] == (
            [said] if said else []
        )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (OUT_OF_MEMORY, OutOfMemory),
        (-signal.SIGKILL, OutOfMemory),
        (128 + signal.SIGKILL, OutOfMemory),
        (-signal.SIGSEGV, MeasurementError),
    ],
    ids=["seen by Slurm", "killed", "killed under mpirun", "crashed"],
)
def test_a_kill_that_the_kernel_counted_is_out_of_memory(
    tmp_path: Path, status: int, kind: type[MeasurementError]
) -> None:
    assert type(failures(tmp_path, oom_kills=count().__next__).died(status, "model")) is kind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/data/a.tfrecord; Too many open files", "raise it with `ulimit -n`"),
        ("/tmp/cache_0; No space left on device", "The disk is full: free some space"),
        ("[Errno 122] Disk quota exceeded: '/home/me/x'", "`quota -s` shows it"),
        ("Received message larger than max (9 vs. 4)", "send less data at a time"),
    ],
)
@pytest.mark.parametrize("on_cpus", [True, False])
def test_what_is_full_is_named_with_the_next_step_and_is_not_memory(
    tmp_path: Path, text: str, said: str, on_cpus: bool
) -> None:
    """TensorFlow and the C library write these texts; a worker that can't write may also crash."""
    of_worker = failures(tmp_path, f"RESOURCE_EXHAUSTED: {text}\n", on_cpus=on_cpus)
    for found in (of_worker.raised(error(text), "steps"), of_worker.died(-signal.SIGABRT, "steps")):
        assert (type(found), said in found.fact) == (DeviceFailed, True)


def test_what_was_full_in_a_users_function_is_followed_by_the_next_step(tmp_path: Path) -> None:
    sent = error("input_pipeline 'nets:files' raised OSError: [Errno 24] Too many open files", ours=True)
    fact = failures(tmp_path).raised(sent, "input pipeline").fact
    assert "Too many open files (in phase 'input pipeline'). The limit of open files is reached: raise it" in fact


TOO_FEW = error("TensorFlow sees 0 GPU(s), and 1 are needed", ours=True, type="NotEnoughDevices")


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        pytest.param(TOO_FEW, MeasurementError, id="no GPU"),
        pytest.param(error("CUDNN_STATUS_NOT_INITIALIZED"), DeviceFailed, id="cuDNN"),
        pytest.param(error("CUDA driver version is insufficient for CUDA runtime"), DeviceFailed, id="driver"),
        pytest.param(error("CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error"), DeviceFailed, id="memory error"),
        pytest.param(error("CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized"), DeviceFailed, id="no start"),
        pytest.param(error("CUDA_ERROR_INVALID_PTX", hint=". Is the GPU newer"), DeviceFailed, id="no code"),
        pytest.param(error("CUDNN_STATUS_EXECUTION_FAILED"), DeviceFailed, id="a status of cuDNN"),
        pytest.param(error("failed: CUDA_ERROR_ILLEGAL_ADDRESS"), DeviceFailed, id="a status of CUDA"),
        pytest.param(error("No DNN in stream: out of memory", out_of_memory=True), OutOfMemory, id="memory"),
        pytest.param(error("no such function", ours=True, missing=True), FunctionMissing, id="missing"),
        pytest.param(error("shapes do not fit"), UserCodeFailed, id="user"),
    ],
)
def test_a_fault_of_the_machine_is_not_put_down_to_the_users_code(
    tmp_path: Path, sent: dict[str, Any], kind: type[MeasurementError]
) -> None:
    assert type(failures(tmp_path).raised(sent, "steps")) is kind


def test_a_cudnn_that_is_too_old_is_named_and_no_other_process(tmp_path: Path) -> None:
    log = "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.\n"
    found = failures(tmp_path, log).raised(error("DNN library initialization failed"), "steps")
    assert ("pip install --upgrade nvidia-cudnn" in str(found), "Often another process" in str(found)) == (True, False)


# Messages


def test_a_death_names_process_exit_phase_and_log(tmp_path: Path) -> None:
    assert str(failures(tmp_path, "one\n\ntwo\n").died(3, "compile")) == (
        "the worker (pid 4711) exited with status 3 in phase 'compile'\n"
        f"the end of its log ({tmp_path}/worker.log):\n  | one\n  | two"
    )


def test_in_brief_a_worker_that_died_has_the_last_line_of_its_log(tmp_path: Path) -> None:
    log = "Traceback (most recent call last):\n  File \"a.py\"\nModuleNotFoundError: No module named 'psutil'\n\n"
    assert failures(tmp_path, log).died(1, "start").brief == (
        "the worker (pid 4711) exited with status 1 in phase 'start': ModuleNotFoundError: No module named 'psutil' "
        f"({tmp_path}/worker.log)"
    )


def test_in_brief_a_worker_without_a_log_says_so(tmp_path: Path) -> None:
    assert "exited with status 1 in phase 'start': its log is empty (" in failures(tmp_path).died(1, "start").brief


@pytest.mark.parametrize(
    ("sent", "headline"),
    [
        (error(""), "the worker raised InternalError in phase 'steps'"),
        (error("no", hint=". See nvidia-smi"), "the worker raised InternalError in phase 'steps': no. See nvidia-smi"),
    ],
)
def test_an_exception_is_named_with_its_phase_and_cause(tmp_path: Path, sent: dict[str, Any], headline: str) -> None:
    assert str(failures(tmp_path).raised(sent, "steps")).splitlines()[0] == headline


@pytest.mark.parametrize(("log", "shown"), [(f'  File "{OURS}", line 3, in f\n', False), (USERS, True)])
def test_an_error_of_this_package_is_shown_as_it_is_with_the_users_lines_that_led_to_it(
    tmp_path: Path, log: str, shown: bool
) -> None:
    sent = error("model 'nets:absent': no such function", below=["Known: tiny"], ours=True)
    said = str(failures(tmp_path, log).raised(sent, "model"))
    assert said.startswith("model 'nets:absent': no such function (in phase 'model')\nKnown: tiny\n")
    assert (f"{tmp_path}/worker.log" in said, f"  | {USERS}" in said) == (True, shown)


def test_an_error_of_this_package_in_one_of_several_ranks_names_the_rank(tmp_path: Path) -> None:
    rank = failures(tmp_path, name="rank 1 of 2 on nodeb")
    said = str(rank.raised(error("model 'nets:absent': no such function", ours=True), "model"))
    assert said.startswith("rank 1 of 2 on nodeb: model 'nets:absent': no such function (in phase 'model')\n")


def test_a_hang_names_the_users_lines_the_option_and_what_the_worker_wrote_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = f'Thread 0x7f (most recent call first):\n  File "{KERAS}", line 198, in next\n{USERS}\n'
    monkeypatch.setattr(WorkerRun, "_stacks", lambda _: stacks)
    hung = failures(tmp_path, f"connecting to storage\n{stacks}").hung("steps")
    assert type(hung) is Hung
    assert str(hung).splitlines() == [
        "the worker (pid 4711) said nothing for 3 s in phase 'steps' and was killed; "
        "ini value tfperf_timeout sets a longer limit",
        "its threads were in these lines of your code:",
        USERS,
        f"the end of its log ({tmp_path}/worker.log), before its threads wrote their stacks:",
        "  | connecting to storage",
    ]


# The line that names the cause

PIPELINE = """\
Graph execution error:

Detected at node PyFunc defined at (most recent call last):
<stack traces unavailable>
ValueError: disk on fire
Traceback (most recent call last):

  File "/home/me/nets.py", line 20, in batches
    raise ValueError("disk on fire")

ValueError: disk on fire


\t [[{{node PyFunc}}]]"""

SEVERAL = """\
2 root error(s) found.
  (0) INVALID_ARGUMENT:  assertion failed: [enough of it]
\t [[{{node assert_1/Assert}}]]
  (1) CANCELLED:  RecvAsync is cancelled.
0 successful operations.
0 derived errors ignored. [Op:__inference__steps_150]"""

IN_A_LAYER = """\
Exception encountered when calling Odd.call().

\x1b[1mCannot reshape a tensor with 3 elements to shape [2]\x1b[0m

Arguments received by Odd.call():
  • images=tf.Tensor(shape=(1, 8, 8, 3), dtype=float32)"""

TRACED = """\
in user code:

    File "/home/me/nets.py", line 9, in call  *
        return tf.reshape(images, [2])

    ValueError: Cannot reshape a tensor with 3 elements to shape [2]
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PIPELINE, "ValueError: disk on fire"),
        (SEVERAL, "(0) INVALID_ARGUMENT:  assertion failed: [enough of it]"),
        (IN_A_LAYER, "Cannot reshape a tensor with 3 elements to shape [2]"),
        (TRACED, "ValueError: Cannot reshape a tensor with 3 elements to shape [2]"),
        ("the layers do not fit\nthey are 3 and 4 wide", "the layers do not fit"),
        ("", ""),
    ],
    ids=["pipeline", "several", "layer", "traced", "plain", "empty"],
)
def test_the_first_line_says_what_was_wrong(text: str, line: str) -> None:
    assert first_line(text) == line


@given(st.text())
def test_a_first_line_is_one_short_line_whatever_the_text(text: str) -> None:
    line = first_line(text)
    assert len(line.splitlines()) <= 1
    assert len(line) < 310


# The end of the log


def end_of(folder: Path, text: bytes, *, on_cpus: bool = False) -> str:
    (folder / "a.log").write_bytes(text)
    return plain(last_lines(read_end(folder / "a.log"), on_cpus=on_cpus))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"", "  | (empty)"),
        (b"CUDA_ERROR \xff\xfe\n", "  | CUDA_ERROR \ufffd\ufffd"),
        (b"x" * 10_000_000 + b"\nthe last line", f"  | {'x' * 300} ...\n  | the last line"),
        (b"x\n" * 500 + b"y", "  | x\n" * 19 + "  | y"),
    ],
    ids=["empty", "not text", "long lines", "many lines"],
)
def test_the_last_twenty_lines_are_shown_shortened(tmp_path: Path, text: bytes, shown: str) -> None:
    assert end_of(tmp_path, text) == shown


def test_a_missing_log_is_shown_as_empty(tmp_path: Path) -> None:
    assert plain(last_lines(read_end(tmp_path / "a.log"))) == "  | (empty)"


@pytest.mark.parametrize(("on_cpus", "shown"), [(True, 1), (False, 4)])
def test_what_tensorflow_writes_about_gpus_is_left_out_on_cpus(tmp_path: Path, on_cpus: bool, shown: int) -> None:
    about_gpus = b"""\
E0000 00:00:1795300893.416588   11886 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: UNKNOWN
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
2024-03-05 10:00:00.123456: I external/local_tsl/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers
"""
    assert len(end_of(tmp_path, about_gpus + b"ValueError: no GPU\n", on_cpus=on_cpus).splitlines()) == shown


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/home/me/nets.py", True),
        (KERAS, False),
        (OURS, False),
        ("/usr/lib/python3.11/threading.py", False),
        ("numpy/random/_generator.pyx", False),
        ("<frozen runpy>", False),
    ],
)
def test_the_users_code_is_distinguished_from_libraries(file: str, users: bool) -> None:
    assert bool(user_frames([f'  File "{file}", line 3, in f', "ValueError: no"])) is users


# Exit statuses


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (3, "exited with status 3"),
        (-9, "was ended by SIGKILL (somebody's kill -9, or the kernel's out-of-memory killer: see dmesg)"),
        (-11, "was ended by SIGSEGV (a crash in native code)"),
        (-6, "was ended by SIGABRT (native code gave up)"),
        (-40, "was ended by signal 40"),
        (137, "was ended by SIGKILL (somebody's kill -9, or the kernel's out-of-memory killer: see dmesg)"),
        (139, "was ended by SIGSEGV (a crash in native code)"),
        (255, "exited with status 255"),
        (OUT_OF_MEMORY, "was ended by the kernel's out-of-memory killer"),
    ],
)
def test_an_exit_status_is_described(status: int, text: str) -> None:
    assert describe_exit(status) == text


# Warnings, with which training goes on

PINNED = "W0000 gpu_host_allocator.h:46] could not allocate pinned host memory of size: 2147483648"
AUTOTUNING = "W0000 redzone_allocator.cc:102] Delay kernel timed out: measured time has sub-optimal accuracy."
NO_CUDA = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12040)."
NO_JAXLIB = "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([PINNED], "no_pinned_memory"),
        ([AUTOTUNING, PINNED], "no_pinned_memory+inexact_autotuning"),
        ([ONLY_WARNED.replace("gains", "gains if more memory were available")], "little_memory"),
        ([NO_CUDA], "no_cuda"),
        ([NO_JAXLIB], "no_cuda"),
        (["step 1 of 100", "loss 2.3"], "none"),
        ([], "none"),
    ],
)
def test_warnings_of_a_log_have_names(lines: list[str], expected: str, tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text("\n".join([*lines, "x" * 300_000]))
    assert log_warnings(str(tmp_path / "worker.log")) == expected


def test_a_log_that_can_not_be_read_has_no_warnings(tmp_path: Path) -> None:
    assert log_warnings(str(tmp_path / "none.log")) == "none"


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (f"{NO_CUDA}\nValueError: shapes do not fit", UserCodeFailed),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12040).", DeviceFailed),
        ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet", DeviceFailed),
    ],
)
def test_a_program_that_only_warned_of_cuda_failed_by_itself(output: str, kind: type[MeasurementError]) -> None:
    assert of_program(output)[0] is kind
