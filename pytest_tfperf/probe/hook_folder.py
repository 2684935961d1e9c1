"""The folder on a program's PYTHONPATH by which its Pythons run code of ours at their start."""

from __future__ import annotations

import os
import py_compile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_tfperf.probe import door


class HookFolder:
    """The hook of one program's run; whoever needs a part of it adds that, and all share one `sitecustomize`.

    Args:
        scratch: the run's own folder, which only this user can read: arguments of a part may hold a key.
    """

    def __init__(self, scratch: Path) -> None:
        self._folder = scratch / "hook"
        self._folder.mkdir(exist_ok=True)
        self._calls = self._folder / "calls"

    def add(self, part: ModuleType, function: str, *arguments: Any, beside: tuple[ModuleType, ...] = ()) -> None:
        """Have a function of a module called at each start.

        Args:
            part: a module of the standard library's means only, for Python 3.8.
            arguments: plain values.
            beside: modules that `part` loads later.
        """
        for module in (part, *beside):
            self._write(_name(module), _text(module))
        call = f"({_name(part)!r}, {function!r}, {arguments!r}),\n"
        with self._calls.open("a", encoding="utf-8") as file:
            file.write(call)
        self._write("sitecustomize", f"{_text(door)}\n\nenter(\n{self._calls.read_text('utf-8')})\n")

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The program's variables, with a PYTHONPATH by which its Pythons find the hook first."""
        folder, before = str(self._folder), environment.get("PYTHONPATH", "")
        if folder in before.split(os.pathsep):
            return dict(environment)
        return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, [folder, before]))}

    def _write(self, name: str, text: str) -> None:
        path = self._folder / f"{name}.py"
        path.write_text(text, "utf-8")
        # A Python of another version writes its own byte code at its first start.
        with suppress(py_compile.PyCompileError, OSError):
            py_compile.compile(str(path), doraise=True)


def _name(module: ModuleType) -> str:
    return "tfperf_" + module.__name__.rpartition(".")[2]


def _text(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text("utf-8")
