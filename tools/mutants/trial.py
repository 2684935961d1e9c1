"""One mutant under its tests, in a process of its own that is forked from one which has imported all else."""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, SupportsIndex

import pytest

from tools.mutants.coverage_of_tests import OPTIONS
from tools.mutants.mutations import Mutant

_CPU_SECONDS = 60  # beyond the tests' own time: a mutant that loops for ever is noticed
_WALL_SECONDS = 600  # the same for one that waits for ever
_FIRST_TESTS = 25
_NOT_LOADED = 90  # an exit status that pytest has not: only a subprocess of a test imports the file


@dataclass
class Trials:
    """Runs mutants, several at a time.

    Args:
        package: the package's folder.
        processes: how many at a time.
        folder: for their texts.
    """

    package: Path
    processes: int
    folder: Path
    _running: dict[int, Mutant] = field(default_factory=dict, init=False)

    def run(self, trials: Iterable[tuple[Mutant, Sequence[str], float]]) -> Iterator[tuple[Mutant, bool]]:
        """Each mutant, in the order in which they end, and whether a test noticed it.

        Args:
            trials: the mutants, the tests of each, and how long these take.
        """
        for mutant, tests, seconds in trials:
            if not tests:
                yield mutant, False
                continue
            if len(self._running) >= self.processes:
                yield self._wait()
            self._running[self._start(mutant, tests, seconds)] = mutant
        while self._running:
            yield self._wait()

    def _wait(self) -> tuple[Mutant, bool]:
        pid, status = os.wait()
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what its tests started
        return self._running.pop(pid), os.waitstatus_to_exitcode(status) not in (0, _NOT_LOADED)

    def _start(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> int:
        sys.stdout.flush()
        gc.freeze()  # collections in the children would copy what they share with this process
        if pid := os.fork():
            return pid
        status = 0
        try:
            os.setpgid(0, 0)
            limit = int(_CPU_SECONDS + 10 * seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            signal.alarm(_WALL_SECONDS)
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            _forget(self.package)
            finder = _Finder(self.package, mutant, self.folder / str(os.getpid()))
            sys.meta_path = _FirstStaysFirst([finder, *sys.meta_path])
            # Most mutants are noticed by the first tests; the others' files need not be collected for them.
            for some in (tests[:_FIRST_TESTS], tests[_FIRST_TESTS:]):
                status = int(pytest.main([*OPTIONS, "-x", *some])) if some else status
                if status:
                    break
            status = status if finder.has_loaded else _NOT_LOADED
        except BaseException:
            status = 1
        os._exit(status)


def _forget(package: Path) -> None:
    """Have the package and the tests imported anew."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith((str(package), str(package.parent / "tests"))):
            del sys.modules[name]


class _FirstStaysFirst(list[Any]):
    """pytest inserts its own importer, which rewrites assertions and reads the file, before all others."""

    def insert(self, index: SupportsIndex, value: Any) -> None:
        super().insert(max(int(index), 1), value)


class _Finder(importlib.abc.MetaPathFinder):
    """Imports the mutant in place of its file."""

    def __init__(self, package: Path, mutant: Mutant, folder: Path) -> None:
        self._path = str(package / mutant.file)
        self._module = ".".join([package.name, *Path(mutant.file).with_suffix("").parts]).removesuffix(".__init__")
        self._text = mutant.text
        self._copy = folder / Path(mutant.file).name
        self.has_loaded = False

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        """The mutant's module; None for any other."""
        if name != self._module:
            return None
        self.has_loaded = True
        return importlib.util.spec_from_file_location(
            name, self._path, loader=_Loader(name, self._path, self._text, self._copy)
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, text: str, copy: Path) -> None:
        super().__init__(name, path)
        self._text = text
        self._copy = copy

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the base class's
        """Never from the bytecode on disk, which is of the file."""
        return compile(self._text, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutant, and let those who read its file, as `SourceWatch` does the hook's, read the mutant."""
        super().exec_module(module)
        self._copy.parent.mkdir(exist_ok=True)
        self._copy.write_text(self._text)
        module.__file__ = str(self._copy)
