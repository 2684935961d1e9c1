"""What a worker's error and log come to in a message: the cause, the user's own lines, no more than fits a screen."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_tfperf
from pytest_tfperf.workers.failures import cause, log_end, shows_the_users_code

OURS = f"{Path(pytest_tfperf.__file__).parent}/training"
KERAS = "/venv/lib/python3.11/site-packages/keras/src"


def frames(count: int, file: str = f"{KERAS}/layer.py") -> str:
    return "\n\n".join(f'  File "{file}", line {number}, in __call__' for number in range(count))


ASSERTION = f"""\
Graph execution error:

Detected at node while/assert_1/Assert defined at (most recent call last):
{frames(30)}

  File "/home/me/nets.py", line 9, in call

assertion failed: [enough of it]
\t [[{{{{node while/assert_1/Assert}}}}]] [Op:__inference__steps_135]"""

PIPELINE = """\
Graph execution error:

Detected at node PyFunc defined at (most recent call last):
<stack traces unavailable>
ValueError: disk on fire
Traceback (most recent call last):

  File "/home/me/nets.py", line 20, in batches
    raise ValueError("disk on fire")
          ^^^^^^^^^^^^^^^^^^^^^^^^^^

ValueError: disk on fire


\t [[{{node PyFunc}}]]
\t [[while/body/_1/while/IteratorGetNext]] [Op:__inference__steps_150]"""

MEMORY = f"""\
Graph execution error:

Detected at node functional_1/conv2d_1/convolution defined at (most recent call last):
{frames(30)}
OOM when allocating tensor with shape[9000,64,112,112] and type float on /job:localhost/device:GPU:0 by allocator GPU_0
\t [[{{{{node functional_1/conv2d_1/convolution}}}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom.
 [Op:__inference__steps_150]"""

SEVERAL = """\
2 root error(s) found.
  (0) INVALID_ARGUMENT:  assertion failed: [enough of it]
\t [[{{node assert_1/Assert}}]]
\t [[while/body/_1]]
  (1) CANCELLED:  RecvAsync is cancelled.
\t [[{{node assert_1/Assert}}]]
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
        (ASSERTION, "assertion failed: [enough of it]"),
        (PIPELINE, "ValueError: disk on fire"),
        (MEMORY, MEMORY.splitlines()[-4]),
        (SEVERAL, "INVALID_ARGUMENT:  assertion failed: [enough of it]"),
        (IN_A_LAYER, "Cannot reshape a tensor with 3 elements to shape [2]"),
        (TRACED, "ValueError: Cannot reshape a tensor with 3 elements to shape [2]"),
        ("{{function_node __wrapped__Mul_device}} Incompatible shapes: [2] [Op:Mul]", "Incompatible shapes: [2]"),
        ("the layers do not fit\nthey are 3 and 4 wide", "the layers do not fit"),
        ("", ""),
    ],
    ids=["assertion", "pipeline", "memory", "several", "layer", "traced", "eager", "plain", "empty"],
)
def test_the_cause_is_the_line_that_says_what_was_wrong(text: str, line: str) -> None:
    assert cause(text) == line


@given(st.text())
def test_a_cause_is_one_line_whatever_the_text(text: str) -> None:
    assert len(cause(text).splitlines()) <= 1


def end(folder: Path, text: str, *, on_cpus: bool = False) -> str:
    (folder / "a.log").write_text(text)
    return log_end(folder / "a.log", on_cpus=on_cpus)


def test_the_end_of_a_log_is_shown_line_by_line(tmp_path: Path) -> None:
    assert end(tmp_path, "one\n\ntwo\n") == "  | one\n  | two"


def test_an_empty_log_says_so(tmp_path: Path) -> None:
    assert end(tmp_path, "") == "  | (empty)"


def test_a_missing_log_says_so(tmp_path: Path) -> None:
    assert log_end(tmp_path / "a.log") == "  | (no log: No such file or directory)"


def test_bytes_that_are_no_text_are_shown_somehow(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"CUDA_ERROR \xff\xfe\n")
    assert log_end(tmp_path / "a.log") == "  | CUDA_ERROR \ufffd\ufffd"


@pytest.mark.parametrize("count", [19, 20, 500])
def test_no_more_than_twenty_lines_are_shown(tmp_path: Path, count: int) -> None:
    assert len(end(tmp_path, "x\n" * count).splitlines()) == min(count, 20)


def test_a_line_that_is_very_long_is_cut(tmp_path: Path) -> None:
    assert len(end(tmp_path, "x" * 10_000)) < 400


def test_a_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    assert end(tmp_path, "x" * 10_000_000 + "\nthe last line").endswith("\n  | the last line")


def test_frames_of_libraries_and_ours_make_way_for_the_users(tmp_path: Path) -> None:
    text = f"{frames(3, f'{OURS}/worker.py')}\n{ASSERTION}"
    assert end(tmp_path, text).splitlines()[-5:] == [
        "  | Detected at node while/assert_1/Assert defined at (most recent call last):",
        "  |   ... 30 frames of libraries",
        '  |   File "/home/me/nets.py", line 9, in call',
        "  | assertion failed: [enough of it]",
        "  | \t [[{{node while/assert_1/Assert}}]] [Op:__inference__steps_135]",
    ]


def test_the_innermost_frame_is_shown_wherever_it_is(tmp_path: Path) -> None:
    assert end(tmp_path, f"{frames(2)}\n    return x\nValueError: no\n").splitlines() == [
        "  |   ... 1 frame of libraries",
        f'  |   File "{KERAS}/layer.py", line 1, in __call__',
        "  |     return x",
        "  | ValueError: no",
    ]


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/home/me/nets.py", True),
        (f"{KERAS}/layer.py", False),
        (f"{OURS}/worker.py", False),
        ("numpy/random/_generator.pyx", False),
        ("<frozen runpy>", False),
    ],
)
def test_the_users_code_is_known(tmp_path: Path, file: str, users: bool) -> None:
    assert shows_the_users_code(end(tmp_path, f'  File "{file}", line 3, in f\nValueError: no\n')) is users


