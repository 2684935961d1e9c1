"""What tells how a worker ended: the cause in its error's text, the stacks of its threads, the end of its log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent

_LINES = 20
_LINES_OF_STACKS = 15
_INNERMOST = 6  # frames of a thread: where it stands, and how it came there
_COLUMNS = 300
_MOST_BYTES = 256 * 1024  # of a log that a worker has written for hours

_FRAME = re.compile(r'(?P<indent>\s*)File "(?P<file>[^"]*)", line \d+')
# Compiled modules name their files without a folder, as "numpy/random/_generator.pyx".
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib(64)?/python\d+\.\d+/|^[^/]|/__autograph_generated_")
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$")
# faulthandler's own, which tell nothing of the cause and are long.
_OF_FAULTHANDLER = re.compile(r"Extension modules: |  Binary file |Current thread's C stack trace")

# What TensorFlow says of GPUs to a worker that was not to have one; it reads like the cause of whatever comes next.
_OF_GPUS = re.compile(
    r"WARNING: All log messages before absl::InitializeLog|"
    r"([IWE]\d{4} \d\d:|\d{4}-\d\d-\d\d .*: [IWE] ).*(cuda|gpu|cuInit|cuDNN|cuBLAS|cuFFT|TensorRT)",
    re.IGNORECASE,
)

# Around a cause, in the text of an error of TensorFlow's or Keras'.
_NO_CAUSE = re.compile(
    r"Graph execution error:|Detected at node|<stack traces unavailable>|Traceback \(most|in user code:|\[\[|\[Op:|"
    r"Hint: |[\^~]+$|\d+ (root error|successful operation|derived error)|(\w+: )?Exception encountered when calling|"
    r"The above exception|During handling of"
)
_AFTER_THE_CAUSE = "Arguments received by "
_AROUND = re.compile(r"^\{\{function_node [^}]*\}\} |^\(\d+\) |\s*\[Op:[^\]]*\].*$")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def cause(text: str) -> str:
    """The line of an error's text that says what was wrong; TensorFlow's stands below its frames, others' above all.

    >>> cause('Graph execution error:\\n\\n  File "a.py", line 1, in f\\nassertion failed: [no]\\n [[{{node A}}]]')
    'assertion failed: [no]'
    """
    lines = [line for line in _COLOURS.sub("", text).partition(_AFTER_THE_CAUSE)[0].splitlines() if line.strip()]
    bare = [line for part in _parts(lines) if not part.is_frame for line in part.lines]
    meaningful = [line.strip() for line in bare if not _NO_CAUSE.match(line.strip())]
    if not meaningful:
        return _short(lines[0].strip()) if lines else ""
    of_several = [line for line in meaningful if line.startswith("(0) ")]  # the first of several root errors
    above = len(meaningful) == len(lines)
    return _short(_AROUND.sub("", of_several[0] if of_several else meaningful[0 if above else -1]))


def log_end(log: Path, *, on_cpus: bool = False) -> str:
    """The end of a log, each line set off; says so where there is none.

    Of a traceback the user's frames and the innermost one are shown, of threads' stacks the innermost frames, those
    threads first that are in the user's code.

    Args:
        log: the file.
        on_cpus: leave out what TensorFlow says of GPUs.
    """
    try:
        lines = read_end(log).splitlines()
    except OSError as error:
        return f"  | (no log: {error.strerror})"
    said, threads = _apart([line for line in lines if line.strip() and not (on_cpus and _OF_GPUS.match(line))])
    stacks = _stacks(threads)
    shown = _without_libraries(said)[-(_LINES - len(stacks)) :] + stacks
    return "\n".join(f"  | {_short(line)}" for line in shown) or "  | (empty)"


def read_end(log: Path) -> str:
    """As much of a log's end as could ever matter; raises OSError."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MOST_BYTES))
        return file.read().decode(errors="replace")


def shows_the_users_code(end: str) -> bool:
    """Whether the end of a log holds a line of the user's own functions."""
    return any(not _of_library(found["file"]) for found in _FRAME.finditer(end))


@dataclass
class _Part:
    """A frame with its lines of code, or one line of something else."""

    lines: list[str]
    is_frame: bool
    is_library: bool = False


@dataclass
class _Thread:
    header: str
    frames: list[str] = field(default_factory=list)

    @property
    def of_the_user(self) -> bool:
        return any(_of_the_user(frame) for frame in self.frames)


def _parts(lines: Sequence[str]) -> list[_Part]:
    parts: list[_Part] = []
    indent = -1  # of the frame that is open
    for line in lines:
        if frame := _FRAME.match(line):
            indent = len(frame["indent"])
            parts.append(_Part([line], is_frame=True, is_library=_of_library(frame["file"])))
        elif 0 <= indent < len(line) - len(line.lstrip()):
            parts[-1].lines.append(line)
        else:
            indent = -1
            parts.append(_Part([line], is_frame=False))
    return parts


def _without_libraries(lines: Sequence[str]) -> list[str]:
    """Frames of libraries, and of ours, are left out but for the innermost of each traceback."""
    parts = _parts(lines)
    shown: list[str] = []
    left_out = 0
    for part, following in zip_longest(parts, parts[1:]):
        if part.is_library and following is not None and following.is_frame:
            left_out += 1
            continue
        if left_out:
            shown.append(f"  ... {left_out} frame{'s' if left_out > 1 else ''} of libraries")
            left_out = 0
        shown += part.lines
    return shown


def _apart(lines: Sequence[str]) -> tuple[list[str], list[_Thread]]:
    """What faulthandler wrote of threads, apart from all else."""
    said: list[str] = []
    threads: list[_Thread] = []
    inside = False
    for line in lines:
        if _THREAD.match(line):
            inside = True
            threads.append(_Thread(line))
        elif inside and line.startswith("  "):
            threads[-1].frames.append(line)
        else:
            inside = False
            if not _OF_FAULTHANDLER.match(line):
                said.append(line)
    return said, threads


def _stacks(threads: Sequence[_Thread]) -> list[str]:
    main_first = threads[::-1]
    shown: list[str] = []
    for thread in sorted(main_first, key=lambda thread: not thread.of_the_user):
        lines = [thread.header, *_innermost(thread)]
        if len(shown) + len(lines) > _LINES_OF_STACKS:
            break
        shown += lines
    return shown


def _innermost(thread: _Thread) -> Iterator[str]:
    yield from thread.frames[:_INNERMOST]
    further = [frame for frame in thread.frames[_INNERMOST:] if _of_the_user(frame)]
    if len(thread.frames) > _INNERMOST:
        yield "  ..."
    yield from further[:3]


def _of_the_user(frame: str) -> bool:
    found = _FRAME.match(frame)
    return found is not None and not _of_library(found["file"])


def _of_library(file: str) -> bool:
    return file.startswith(f"{_PACKAGE}/") or _LIBRARY.search(file) is not None


def _short(line: str) -> str:
    return line if len(line) <= _COLUMNS else f"{line[:_COLUMNS]} ..."
