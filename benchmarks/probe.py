"""What measuring a program by its steps costs it, and whether windows of a program that is held are true.

    python benchmarks/probe.py overhead    # steps of about 1 ms, with and without the probe, in alternation
    python benchmarks/probe.py copies      # two copies of one program, held in turn, 50 windows each
    python benchmarks/probe.py holds       # windows after a hold against windows that follow each other

Programs train with PyTorch (`pip install -e '.[examples]'`) or only compute and tell their steps. Prints each ratio
with two standard errors (20 % trimmed mean). Run it on a machine that does nothing else; it takes a few minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from textwrap import dedent

from pytest_tfperf.bench.windows import interleave
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.throughput import robust_mean
from pytest_tfperf.errors import MeasurementError
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
# A program that takes so many steps as it is asked for, and answers with their seconds.
ON_DEMAND = """
    import sys, time
    taken = steps()
    for _ in range(20):
        next(taken)
    with open(sys.argv[1]) as asks, open(sys.argv[2], "w", buffering=1) as answers:
        for line in asks:
            began = time.perf_counter()
            for _ in range(int(line)):
                next(taken)
            print(time.perf_counter() - began, file=answers)
"""
FREE = """
    for _ in steps():
        pass
"""
OVERHEAD = {
    "tells its steps": TELLS.format(size=45_000),
    "PyTorch, a DataLoader": PYTORCH.format(slow_input=0, width=64, workers=0),
}
HOLDS = {
    "tells its steps": TELLS.format(size=45_000),
    "PyTorch, bound by compute": PYTORCH.format(slow_input=0, width=2048, workers=2),
    "PyTorch, bound by input": PYTORCH.format(slow_input=0.001, width=64, workers=2),
}
BLOCK, TURNS, ROUNDS = 100, 50, 4


def shown(logs: Sequence[float]) -> str:
    """The mean ratio of which these are logarithms."""
    mean, error = robust_mean(list(logs))
    return f"{100 * math.expm1(mean):+.2f} % +- {200 * error:.2f} %  ({len(logs)} ratios)"


@contextmanager
def probed(text: str, *arguments: Path) -> Iterator[ProbedRun]:
    """The program, started with a probe."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        command = Command([*program(folder, text), *map(str, arguments)], name="it", env=dict(os.environ), cwd=folder)
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


class OnDemand:
    """A program that takes steps when asked to; `seconds` times them by its own clock."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.pipes = [folder / name for name in ("asks", "answers")]
        for pipe in self.pipes:
            os.mkfifo(pipe)

    def connect(self) -> None:
        """Wait until the program has taken its first steps."""
        self._asks, self._answers = self.pipes[0].open("w", buffering=1), self.pipes[1].open()

    def close(self) -> None:
        """Let the program end: it is asked for nothing more."""
        self._asks.close()

    def seconds(self, steps: int) -> float:
        print(steps, file=self._asks)
        return float(self._answers.readline())


@contextmanager
def asked(run: ProbedRun, steps: int) -> Iterator[None]:
    """Take windows of so many steps meanwhile, one always asked for ahead, as a measurement does."""
    done = threading.Event()

    def ask() -> None:
        run.request(steps)
        with suppress(MeasurementError):  # the program has ended
            while not done.is_set():
                run.request(steps)
                run.receive()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def overhead() -> None:
    for name, text in OVERHEAD.items():
        code = dedent(text) + dedent(ON_DEMAND)
        logs, times = [], []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
                a, b = OnDemand(Path(folder) / "a"), OnDemand(Path(folder) / "b")
                run = stack.enter_context(probed(code, *a.pipes))
                plain = stack.enter_context(subprocess.Popen([*program(folder, code), *b.pipes]))
                stack.callback(plain.kill)
                stack.enter_context(asked(run, 330))
                for one in (a, b):
                    one.connect()
                    stack.callback(one.close)
                for one in (a, b):
                    one.seconds(5 * BLOCK)
                for turn in range(TURNS):
                    seconds = {one: one.seconds(BLOCK) for one in ((a, b) if turn % 2 else (b, a))}
                    logs.append(math.log(seconds[a] / seconds[b]))
                    times.append(seconds[b] / BLOCK)
        print(f"overhead, {name:<26} {1e3 * robust_mean(times)[0]:.2f} ms a step   {shown(logs)}", flush=True)


def copies() -> None:
    for name, text in HOLDS.items():
        code = dedent(text) + dedent(FREE)
        logs = []
        for number in range(8):
            with probed(code) as a, probed(code) as b:
                pair = interleave(a, b, Plan(warmup_steps=50, steps=1500), lambda _: None, b_first=number % 2 == 1)
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
                time.sleep(0.5)  # it is held
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
