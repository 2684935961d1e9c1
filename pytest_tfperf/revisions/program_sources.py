"""The files of the user's repository that a program reads, watched while it runs.

Its Pythons report the files that they open (`source_hook`). Of other processes /proc shows the files that they run,
map, hold open and get as arguments, so a file that such a process only opens for a moment is missed.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import source_from_cache
from pathlib import Path

from pytest_tfperf.probe.hook_folder import HookFolder
from pytest_tfperf.revisions import source_hook

_FIRST_LOOK_SECONDS, _LAST_LOOK_SECONDS = 0.02, 5.0  # most starts and loads happen in a program's first seconds
_GROWTH = 1.3
_PYTHONS = ("python", "pypy")
_OF_PYTHON = "/lib-dynload/"  # a program of another name may have a Python inside
_SHELL = "sh"  # the end of its name; its first argument that is a file is its script
_SOME_SECONDS, _MUCH = 0.1, 0.1  # a program that is no Python and takes a tenth of the work is more than a helper


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The files of the user's repository, and the installed packages, that a program read."""

    files: Mapping[Path, Path]  # -> the path by which it named them, which may be a link; a cached module's source
    code: frozenset[Path]  # the part of `files` that was run, and not only read
    packages: Mapping[str, str]  # top-level names that its Pythons loaded from installed packages -> a file of each
    # All programs that it ran, and scripts and archives that its Pythons ran elsewhere, but its temporary files.
    programs: frozenset[Path]
    began: float  # when it was started, in seconds since 1970
    has_python: bool  # whether a Python reported
    unwatched: str  # command line of a Python that did not report, or of another user's process; "" for none
    not_python: str  # command line of a process that is no Python and does much of the work; "" for none


