"""Reports which files of the user's repository a Python reads; `program_sources` makes it a part of its hook.

Any Python from 3.8 runs this file, without this package, so it imports the standard library only.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` would cost each Python's start more than all of this
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

# Audit events of reading or running a file -> the position of the path among the event's arguments.
_PATH_IN: Final = {
    "open": 0,
    "exec": 0,  # of an imported module, or of what runpy and exec() run
    "import": 1,  # of a compiled module
    "ctypes.dlopen": 0,
    "cpython.run_file": 0,
    "cpython.run_stdin": 0,
    "subprocess.Popen": 0,
    "os.exec": 0,
    "os.posix_spawn": 0,
}
_KIND: Final = {"open": "file", "exec": "code", "import": "code", "ctypes.dlopen": "code"}  # others: of a program
_LIBRARIES: Final = ("site-packages", "dist-packages")


def watch(report: str, trees: Sequence[str], moved: Mapping[str, str]) -> None:
    """Begin to report.

    Args:
        report: the file that gets a line for each process, file and imported name: kind, path as it was given or name,
            path without links, with tabs between them. All that Python runs is of the kind "code", and of the kind
            "program" if it was started and not imported; of "file" is what is only opened.
        trees: folders whose files are reported, without links; programs are reported wherever they are. () to report
            nothing.
        moved: old -> new, for folders that editable installs have put on the import path.
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [path if path in given else _moved(path, moved) for path in sys.path]
    if trees:
        reporter = _Reporter(report, trees)
        reporter.say("python", image_of(), sys.executable)
        sys.addaudithook(reporter.hear)
        for name, module in [*sys.modules.items()]:  # .pth files have imported some; an entry may be any object
            if name != __name__:
                reporter.hear("import", ("", getattr(module, "__file__", None)))


class _Reporter:
    """Reports each path that this process opens, once."""

    def __init__(self, report: str, trees: Sequence[str]) -> None:
        self._report = report
        self._trees = tuple(os.path.join(tree, "") for tree in trees)
        self._said: set[tuple[str, str]] = set()
        # A program may open millions of files, so of other files only the folders are kept.
        self._folders: dict[str, str] = {}  # as given -> without links
        self._roots: dict[str, str] = {}  # folder of modules -> the entry of the import path that leads there
        self._packages: set[str] = set()
        self._of_size: dict[int, list[str]] = {}  # files of the trees that were opened

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event; an exception would stop the program's operation."""
        position = _PATH_IN.get(event)
        try:
            if event == "compile":
                self._note_text(*arguments)
            elif position is not None and (event != "open" or not _is_written(*arguments[1:3])):
                given: Any = arguments[position] if arguments else "/proc/self/fd/0"
                if event == "exec":
                    given = given.co_filename
                    event = "runpy" if given == getattr(sys, "argv", [""])[0] else event
                self._note(_KIND.get(event, "program"), given)
        except Exception:
            pass

    def _note_text(self, source: Any, filename: Any) -> None:
        """Note the file whose text `exec(open(path).read())` runs."""
        if source is not None and str(filename).startswith("<"):
            data = source.encode() if isinstance(source, str) else bytes(source)
            for path in self._of_size.get(len(data), ()):
                with open(path, "rb") as file:
                    if file.read() == data:
                        self._note("code", path)

    def _note(self, kind: str, given: Any) -> None:
        if not isinstance(given, (str, bytes, os.PathLike)):
            return  # a descriptor, or nothing
        given = os.fsdecode(given)
        if kind == "code" and given.startswith("<"):
            return  # code that is in no file
        path = os.path.abspath(given)
        if sys.pycache_prefix and path.startswith(sys.pycache_prefix):
            path = path[len(sys.pycache_prefix) :]
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        real = os.path.join(self._folders[folder], name)
        if os.path.islink(real):
            real = os.path.realpath(real)
        if kind != "file" and not os.path.exists(real):
            real, kind = _archive_of(real), "program"
            path = real
        if real.startswith(self._trees) and not any(name in real.split(os.sep) for name in _LIBRARIES):
            self._say_once("code" if real.endswith(".pyc") else kind, path, real)
        elif kind == "program" and os.path.isfile(real):
            self._say_once(kind, path, real)
        elif real.endswith((".py", ".pyc", ".so")):
            self._note_package(real)

    def _note_package(self, real: str) -> None:
        """Report each package, and each module outside of packages, with its folder on the import path, once."""
        folder = os.path.dirname(real.replace(f"{os.sep}__pycache__{os.sep}", os.sep))
        if folder not in self._roots:
            roots = {os.path.realpath(path) for path in sys.path if path}
            self._roots[folder] = max((root for root in roots if _is_in(folder, [root])), key=len, default="")
        root = self._roots[folder]
        if root and folder not in self._packages:
            names = os.path.relpath(folder, root).split(os.sep) if folder != root else []
            place = root
            for name in [*names, os.path.basename(real).partition(".")[0]]:
                place = os.path.join(place, name)
                if os.path.exists(os.path.join(place, "__init__.py")):
                    self._packages.add(folder)
                    break  # above it are namespaces, whose packages may come from several projects
            self._say_once("package", os.path.relpath(place, root).replace(os.sep, "."), place)

    def _say_once(self, kind: str, name: str, real: str) -> None:
        if (kind, name) not in self._said:
            self._said.add((kind, name))
            self.say(kind, name, real)
            if kind == "file":
                self._of_size.setdefault(os.path.getsize(real), []).append(real)

    def say(self, kind: str, name: str, real: str) -> None:
        """Add a line to the report and close it again: the program may close all descriptors, or fork."""
        file = os.open(self._report, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(file, f"{kind}\t{name}\t{real}\n".encode(errors="surrogateescape"))
        finally:
            os.close(file)


def image_of(process: str = "self") -> str:
    """The address where a process' stack begins: a forked child, which goes on to report, keeps it; exec changes it."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[25]  # field 28
    except (OSError, IndexError):
        return ""


def _archive_of(path: str) -> str:
    """The file that a path without a file lies in, such as a zip file; "" for none."""
    while path != os.path.dirname(path) and not os.path.exists(path):
        path = os.path.dirname(path)
    return path if os.path.isfile(path) else ""


def _is_written(mode: Any, flags: Any) -> bool:
    """Whether a file is opened for writing only; `os.open` gives no mode."""
    if isinstance(mode, str):
        return "r" not in mode and "+" not in mode
    return isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY


def _moved(path: str, moved: Mapping[str, str]) -> str:
    """The new entry of the import path; entries in a new folder, or of installed packages, stay."""
    real = os.path.realpath(path) if path else ""
    if any(name in real.split(os.sep) for name in _LIBRARIES) or _is_in(real, moved.values()):
        return path
    for old, new in moved.items():
        if _is_in(real, [old]):
            return new + real[len(old) :]
    return path


def _is_in(path: str, folders: Any) -> bool:
    return any(path == folder or path.startswith(os.path.join(folder, "")) for folder in folders)
