"""What the log and the exit status of a worker or a program say about its fault: likely causes, and the last lines."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import DeviceFailed, MeasurementError, OutOfMemory, UserCodeFailed
from pytest_tfperf.lines import Line, LineKind, without_passwords

_PACKAGE = Path(__file__).parent.parent

SHOWN_LINES = 20
"""The number of a log's last lines that an error shows."""

OUT_OF_MEMORY: Final = -253
"""The exit status of a process that Slurm saw killed for its memory, Slurm's SIG_OOM; no signal has this number."""

_COLUMNS = 300
_LAST_SIGNAL = 31  # the last signal with a name; real-time signals follow
_MOST_BYTES = 256 * 1024  # a worker may have written to its log for hours

# After a failed allocation native code aborts, or it does not check and crashes. An allocator that only warns that it
# could use more memory has not failed.
_NATIVE_OUT_OF_MEMORY = re.compile(
    r"std::bad_alloc|out of memory(?!.*not a failure)|RESOURCE_EXHAUSTED|_ALLOC_FAILED", re.IGNORECASE
)

LITTLE_MEMORY: Final = "little_memory"

# Lines of a log with which training goes on, perhaps slower: by a name without blanks, for a run's environment.
_WARNINGS = {
    # TensorFlow's and XLA's allocators, and CUDA's words in a data loader's thread that pins memory.
    "no_pinned_memory": r"could not allocate pinned host memory|failed to alloc(ate)? \d+ bytes on host|"
    r"pin memory thread.*CUDA error",
    # XLA: the times by which it chose its algorithms were inexact, so the next worker may choose others.
    "inexact_autotuning": r"sub-optimal accuracy|None of the algorithms provided by \w+ heuristics worked",
    # TensorFlow lacked the memory for a faster algorithm.
    LITTLE_MEMORY: r"this may mean that there could be performance gains if more memory were available",
    # PyTorch and JAX, of a program that then trains on the CPU.
    "no_cuda": r"CUDA initialization: |no accelerator is found|An NVIDIA GPU may be present on this machine, but",
}
_BEGIN_BYTES = 2**20

# A pattern in an error's text or at a log's end, and the likely cause. The first match counts.
_HINTS = (
    (
        # XLA's, in the log above cuDNN's error: another package of the environment may pin an older one.
        r"Loaded runtime CuDNN library: .* but source was compiled with",
        "The installed cuDNN is older than the one that this TensorFlow was built with: pip install --upgrade "
        "nvidia-cudnn-cu12",
    ),
    (
        # CUDA's runtime, also in PyTorch's errors.
        r"CUDA driver version is insufficient",
        "The NVIDIA driver is older than the installed CUDA libraries: CUDA 12 needs R525 or newer, CUDA 13 R580",
    ),
    (
        # cuDNN from 9.11 on has none for GPUs before Turing, such as P100 and V100.
        r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDNN_STATUS_\w*ARCH_MISMATCH",
        "A CUDA library has no code for this GPU: `tfperf doctor` says whether it is cuDNN",
    ),
    (
        # cuInit's codes 802 to 804, and PyTorch's errors for these, 999, and a driver that is too old. It also warns of
        # them, and then the program trains on the CPU.
        r"SYSTEM_NOT_READY|SYSTEM_DRIVER_MISMATCH|COMPAT_NOT_SUPPORTED|(?<!CUDA initialization: )"
        r"(Unexpected error from cudaGetDeviceCount|CUDA unknown error|The NVIDIA driver on your system is too old)",
        "CUDA does not start on this machine: `tfperf doctor` says why, and what to do",
    ),
    (
        r"uncorrectable ECC|ECC_UNCORRECTABLE|fallen off the bus",
        "The GPU or its driver is at fault: sudo dmesg | grep -i xid, and nvidia-smi -q -d ECC, say more",
    ),
    (
        r"(busy or unavailable|CUDA_ERROR_DEVICE(S)?_?UNAVAILABLE)",
        "The GPU admits one process, or none: nvidia-smi -q -d COMPUTE shows its compute mode, and sudo nvidia-smi "
        "-c DEFAULT lets several in",
    ),
    (
        # cuBLAS, cuDNN and NCCL, and TensorFlow's words for a library that gave it no handle.
        r"No BLAS support|No DNN support|DNN library initialization failed|(CUDNN|CUBLAS)_STATUS_NOT_INITIALIZED|"
        r"unhandled cuda error|cudaSetDevice\(\) on GPU",
        "Often another process holds the GPU's memory: nvidia-smi shows which",
    ),
    (
        # ncclSystemError; NCCL's user guide says this of Docker under "Shared memory".
        r"unhandled system error|failed to extend /dev/shm/nccl|creating shared memory segment",
        "In a container NCCL needs more shared and pinned memory than Docker gives: docker run --shm-size=1g "
        "--ulimit memlock=-1. NCCL_DEBUG=WARN makes NCCL say what failed",
    ),
    (
        # LLVM's, as in tensorflow/tensorflow#111958 on an RTX 5060 Ti.
        r"LLVM ERROR: .*(PTX version [\d.]+ does not support target|is required for target sm_)",
        "The XLA of this TensorFlow can't compile for a GPU this new: use a newer TensorFlow, or leave xla and "
        "jit_compile out",
    ),
)

