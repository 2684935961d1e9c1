"""A few steps of a training under its framework's profiler: how long each operation takes, and how often it runs.

Any Python from 3.8 runs this file, without this package; a program loads it only when the driver asks for a profile.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

MOST_OPS = 50
_MOST_NAME = 120


class Call(NamedTuple):
    """A call of an operation."""

    name: str
    type: str
    start: float
    seconds: float  # without the operations inside it


class Profiler:
    """A profile that the driver has asked for. It never raises: the training goes on without it.

    Args:
        prefers_torch: whether PyTorch tells the steps, of a program that has imported JAX, too.
    """

    def __init__(self, prefers_torch: bool) -> None:
        self._prefers_torch = prefers_torch
        self._stop: Callable[[], Iterable[Call]] = lambda: ()
        self._fault = ""

    def begin(self) -> None:
        """Start the framework's profiler."""
        try:
            names = [name for name in ("jax", "torch") if name in sys.modules]
            if not names:
                self._fault = "it uses neither PyTorch nor JAX, whose profilers are known here"
            elif "torch" in names and (self._prefers_torch or "jax" not in names):
                self._stop = _begin_torch()
            else:
                self._stop = _begin_jax()
        except Exception as error:  # such as a profiler that the program has started itself
            self._fault = _shown(error)

    def end(self, steps: int) -> dict[str, Any]:
        """Stop it, and return the operations that took the most time in these steps."""
        ops: list[dict[str, Any]] = []
        try:
            if not self._fault:
                ops = largest(self._stop(), steps)
                self._fault = "" if ops else "no operation was seen"
        except Exception as error:
            self._fault = _shown(error)
        return {"host": "", "steps": steps, "ops": ops, "fault": self._fault}


def _shown(error: Exception) -> str:
    return f"the profiler failed: {type(error).__name__}: {error}".split("\n")[0][:300]


def largest(calls: Iterable[Call], steps: int) -> list[dict[str, Any]]:
    """The operations with most time of their own, each over all threads and devices."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for call in sorted(calls, key=lambda call: call.start):
        seconds.setdefault((call.name[:_MOST_NAME], call.type[:_MOST_NAME]), []).append(call.seconds)
    ops: list[dict[str, Any]] = [
        {"name": name, "type": type, "seconds": _a_step(of_op, steps), "count": len(of_op) / steps}
        for (name, type), of_op in seconds.items()
    ]
    return sorted(ops, key=lambda op: -op["seconds"])[:MOST_OPS]


def _a_step(seconds: list[float], steps: int) -> float:
    """The median over steps where each has as many calls, because other work may stop the program in one of them."""
    calls, rest = divmod(len(seconds), steps)
    if rest:
        return fsum(seconds) / steps
    return median(fsum(seconds[calls * step : calls * (step + 1)]) for step in range(steps))


def _begin_torch() -> Callable[[], Iterable[Call]]:
    torch: Any = sys.modules["torch"]
    if torch.autograd._profiler_enabled():  # a second one would end the program's own
        raise RuntimeError("the program profiles itself")
    profiler: Any = importlib.import_module("torch.profiler")
    activities = [profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(profiler.ProfilerActivity.CUDA)
    profile = profiler.profile(activities=activities)
    profile.start()

    def stop() -> Iterable[Call]:
        profile.stop()
        events = [event for event in profile.events() if not getattr(event, "is_async", False)]
        on_device = [event for event in events if event.device_type.name != "CPU"]
        for event in events:
            if event.device_type.name == "CPU":
                seconds = event.self_cpu_time_total / 1e6
                yield Call(event.name, "host" if on_device else event.name, event.time_range.start, seconds)
            elif not getattr(event, "is_user_annotation", False):  # it spans kernels that are counted themselves
                yield Call(event.name, "kernel", event.time_range.start, event.time_range.elapsed_us() / 1e6)

    return stop


def _begin_jax() -> Callable[[], Iterable[Call]]:
    profiler: Any = importlib.import_module("jax.profiler")
    folder = tempfile.mkdtemp(prefix="tfperf-profile-")
    try:
        if hasattr(profiler, "ProfileOptions"):
            options = profiler.ProfileOptions()
            options.python_tracer_level = 0  # it slows each Python function down
            profiler.start_trace(folder, profiler_options=options)
        else:
            profiler.start_trace(folder)
    except Exception:
        shutil.rmtree(folder, ignore_errors=True)
        raise

    def stop() -> Iterable[Call]:
        try:
            profiler.stop_trace()
            for path in Path(folder).rglob("*.trace.json.gz"):
                with gzip.open(path, "rt", encoding="utf-8") as file:
                    yield from of_trace(json.load(file)["traceEvents"])
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return stop


def of_trace(events: Iterable[dict[str, Any]]) -> Iterable[Call]:
    """The operations of XLA in a trace, each without those inside it, such as a loop's.

    Their numbers go, because one more operation renumbers those after it: `dot.3` of `jit_step` is `jit_step/dot`.
    """
    by_thread: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("ph") == "X" and "hlo_op" in event.get("args", ()):
            by_thread.setdefault((event["pid"], event["tid"]), []).append(event)
    for of_thread in by_thread.values():
        of_thread.sort(key=lambda event: (event["ts"], -event["dur"]))
        own = [float(event["dur"]) for event in of_thread]
        around: list[int] = []
        for number, event in enumerate(of_thread):
            while around and event["ts"] >= of_thread[around[-1]]["ts"] + of_thread[around[-1]]["dur"]:
                around.pop()
            if around:
                own[around[-1]] -= event["dur"]
            around.append(number)
        for number, event in enumerate(of_thread):
            name = re.sub(r"(\.\d+)+$", "", event["args"]["hlo_op"])
            module = event["args"].get("hlo_module", "")
            name = f"{module}/{name}" if module else name
            yield Call(name, name, event["ts"], max(0.0, own[number]) / 1e6)
