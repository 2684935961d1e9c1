"""What measuring a program by its steps costs it, and whether windows of a program that is held are true.

    python benchmarks/probe.py overhead    # steps of about 1 ms, with and without the probe, by turns in one process
    python benchmarks/probe.py copies      # two copies of one program, held in turn, 50 windows each
    python benchmarks/probe.py holds       # windows after a hold of 0.5 s against those after them

Programs train with PyTorch (`pip install --group examples`) or only compute and tell their steps. Prints each ratio
with two standard errors (20 % trimmed mean). Run it on a machine that does nothing else; it takes a few minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from pytest_tfperf.bench import windows
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.throughput import robust_mean
from pytest_tfperf.probe import entry, frameworks, steps
from pytest_tfperf.programs import probed_run
from pytest_tfperf.programs.own_formats import FigureLines
from pytest_tfperf.programs.probed_run import ProbedRun
from pytest_tfperf.workers.launcher import PreparedCommand

# Each defines `steps`, an endless generator that takes a training step before each of its values.
TELLS = """
    import sys
    def steps():
        while True:
            sum(range({size}))
            sys.audit("tfperf.step", 8, 0.5)
            yield
"""
PYTORCH = """
    import time, torch
    from torch.utils.data import DataLoader, Dataset
    torch.set_num_threads(1)
    class Data(Dataset):
        def __len__(self): return 10**6
        def __getitem__(self, number):
            if {slow_input}: time.sleep({slow_input})
            return torch.full(({width},), float(number % 7)), number % 10
    def steps():
        loader = DataLoader(Data(), batch_size=32, num_workers={workers})
        model = torch.nn.Sequential(torch.nn.Linear({width}, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        while True:
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                yield
"""
FREE = """
    for _ in steps():
        pass
"""
LONGER_STEPS = """
    step_of_optimizer = steps
    def steps():
        for _ in step_of_optimizer():
            time.sleep(0.0155)  # a batch comes every 17 ms
            yield
"""
HOLDS = {
    "tells its steps": TELLS.format(size=45_000),
    "PyTorch, bound by compute": PYTORCH.format(slow_input=0, width=2048, workers=2),
    "PyTorch, bound by input": PYTORCH.format(slow_input=0.001, width=64, workers=2),
    "PyTorch, input a bit slow": PYTORCH.format(slow_input=0.001, width=64, workers=2) + LONGER_STEPS,
}
BLOCK, TURNS = 20, 500


def shown(logs: Sequence[float]) -> str:
    """The mean ratio of which these are logarithms."""
    mean, error = robust_mean(list(logs))
    return f"{100 * math.expm1(mean):+.2f} % +- {200 * error:.2f} %  ({len(logs)} ratios)"


@contextmanager
def probed(text: str) -> Iterator[ProbedRun]:
    """The program, started with a probe."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        command = Command([*program(folder, text)], name="it", env=dict(os.environ), cwd=folder)
        made = PreparedCommand(
            command=command, log=Path(folder) / "log", silence_seconds=60.0, facts={}, scratch=scratch
        )
        run = probed_run.start(
            made,
            command,
            slowdown=0.0,
            figures=FigureLines([]),
            phase=lambda _: None,
            notice=lambda _: None,
        )
        with closing(run):
            yield run


def program(folder: str, text: str) -> list[str]:
    """The command that runs this code."""
    file = Path(folder) / "program.py"
    file.write_text(text)
    return [sys.executable, str(file)]


class Asking:
    """In the place of a link to the driver: it always wants another window, as a measurement does."""

    def __init__(self, *address: object) -> None:
        """Connect to nothing."""

    def send(self, message: object) -> None:
        """Drop an answer."""

    def receive(self, seconds: float) -> dict[str, float]:
        return {"slowdown": 0.0, "hold_seconds": seconds, "steps": 330}

    def has_message(self) -> bool:
        return True


def overhead() -> None:
    """Blocks of steps with and without the probe, in one process: processes differ by more than it costs."""
    parts = {"tfperf_steps": steps, "tfperf_frameworks": frameworks, "tfperf_link": SimpleNamespace(Link=Asking)}
    sys.modules["sitecustomize_of_tfperf"] = cast("ModuleType", SimpleNamespace(load=parts.__getitem__))
    sys.modules["tfperf_steps"] = steps
    for name, take in {"tells its steps": telling(), "PyTorch, a DataLoader": of_pytorch()}.items():
        differences, alone = [], []
        for turn in range(TURNS):
            seconds = {}
            for is_probed in (True, False) if turn % 2 else (False, True):
                take(is_probed, 3)
                began = time.perf_counter()
                take(is_probed, BLOCK)
                seconds[is_probed] = (time.perf_counter() - began) / BLOCK
            differences.append(seconds[True] - seconds[False])
            alone.append(seconds[False])
        mean, error = robust_mean(differences)
        print(f"overhead, {name:<26} {1e6 * mean:.1f} +- {2e6 * error:.1f} us a step", end="")
        print(f" of {1e3 * robust_mean(alone)[0]:.2f} ms", flush=True)


def telling() -> Callable[[bool, int], None]:
    """A program that tells its steps; returns what takes so many, with or without telling them."""
    sys.addaudithook(entry._Process(("", 0, ""), os.devnull).hear)

    def take(is_probed: bool, number: int) -> None:
        for _ in range(number):
            sum(range(45_000))
            if is_probed:
                sys.audit("tfperf.step", 8, 0.5)

    take(True, 1000)
    return take


def of_pytorch() -> Callable[[bool, int], None]:
    """A training with PyTorch; returns what takes so many steps, with or without the probe's hooks."""
    from torch.optim import optimizer
    from torch.utils.data import dataloader

    kind = dataloader._BaseDataLoaderIter
    plain = kind.__next__
    probe = steps.Probe(("", 0, ""), lambda _: None)
    frameworks.in_torch_optim(optimizer, probe)
    frameworks.in_torch_loader(dataloader, probe)
    following = kind.__next__
    hooks = [optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks]
    ours = [dict(each) for each in hooks]
    space: dict[str, Any] = {}
    exec(dedent(PYTORCH.format(slow_input=0, width=64, workers=0)), space)
    endless = space["steps"]()

    def take(is_probed: bool, number: int) -> None:
        kind.__next__ = following if is_probed else plain
        for each, of_probe in zip(hooks, ours, strict=True):
            each.clear()
            each.update(of_probe if is_probed else {})
        for _ in range(number):
            next(endless)

    take(True, 1000)
    return take


def copies() -> None:
    windows.MIN_WINDOWS = windows.WINDOWS_PER_SIDE = 50
    for name, text in HOLDS.items():
        code = dedent(text) + dedent(FREE)
        logs = []
        for number in range(8):
            with probed(code) as a, probed(code) as b:
                plan = Plan(warmup_steps=50, steps=1500)
                pair = windows.interleave(a, b, plan, lambda _: None, b_first=number % 2 == 1)
                logs.append(pair.log_ratio)
                print(f"copies,   {name:<26} {len(pair.a.windows)} windows a side: ", end="")
                print(f"{100 * math.expm1(pair.log_ratio):+.2f} % +- {200 * (pair.error or 0):.2f} %", flush=True)
        print(f"copies,   {name:<26} between processes {100 * math.sqrt(sum(x * x for x in logs) / len(logs)):.2f} %")


def holds() -> None:
    for name, text in HOLDS.items():
        logs = []
        with probed(dedent(text) + dedent(FREE)) as run:
            run.request(50)
            run.receive()
            for _ in range(30):
                run.hold()
                time.sleep(0.5)
                run.request(50)
                run.request(50)
                after, following = run.receive(), run.receive()
                logs.append(math.log(following.seconds / after.seconds))
        print(f"holds,    {name:<26} rate after a hold      {shown(logs)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["overhead", "copies", "holds"], help="all, if none is given")
    for what in parser.parse_args().what or ("overhead", "copies", "holds"):
        {"overhead": overhead, "copies": copies, "holds": holds}[what]()


if __name__ == "__main__":
    main()