# The system's words for what it has no more of, and the next step. TensorFlow gives them the code of a lack of memory.
_FULL = (
    (
        "Too many open files",
        "The limit of open files is reached: raise it with `ulimit -n`, or look for files that are never closed",
    ),
    (
        "No space left on device",
        "The disk is full: free some space; `df -h` and, for the number of files, `df -i` show each disk. Temporary "
        "files are where TMPDIR says, else in /tmp",
    ),
    ("Disk quota exceeded", "The user's disk quota is used up: `quota -s` shows it. Delete files, or get a larger one"),
    ("message larger than max", "A message between processes is too large for gRPC: send less data at a time"),
)
_IS_FULL = re.compile("|".join(words for words, _ in _FULL))

# Statuses of the driver and of cuDNN. A later hint would be a guess.
_OF_THE_GPU = re.compile(r"CUDA_ERROR_[A-Z]|CUDNN_STATUS_[A-Z]")
_GPU_FAILED = "The GPU, its driver or cuDNN failed: sudo dmesg | grep -i xid, and tfperf doctor, may say why"

# In a worker on CPUs TensorFlow writes that it found no GPU, which would look like the cause.
_ABOUT_GPUS = re.compile(
    r"WARNING: All log messages before absl::InitializeLog|"
    r"([IWE]\d{4} \d\d:|\d{4}-\d\d-\d\d .*: [IWE] ).*(cuda|gpu|cuInit|cuDNN|cuBLAS|cuFFT|TensorRT)",
    re.IGNORECASE,
)

# Lines with which TensorFlow and Keras surround the cause in an error's text. Frames of a traceback are indented, and
# so are the root errors if there are several: the first, "(0)", is the cause.
_AROUND_THE_CAUSE = re.compile(
    r"\s(?! \(0\))|Graph execution error:|Detected at node|<stack traces unavailable>|in user code:|"
    r"Exception encountered when calling|\d+ (root error|successful operation|derived error)"
)
_COLOURS = re.compile(r"\x1b\[[\d;]*m")

_FRAME = re.compile(r'File "(?P<file>/[^"]*)", line \d+')  # compiled modules name their files without a folder
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib(64)?/python\d+\.\d+/|/__autograph_generated_")


def log_warnings(log: str) -> str:
    """The names of the warnings in the first MiB of a log, "no_pinned_memory+no_cuda"; "none" without any."""
    try:
        with Path(log).open("rb") as file:
            text = file.read(_BEGIN_BYTES).decode(errors="replace")
    except OSError:
        return "none"
    return "+".join(name for name, pattern in _WARNINGS.items() if re.search(pattern, text)) or "none"


def of_program(output: str) -> tuple[type[MeasurementError], str]:
    """The kind of error that a program's output shows, and its likely cause as of `hint_of`.

    It is the program's own fault, unless it lacked a GPU, memory or space: then the same code may run the next time.
    """
    if lacked_memory(output):
        return OutOfMemory, ""
    hint = hint_of(output) or hint_of_full(output) or hint_of_status(output)
    return (DeviceFailed if hint else UserCodeFailed), hint


def hint_of(text: str) -> str:
    """The likely cause of an error with this text or log, to be appended to a sentence; "" if none is known."""
    return next((f". {cause}" for pattern, cause in _HINTS if re.search(pattern, text)), "")


