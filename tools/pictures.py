"""Draws docs/pictures/session.svg and progress.svg: a real session, after an input pipeline got slower.

    pip install -c constraints.txt '.[benchmarks,tensorflow]'      # and tmux
    python -m tools.pictures

It takes about two minutes: baselines are recorded first, then the pipeline gets slower. What the terminal shows is not
edited; pytest's own header is left out by its option.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS, LINES = 100, 80
MOST_SECONDS = 600

SLOW_PIPELINE = """
import time
import tensorflow as tf


def photos(spec):
    def slowed(images, labels):
        tf.py_function(lambda: time.sleep({seconds}), [], [])
        return images, labels

    return spec.synthetic().map(slowed)
"""

TESTS = """
import pytest
from pytest_tfperf import Workload

RESNET = Workload(model="resnet20", batch_size=8)


@pytest.mark.cpu
@pytest.mark.parametrize("variable_update", ["replicated", "parameter_server"])
def test_training(throughput, gpu_topology, variable_update):
    throughput.check(RESNET.with_(variable_update=variable_update), on=gpu_topology.take(2), tolerance=0.05)


@pytest.mark.cpu
def test_photos(throughput, gpu_topology):
    workload = RESNET.with_(input_pipeline="loader:photos")
    throughput.check(workload, on=gpu_topology.take(1), tolerance=0.05, name="resnet20 on photos")
"""

NEW_TEST = """

@pytest.mark.cpu
def test_momentum(throughput, gpu_topology):
    throughput.check(RESNET.with_(optimizer="momentum"), on=gpu_topology.take(1))
"""

# The picture must not depend on what else this machine does.
INI = """
[pytest]
pythonpath = .
tfperf_busy = 1
tfperf_steal = 1
tfperf_swap = inf
"""


class Terminal:
    """A tmux session that runs one command; leaving it ends both."""

    def __init__(self, command: str, folder: Path) -> None:
        self._tmux = ["tmux", "-L", f"pictures-{uuid.uuid4().hex[:8]}", "-f", os.devnull]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        shell = f"{command}; exec sleep {MOST_SECONDS}"
        subprocess.run([*self._tmux, "new-session", "-d", *size, "-c", str(folder), shell], check=True)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False)

    def wait_for(self, found: Callable[[str], bool]) -> list[str]:
        """The lines on the screen, with colours, as soon as `found` says so of the text without."""
        deadline = time.monotonic() + MOST_SECONDS
        while time.monotonic() < deadline:
            lines = self._capture("-e")
            if found("\n".join(Text.from_ansi(line).plain for line in lines)):
                return lines
            time.sleep(0.1)
        raise TimeoutError("the session did not get there:\n" + "\n".join(self._capture()))

    def _capture(self, *options: str) -> list[str]:
        command = [*self._tmux, "capture-pane", "-p", *options]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip().splitlines()


def draw(name: str, lines: Sequence[str]) -> None:
    """Write a picture of these lines."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True, legacy_windows=False)  # noqa: SIM115, PTH123
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop")
    console.save_svg(str(PICTURES / f"{name}.svg"), title="pytest-tfperf", unique_id=name)
    print(f"{PICTURES / name}.svg: {len(lines)} lines")


def main() -> None:
    """Run the sessions and draw."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        tests = folder / "perf_tests" / "test_training.py"
        tests.parent.mkdir()
        tests.write_text(TESTS)
        (folder / "loader.py").write_text(SLOW_PIPELINE.format(seconds=0.05))
        (folder / "pytest.ini").write_text(INI)
        pytest = [sys.executable, "-m", "pytest", "perf_tests", "--no-header"]
        subprocess.run([*pytest, "--update-baselines"], cwd=folder, check=True)
        (folder / "loader.py").write_text(SLOW_PIPELINE.format(seconds=0.15))
        tests.write_text(TESTS + NEW_TEST)
        shown = "$ pytest perf_tests --no-header"
        command = f"echo {quote(shown)}; {' '.join(map(quote, pytest))}"
        with Terminal(command, folder) as terminal:
            draw("progress", terminal.wait_for(lambda text: re.search(r"left\].*images/s", text) is not None))
            draw("session", terminal.wait_for(lambda text: re.search(r"=+ .* in [\d.]+s .*=$", text) is not None))


if __name__ == "__main__":
    main()
