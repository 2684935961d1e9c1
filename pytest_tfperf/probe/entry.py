"""Waits in a program's Python until a framework is imported, or the program tells a step itself.

Any Python from 3.8 runs this file, without this package. Until a framework is imported it costs a look at each import.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` would cost each Python's start more than all of this
    from typing import Any

_SOURCES = {
    # module -> the function of `frameworks` that is called with it when it has been imported
    "torch.optim.optimizer": "in_torch_optim",
    "torch.utils.data.dataloader": "in_torch_loader",
    "torch._dynamo": "in_dynamo",
    "keras.src.callbacks.callback_list": "in_keras_fit",
    "keras.src.trainers.trainer": "in_keras_trainer",
    "jax.monitoring": "in_jax",
    "tensorflow.python.eager.context": "in_tensorflow",
}
STEP = "tfperf.step"


def begin(seen: str, *address: Any) -> None:
    """Begin to wait.

    Args:
        seen: a file that gets a line for each thing that was seen: the process, a tab, and what it was.
        address: the driver's host and port, and the key of this run; without it, windows are noted in `seen`.
    """
    here = _Process(address, seen)
    sys.meta_path.insert(0, _Finder(here))
    sys.addaudithook(here.hear)
    for name in [name for name in _SOURCES if name in sys.modules]:  # a .pth file has imported it
        here.after_import(name, sys.modules[name])


class _Process:
    """This Python, and its probe once one is needed."""

    def __init__(self, address: tuple[Any, ...], seen: str) -> None:
        self._address = address
        self._seen = seen
        self._probe: Any = None
        self._lock = _thread.RLock()
        self._is_broken = False

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event: `sys.audit("tfperf.step", examples, value)` ends a step."""
        if event != STEP or self._is_broken:
            return
        try:
            self.probe.told(arguments)
        except Exception as error:  # such as a program that may no longer read our files
            self._is_broken = True
            self.say(f"ended {error!r}")

    @property
    def probe(self) -> Any:
        if self._probe is None:
            with self._lock:  # two threads may tell the first step
                self._probe = self._probe or _part("tfperf_steps").Probe(self._address, self.say)
        return self._probe

    def after_import(self, name: str, module: Any) -> None:
        """Follow the steps of a framework; the program must not fail for it."""
        try:
            getattr(_part("tfperf_frameworks"), _SOURCES[name])(module, self.probe)
            self.say("imported " + name.partition(".")[0])
        except Exception as error:
            self.say(f"failed {name} can't be followed: {error!r}")

    def say(self, text: str) -> None:
        """Add a line to what was seen; the file is closed again, because a program may fork or close descriptors."""
        shown = text.replace("\n", " ")[:500]
        line = f"{os.getpid()}\t{shown}\n"
        try:
            file = os.open(self._seen, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            try:
                os.write(file, line.encode(errors="replace"))
            finally:
                os.close(file)
        except OSError:
            pass


def _part(name: str) -> Any:
    return sys.modules["sitecustomize_of_tfperf"].load(name)


class _Finder:
    """First in `sys.meta_path`: lets the others find a module, and is told when it has been imported."""

    def __init__(self, process: _Process) -> None:
        self._process = process

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _SOURCES:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
        else:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self._process.after_import(name, module)

        loader.exec_module = exec_module  # the loader keeps its type, on which resources and pickles depend
        return spec