def hint_of_status(text: str) -> str:
    """As `hint_of`, for a status of CUDA or cuDNN that says no more, in the end of a log or in an error's text."""
    # TensorFlow writes CUDA_ERROR_NO_DEVICE where it finds no GPU, and goes on.
    return f". {_GPU_FAILED}" if _OF_THE_GPU.search(_cause(text)) else ""


def hint_of_full(text: str) -> str:
    """As `hint_of`, for a full disk and the like, in the end of a log or in an error's text."""
    found = is_full(_cause(text))
    return f". {dict(_FULL)[found]}" if found else ""


def is_full(text: str) -> str:
    """The system's words for a full disk or another limit that is no lack of memory; "" without any."""
    found = _IS_FULL.search(text)
    return found[0] if found else ""


def lacked_memory(log: str) -> bool:
    """Whether native code wrote to a log that memory was short."""
    return _NATIVE_OUT_OF_MEMORY.search(log) is not None and not is_full(_cause(log))


def _cause(text: str) -> str:
    """The part of an error's text or of a log in which its cause stands."""
    return "\n".join(text.rpartition("Traceback (most recent call last)")[2].splitlines()[-SHOWN_LINES:])


def first_line(text: str) -> str:
    """The first line of an error's text that says what was wrong: TensorFlow and Keras put other lines above it.

    >>> first_line('Graph execution error:\\n\\n  File "a.py", line 1, in f\\nassertion failed: [no]\\n [[{{node A}}]]')
    'assertion failed: [no]'
    """
    lines = [line for line in _COLOURS.sub("", text).splitlines() if line.strip()] or [""]
    causes = (line for line in lines if not _AROUND_THE_CAUSE.match(line))
    return _shortened(next(causes, lines[-1]).strip())


def last_lines(text: str, *, on_cpus: bool = False) -> list[Line]:
    """The last 20 lines of a log or of its end, `on_cpus` without TensorFlow's about GPUs; "(empty)" without any."""
    lines = [line for line in text.splitlines() if line.strip() and not (on_cpus and _ABOUT_GPUS.match(line))]
    return log_lines(lines[-SHOWN_LINES:] or ["(empty)"])


def log_lines(texts: Iterable[str]) -> list[Line]:
    """Lines of a worker's or a program's output."""
    return [Line(_shortened(text), kind=LineKind.LOG) for text in texts]


def last_line(text: str) -> str:
    """The last line of a log, where a program names the cause of its end; "its log is empty" without one."""
    return next((_shortened(line.strip()) for line in reversed(text.splitlines()) if line.strip()), "its log is empty")


def read_end(log: Path, begin: int = 0) -> str:
    """The text of a log from byte `begin` on, at most its last 256 KiB; "" if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - _MOST_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def user_frames(lines: Iterable[str]) -> list[str]:
    """The frames of a traceback or of threads' stacks that are neither in a library nor in this package."""
    return [line for line in map(str.strip, lines) if (frame := _FRAME.match(line)) and not _in_library(frame["file"])]


def describe_exit(status: int) -> str:
    """An exit status in words; negative ones are signals, and so are 128 + signal, as shells and mpirun say it."""
    status = as_signal(status)
    if status >= 0:
        return f"exited with status {status}"
    if status == OUT_OF_MEMORY:
        return "was ended by the kernel's out-of-memory killer"
    known = {s.value: s.name for s in signal.Signals}  # real-time signals have no names
    name = known.get(-status, f"signal {-status}")
    hint = {
        signal.SIGKILL.value: " (somebody's kill -9, or the kernel's out-of-memory killer: see dmesg)",
        signal.SIGSEGV.value: " (a crash in native code)",
        signal.SIGABRT.value: " (native code gave up)",
    }.get(-status, "")
    return f"was ended by {name}{hint}"


def as_signal(status: int) -> int:
    """The status as subprocess gives it: -9 for 137, by which a shell, mpirun or srun reports a process killed by 9.

    A program could itself exit with such a status, but that is rare.
    """
    return 128 - status if 128 < status <= 128 + _LAST_SIGNAL else status


def _in_library(file: str) -> bool:
    return file.startswith(f"{_PACKAGE}/") or _LIBRARY.search(file) is not None


def _shortened(line: str) -> str:
    line = without_passwords(line)  # no cut may leave a part of one
    return line if len(line) <= _COLUMNS else f"{line[:_COLUMNS]} ..."
