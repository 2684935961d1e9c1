"""A process that becomes a worker, with its own log, environment and import paths, and that ends with its parent.

Run as a module it is a fresh interpreter that becomes one worker: the launcher gives the driver's address in
TFPERF_ADDRESS and the worker's number in TFPERF_NUMBER. The other way to a worker is a fork of `server`.

With `--try-imports` it imports what a worker would, and prints a line of JSON: see `try_imports`.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_tfperf.workers.process_end import die_with_parent
from pytest_tfperf.workers.wire import Channel, connect

PINNED: Final = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=-1", "KERAS_BACKEND": "tensorflow"}
"""The variables that override what the user's shell could make TensorFlow and Keras do; set before their import.

A workload's `xla` alone decides on XLA: automatic clustering in TF_XLA_FLAGS would override TensorFlow's own
configuration. Keras computes with TensorFlow here, whatever its backend is elsewhere.
"""


def import_tensorflow() -> dict[str, Any]:
    """Import TensorFlow; returns the message for the driver: the versions, or why the import failed."""
    gc.disable()  # the import makes half a million objects that stay; looking for garbage took a sixth of its time
    # TensorFlow Lite imports JAX, where it is installed, for a converter: as much time again, threads before a fork.
    without_jax = "jax" not in sys.modules
    if without_jax:
        sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        import keras
        import tensorflow as tf
    except Exception as error:  # a build that does not fit its libraries may raise anything
        return {"failed": f"{type(error).__name__}: {error}"}
    finally:
        gc.enable()
        if without_jax:
            del sys.modules["jax"]
    return {"imported": {"tensorflow": tf.__version__, "keras": keras.__version__}}


def call_driver(address: str, number: int) -> tuple[Channel, dict[str, Any]]:
    """Connect to the driver as the worker of this number, and become the worker that its message describes."""
    channel = connect(address)
    channel.send({"hello": "worker", "number": number})
    message = channel.receive()
    become_worker(Path(message["log"]), message["environment"], message["moved"])
    return channel, message


def become_worker(log: Path | None, environment: Mapping[str, str], moved: Mapping[str, str]) -> None:
    """Take over a log file, an environment and import paths; on SIGUSR1 the process then writes all stacks to the log.

    Without a log its output stays where it goes. Import paths below a folder of `moved` lead into another checkout of
    it: an editable install would otherwise give the current code to every worker. The process also asks the kernel's
    out-of-memory killer to choose it first, so that it does not choose pytest.
    """
    with suppress(PermissionError):  # a fresh interpreter leads its session already
        os.setsid()
    with Path(os.devnull).open() as null:
        os.dup2(null.fileno(), 0)
    if log is not None:
        with log.open("a") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115  # lives as long as the process
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop("TF_FORCE_GPU_ALLOW_GROWTH", None)  # the job's devices decide how a GPU's memory is taken
    tempfile.tempdir = None  # the server may have looked it up before, in its own environment
    os.environ.update(PINNED)
    sys.path[:] = [_moved(path, moved) for path in sys.path]
    faulthandler.enable(sys.stderr)
    faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def find_modules_in(folders: Sequence[str]) -> None:
    """Look for modules in the user's folders before installed packages, as pytest does: it must be the same module.

    Call it after TensorFlow's import, because a user's folder may have modules with the names of TensorFlow's. Python's
    library comes first, then the folders in pytest's order, then PYTHONPATH.
    """
    libraries = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    libraries += [library / "lib-dynload" for library in libraries]
    own = [path for path in sys.path if path and path not in folders]
    library = [path for path in own if Path(path) in libraries]
    sys.path[:] = [*library, *folders, *(path for path in own if path not in library)]


def _moved(path: str, moved: Mapping[str, str]) -> str:
    """The same folder in the other checkout; a virtual environment that lies in the repository stays."""
    real, prefix = Path(path).resolve(), Path(sys.prefix).resolve()
    for old, new in moved.items():
        is_library = Path(old) in prefix.parents and real.is_relative_to(prefix)
        if path and real.is_relative_to(old) and not real.is_relative_to(new) and not is_library:
            return str(Path(new) / real.relative_to(old))
    return path


def main() -> int:
    """Do one job for the driver; returns the process's exit status."""
    die_with_parent(int(os.environ.pop("TFPERF_PARENT")))
    return import_and_work(*call_driver(os.environ.pop("TFPERF_ADDRESS"), int(os.environ.pop("TFPERF_NUMBER"))))


def import_and_work(channel: Channel, message: dict[str, Any]) -> int:
    """Import TensorFlow, tell the driver, and do its job; returns the process's exit status."""
    versions = import_tensorflow()
    channel.send(versions)
    return 1 if "failed" in versions else work(channel, message)


def work(channel: Channel, message: dict[str, Any]) -> int:
    """Do the driver's job in this process, which has imported TensorFlow; returns the process's exit status."""
    from pytest_tfperf.training import worker

    find_modules_in(message["import_paths"])
    return worker.work(channel, message)


def try_imports() -> int:
    """Import TensorFlow, then the user's functions; takes and prints JSON, for `revisions/pythons.py`.

    Standard input has "import_paths" and "functions" ("package.module:function"). The output is the message of
    `import_tensorflow`, with "faults": function -> why it can't be imported.
    """
    request = json.load(sys.stdin)
    os.environ.update(PINNED)
    message = import_tensorflow()
    find_modules_in(request["import_paths"])
    faults = {target: fault for target in request["functions"] if (fault := _import_fault(target))}
    print("\n" + json.dumps(message | {"faults": faults}))
    return 0


def _import_fault(target: str) -> str:
    name, _, function = target.partition(":")
    try:
        module = importlib.import_module(name)
    except BaseException as error:  # a module may also exit
        return f"importing {name!r} raises {type(error).__name__}: {error}"
    return "" if callable(getattr(module, function, None)) else f"module {name!r} has no function {function!r}"


if __name__ == "__main__":
    status = try_imports() if sys.argv[1:] == ["--try-imports"] else main()
    sys.stdout.flush()
    os._exit(status)  # TensorFlow's exit handlers have been seen to hang while a dataset was open