class SourceWatch:
    """Watches a program.

    Args:
        scratch: a folder of the program's own.
        trees: folders whose files are watched, links followed; () to watch nothing, and only set the import path.
        moved: as in `Interpreter`, for the import path of its Pythons.
    """

    def __init__(self, scratch: Path, trees: Sequence[Path], moved: Mapping[Path, Path]) -> None:
        self._scratch, self._report = scratch, scratch / "sources"
        self._began = time.time()
        self._trees = tuple(map(str, trees))
        self._hook = HookFolder(scratch)
        new_places = {str(old): str(new) for old, new in moved.items()}
        self._hook.add(source_hook, "watch", str(self._report), self._trees, new_places)
        self._seen: dict[Path, Path] = {}
        self._code: set[Path] = set()
        self._programs: set[Path] = set()
        self._must_report: Counter[tuple[str, str]] = Counter()  # by image and command line
        self._of_others: set[str] = set()
        self._work: dict[int, tuple[str, float]] = {}  # by process: command line, "" for a Python, and seconds
        self._ended = threading.Event()

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The program's variables, by which its Pythons load the hook."""
        return self._hook.environment(environment)

    @contextmanager
    def watching(self, parent: int) -> Iterator[None]:
        """Look at the processes below `parent` while the block runs, and once more at its end."""
        thread = threading.Thread(target=self._run, args=(parent,), name="tfperf-sources", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def sources(self) -> Sources:
        """The files that the program has read so far."""
        files, code, programs, packages, reported = dict(self._seen), set(self._code), set(self._programs), {}, set()
        lines = _read(self._report, "utf-8").split("\n")
        for kind, name, path in (line.split("\t") for line in lines if line.count("\t") == 2):
            if kind == "python":
                reported.add(name)
            elif kind == "package":
                packages[name] = path
            elif kind == "program" and not any(self._ours([path])):
                programs.add(Path(path))
            else:
                files[_source(path)] = _source(name)
                code |= {_source(path)} if kind != "file" else set()
        temporary = self._scratch.resolve()
        # Seen twice: a Python that has only just begun, or that ends at once, reports nothing.
        silent = [line for (image, line), looks in self._must_report.items() if looks > 1 and image not in reported]
        return Sources(
            files={real: given for real, given in files.items() if not real.is_dir()},
            code=frozenset(code),
            packages=packages,
            programs=frozenset(file for file in programs if file.is_file() and not file.is_relative_to(temporary)),
            began=self._began,
            has_python=bool(reported),
            unwatched=next(iter([*silent, *sorted(self._of_others)]), ""),
            not_python=self._not_python(),
        )

    def _not_python(self) -> str:
        """The command line of the process that is no Python and works most; "" where Pythons do nearly all the work.

        A process that has ended counts as far as it was seen: Python may go on alone after the work is done.
        """
        seconds: defaultdict[str, float] = defaultdict(float)
        for command, taken in self._work.values():
            seconds[command] += taken
        total, of_pythons = math.fsum(seconds.values()), seconds.pop("", 0.0)
        is_helped = total <= _SOME_SECONDS or of_pythons > (1 - _MUCH) * total
        return "" if is_helped else max(seconds, key=seconds.__getitem__)

    def _run(self, parent: int) -> None:
        seconds = _FIRST_LOOK_SECONDS
        while not self._ended.wait(seconds):
            self._look(parent)
            seconds = min(seconds * _GROWTH, _LAST_LOOK_SECONDS)
        self._look(parent)

    def _look(self, parent: int) -> None:
        for pid in _below(parent):
            process = Path(f"/proc/{pid}")
            program, arguments = _target(process / "exe"), _arguments(process)
            mapped = _mapped(process)
            loaded = {program, *(path for path, is_code in mapped.items() if is_code)}
            files = [*mapped, *_held_open(process)]
            is_python = Path(program).name.startswith(_PYTHONS) or any(_OF_PYTHON in path for path in mapped)
            if is_python:
                image = source_hook.image_of(str(pid))
                if image and image != source_hook.image_of(str(parent)):  # else it is forked, to become the program
                    self._must_report[image, " ".join(arguments)] += 1
            elif program:
                self._programs.add(Path(program))
                named = list(_named(process, arguments))
                files += named
                loaded |= {*named[:1]} if program.endswith(_SHELL) else set()
            if arguments:  # not of a process that has ended; what was seen of it before still counts
                self._work[pid] = "" if is_python else " ".join(arguments), _seconds_of(process)
                if _is_of_another_user(process):
                    self._of_others.add(" ".join(arguments))
            self._code |= {Path(path) for path in self._ours(loaded)}
            self._seen |= {Path(path): Path(path) for path in self._ours([*files, *loaded])}

    def _ours(self, paths: Iterable[str]) -> Iterator[str]:
        return (path for path in paths if any(path.startswith(os.path.join(tree, "")) for tree in self._trees))  # noqa: PTH118


def _source(path: str) -> Path:
    """The source of a cached module; any other path as it is."""
    if path.endswith(".pyc"):
        with suppress(ValueError, NotImplementedError):
            return Path(source_from_cache(path))
    return Path(path)


def _below(parent: int) -> Iterator[int]:
    """The descendants of a process."""
    for thread in _listed(Path(f"/proc/{parent}/task")):
        for child in map(int, _read(thread / "children").split()):
            yield child
            yield from _below(child)


def _mapped(process: Path) -> dict[str, bool]:
    """The files that are mapped -> whether as code; TensorFlow has some hundred, in thousands of lines."""
    mapped: dict[str, bool] = {}
    for line in _read(process / "maps").splitlines():
        if "/" in line:
            path = line[line.index("/") :].removesuffix(" (deleted)")
            mapped[path] = mapped.get(path, False) or "x" in line.split(maxsplit=2)[1]
    return mapped


def _seconds_of(process: Path) -> float:
    """The time that a process itself has taken of the processor."""
    fields = _read(process / "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0  # fields 14 and 15


def _held_open(process: Path) -> Iterator[str]:
    """The files that are open for reading."""
    for descriptor in _listed(process / "fd"):
        path = _target(descriptor)
        flags = re.search(r"^flags:\s+(\d+)", _read(process / "fdinfo" / descriptor.name), re.MULTILINE)
        if path.startswith("/") and flags and int(flags[1], 8) & os.O_ACCMODE != os.O_WRONLY:
            yield path


def _named(process: Path, arguments: Sequence[str]) -> Iterator[str]:
    """The files that its arguments name, links followed, such as the script of an interpreter that has closed it."""
    folder = _target(process / "cwd")
    for word in arguments[1:]:
        path = os.path.join(folder, word)  # noqa: PTH118  # it may be too long for a Path
        if folder and os.path.isfile(path):  # noqa: PTH113
            yield os.path.realpath(path)


def _is_of_another_user(process: Path) -> bool:
    """Whether another user runs it, as after `sudo` or setuid(2): then its files may neither show nor be reported."""
    effective = re.search(r"^Uid:\s+\d+\s+(\d+)", _read(process / "status"), re.MULTILINE)
    return effective is not None and int(effective[1]) != os.geteuid()


def _arguments(process: Path) -> list[str]:
    """The words of its command line; [] where it has ended, even if nobody has waited for it yet."""
    line = _read(process / "cmdline").rstrip("\0")
    return line.split("\0") if line else []


def _target(link: Path) -> str:
    with suppress(OSError):
        return str(link.readlink()).removesuffix(" (deleted)")
    return ""


def _listed(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []


def _read(path: Path, encoding: str | None = None) -> str:
    """The text of a report or of a file of /proc; "" without one, or where its process is gone, or not ours."""
    with suppress(OSError):
        return path.read_text(encoding, "surrogateescape")
    return ""
