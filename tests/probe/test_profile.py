"""What a profile of a program's steps gives: times and calls of its operations, and a reason where there is none."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_tfperf.probe.profile import MOST_OPS, Call, Profiler, largest, of_trace


def calls(name: str, *milliseconds: float, start: float = 0.0) -> list[Call]:
    return [Call(name, name, start + number, of_call / 1e3) for number, of_call in enumerate(milliseconds)]


def test_the_operations_come_with_time_and_calls_of_a_step_the_largest_first() -> None:
    small, large = largest([*calls("relu", 1, 1, 1, 1), *calls("mm", 4, 4)], steps=2)[::-1]
    assert (large["name"], large["seconds"], large["count"]) == ("mm", pytest.approx(0.004), 1.0)
    assert (small["name"], small["seconds"], small["count"]) == ("relu", pytest.approx(0.002), 2.0)


def test_a_step_in_which_other_work_stopped_the_program_does_not_count() -> None:
    (found,) = largest(calls("mm", 1, 1, 1, 1, 90, 1), steps=3)
    assert found["seconds"] == pytest.approx(0.002)


def test_calls_that_no_step_has_alike_are_spread_over_all() -> None:
    (found,) = largest(calls("mm", 1, 2, 3), steps=2)
    assert (found["seconds"], found["count"]) == (pytest.approx(0.003), 1.5)


def test_only_so_many_are_sent_and_their_names_are_cut() -> None:
    found = largest([call for number in range(200) for call in calls(f"{number}" + "x" * 999, 1)], steps=1)
    assert len(found) == MOST_OPS
    assert max(len(op["name"]) for op in found) == 120


def event(op: str, start: float, microseconds: float, tid: int = 1, **more: Any) -> dict[str, Any]:
    arguments = {"hlo_op": op, "hlo_module": "jit_step"}
    return {"ph": "X", "pid": 1, "tid": tid, "ts": start, "dur": microseconds, "name": op, "args": arguments} | more


def test_operations_of_xla_lose_their_numbers_and_those_inside_them() -> None:
    events = [
        event("while.7", 0, 100),
        event("dot.1", 10, 30),
        event("dot.2", 50, 20),
        event("dot", 20, 5, tid=2),
        event("ThunkExecutor", 0, 500, args={}),
        {"ph": "M", "name": "process_name"},
        event("tanh", 100, 7),
    ]
    assert sorted((call.name, round(call.seconds * 1e6)) for call in of_trace(events)) == [
        ("jit_step/dot", 5),
        ("jit_step/dot", 20),
        ("jit_step/dot", 30),
        ("jit_step/tanh", 7),
        ("jit_step/while", 50),
    ]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "jax", "torch.profiler", "jax.profiler"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def profiled() -> dict[str, Any]:
    profiler = Profiler(prefers_torch=False)
    profiler.begin()
    return profiler.end(10)


@pytest.mark.usefixtures("alone")
def test_without_a_framework_the_answer_says_why() -> None:
    why = "it uses neither PyTorch nor JAX, whose profilers are known here"
    assert profiled() == {"host": "", "steps": 10, "ops": [], "fault": why}


@pytest.mark.usefixtures("alone")
def test_a_profiler_that_cannot_be_started_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_trace(folder: str) -> None:
        raise RuntimeError("Only one profile may be run at a time.\nmore")

    module = ModuleType("jax.profiler")
    module.start_trace = start_trace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    monkeypatch.setitem(sys.modules, "jax.profiler", module)
    assert profiled()["fault"] == "the profiler failed: RuntimeError: Only one profile may be run at a time."


@pytest.mark.usefixtures("alone")
def test_a_trace_without_operations_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(start_trace=lambda _: None, stop_trace=lambda: None)
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    monkeypatch.setitem(sys.modules, "jax.profiler", module)
    assert profiled()["fault"] == "no operation was seen"
