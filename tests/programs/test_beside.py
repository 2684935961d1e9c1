"""Programs whose output is read while a silent probe counts their steps: both must measure one thing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_tfperf.core.run import Plan, Run
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.programs.beside import Beside
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.command_windows import CommandWindows
from pytest_tfperf.workers.launcher import PreparedCommand
from tests.helpers.measurements import command
from tests.helpers.patience import PATIENCE_SECONDS
from tests.helpers.played import Notes

Read = Callable[..., Run]

# Each line comes after eight steps of 20 ms, so it is a window; its rate is what the test wants it to be.
LOOP = """
    import itertools, os, sys, time
    def wait(seconds=0.02):
        time.sleep(seconds)
    def loop(rate, examples=(8,), step=lambda n: wait()):
        at = time.monotonic()
        for n in itertools.count(1):
            step(n)
            if examples:
                sys.audit("tfperf.step", *examples)
            if n % 8 == 0:
                now = time.monotonic()
                print(f"{n:6} speed {rate(8 / (now - at)):.4f}")
                at = now
"""
SPEED = r"speed (?P<rate>\S+)"


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(program: str, *options: str, devices: int = 1, **how: object) -> Run:
        file, scratch = tmp_path / "program.py", tmp_path / "scratch"
        file.write_text(dedent(LOOP) + dedent(program))
        scratch.mkdir()
        argv = [sys.executable, *options, str(file)]
        stated = command(argv=argv, env=dict(os.environ), cwd=tmp_path, **{"pattern": SPEED, **how})
        prepared = PreparedCommand(
            command=stated, log=tmp_path / "log", silence_seconds=PATIENCE_SECONDS, facts={}, scratch=scratch
        )
        beside = Beside(prepared)
        with closing(CommandRun(beside.prepared)) as run:
            windows = CommandWindows(run, stated, devices=devices, confirms=beside.confirms)
            windows.warm_up(Plan(warmup_steps=1, counts_readings=True))
            return windows.time(Plan(steps=10, counts_readings=True), Notes())

    return read


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("loop(lambda steps: steps)", {"unit": "steps/s"}),
        ("loop(lambda steps: 8 * steps)", {"unit": "images/s"}),
        ("loop(lambda steps: 96 * steps)", {"unit": "tokens/s", "examples_per_step": 96}),
        ("loop(lambda steps: 3 * steps)", {"unit": "boxes/s"}),
        ("loop(lambda steps: 4 * steps)", {"unit": "images/s", "of": "device", "devices": 2}),
        ("loop(lambda steps: 3 * steps, ())", {"unit": "steps/s"}),
    ],
    ids=["steps", "counted examples", "stated examples", "what is not counted", "of a device", "no step is told"],
)
def test_a_true_rate_is_read(read: Read, program: str, how: dict[str, object]) -> None:
    assert run_value(read(program, **how)).examples_per_sec > 0


@pytest.mark.parametrize(
    ("program", "how", "stated"),
    [
        ("loop(lambda steps: 2.5 * steps)", {"unit": "steps/s"}, "steps/s"),
        ("loop(lambda steps: steps)", {"unit": "images/s"}, "images/s"),
        ("loop(lambda steps: steps)", {"unit": "tokens/s", "examples_per_step": 96}, "tokens/s"),
        ("loop(lambda steps: 4 * steps)", {"unit": "images/s", "devices": 2}, "images/s"),
        (
            "loop(lambda steps: 1 / steps)",
            {"unit": "steps/s", "pattern": r"speed (?P<milliseconds>\S+)"},
            "steps/s",
        ),
    ],
    ids=["data left out", "a batch", "another size of a step", "of one device", "seconds as milliseconds"],
)
def test_a_rate_that_the_steps_contradict_is_refused(
    read: Read, program: str, how: dict[str, object], stated: str
) -> None:
    with pytest.raises(MeasurementError, match=rf"its lines state .* {stated}, and .* by the steps of the audit event"):
        read(program, **how)


def test_lines_that_count_an_evaluation_are_refused(read: Read) -> None:
    program = """
        for n in itertools.count(1):
            wait(0.02 if n % 4 else 0.004)
            if n % 4:
                sys.audit("tfperf.step")
            print(f"step {n}")
    """
    with pytest.raises(MeasurementError, match="count evaluation"):
        read(program, pattern=r"step (?P<step>\d+)", unit="steps/s")


@pytest.mark.parametrize("options", [("-Iu",), ("-S",)])
def test_a_program_without_a_probe_is_read_as_before(read: Read, options: tuple[str, ...]) -> None:
    assert run_value(read("loop(lambda steps: 2.5 * steps)", *options, unit="steps/s")).examples_per_sec > 100


def test_processes_that_train_together_are_read_as_before(read: Read) -> None:
    program = """
        parent = os.getpid()
        if not os.fork():
            while os.getppid() == parent:
                wait()
                sys.audit("tfperf.step")
            os._exit(0)
        loop(lambda steps: 2.5 * steps)
    """
    assert run_value(read(program, unit="steps/s")).examples_per_sec > 100


TORCH = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    class Slow(TensorDataset):
        def __getitem__(self, index):
            time.sleep(0.0025)
            return super().__getitem__(index)
    data = DataLoader(Slow(torch.randn(100_000, 4)), batch_size=8)
    batches, times = iter(data), [0.0]
    def step(n):
        batch, = next(batches)
        at = time.monotonic()
        for _ in range(ACCUMULATED - 1):
            model(batch).sum().backward()
            batch, = next(batches)
        time.sleep(0.02)
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        times[0] += time.monotonic() - at
    def of_time(steps):
        taken, times[0] = times[0], 0.0
        return 8 / taken
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
class TestPyTorch:
    def test_a_time_that_leaves_out_the_data_is_refused(self, read: Read) -> None:
        program = dedent(TORCH).replace("ACCUMULATED", "1") + "\nloop(of_time, (), step)"
        with pytest.raises(MeasurementError, match=r"its lines state .* by the steps of PyTorch's optimizer"):
            read(program, unit="steps/s")

    def test_the_data_with_it_is_right(self, read: Read) -> None:
        program = dedent(TORCH).replace("ACCUMULATED", "1") + "\nloop(lambda steps: 8 * steps, (), step)"
        assert run_value(read(program, unit="images/s")).examples_per_sec > 0

    def test_steps_of_several_batches_may_be_counted_as_batches(self, read: Read) -> None:
        program = dedent(TORCH).replace("ACCUMULATED", "2") + "\nloop(lambda steps: 2 * steps, (), step)"
        assert run_value(read(program, unit="steps/s")).examples_per_sec > 0