# As faulthandler writes it: the latest thread first, in each the innermost frame.
STACKS = dedent(f"""\
    Thread 0x00007f1093 (most recent call first):
      File "/home/me/nets.py", line 7, in batches
      File "{KERAS}/generator.py", line 198, in next

    Thread 0x00007f1094 (most recent call first):
      File "/usr/lib/python3.11/threading.py", line 327 in wait

    Current thread 0x00007f1095 (most recent call first):
    """) + "".join(f'  File "{OURS}/loop.py", line {line} in run\n' for line in range(30))


def test_a_thread_in_the_users_code_is_shown_first(tmp_path: Path) -> None:
    assert end(tmp_path, STACKS).splitlines()[:2] == [
        "  | Thread 0x00007f1093 (most recent call first):",
        '  |   File "/home/me/nets.py", line 7, in batches',
    ]


def test_the_main_thread_is_shown_before_other_threads(tmp_path: Path) -> None:
    threads = [line[4:] for line in end(tmp_path, STACKS).splitlines() if "hread 0x" in line]
    assert [thread.split(" (")[0] for thread in threads] == [
        "Thread 0x00007f1093",
        "Current thread 0x00007f1095",
        "Thread 0x00007f1094",
    ]


def test_of_each_thread_the_innermost_frames_are_shown(tmp_path: Path) -> None:
    shown = [line for line in end(tmp_path, STACKS).splitlines() if "loop.py" in line]
    assert [line.rpartition("line ")[2] for line in shown] == [f"{line} in run" for line in range(6)]


def test_the_users_frames_are_shown_however_far_out(tmp_path: Path) -> None:
    deep = STACKS + '  File "/home/me/nets.py", line 11 in build\n'
    assert '  |   ...\n  |   File "/home/me/nets.py", line 11 in build' in end(tmp_path, deep)


def test_what_was_said_before_the_stacks_is_shown_too(tmp_path: Path) -> None:
    assert "  | connecting to storage" in end(tmp_path, f"connecting to storage\n{STACKS}")


def test_stacks_of_many_threads_fit_twenty_lines(tmp_path: Path) -> None:
    assert len(end(tmp_path, "x\n" * 100 + STACKS * 30).splitlines()) <= 20


OF_GPUS = [
    "E0000 00:00:1795300893.416588   11886 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: UNKNOWN",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "2024-03-05 10:00:00.123456: I external/local_tsl/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers",
]


@pytest.mark.parametrize("line", OF_GPUS)
def test_what_tensorflow_says_of_gpus_is_left_out_on_cpus(tmp_path: Path, line: str) -> None:
    assert end(tmp_path, f"{line}\nKilled\n", on_cpus=True) == "  | Killed"


@pytest.mark.parametrize("line", OF_GPUS)
def test_what_tensorflow_says_of_gpus_is_shown_on_gpus(tmp_path: Path, line: str) -> None:
    assert end(tmp_path, f"{line}\nKilled\n") == f"  | {line}\n  | Killed"


def test_a_users_own_words_on_gpus_are_shown_on_cpus(tmp_path: Path) -> None:
    assert end(tmp_path, "ValueError: no GPU\n", on_cpus=True) == "  | ValueError: no GPU"
