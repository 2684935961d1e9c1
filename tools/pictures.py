"""Draws docs/pictures/session.svg and progress.svg: a real session, after input pipelines changed.

    pip install -c constraints.txt '.[tensorflow]' --group benchmarks      # and tmux
    python -m tools.pictures

It takes about three minutes: baselines are recorded first, then one pipeline gets slower and another one faster. What
the terminal shows is not edited; pytest's own header is left out by its option.
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
from io import StringIO
from pathlib import Path
from shlex import quote

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS, LINES = 100, 80
MOST_SECONDS = 600

# Pipelines that wait set the throughput, so that other work on this machine does not.
PIPELINES = """
import time
import tensorflow as tf


def _waiting(spec, seconds):
    def wait(*batch):
        tf.py_function(lambda: time.sleep(seconds), [], [])
        return batch

    return tf.data.Dataset.from_tensors(spec.synthetic()).repeat().map(wait)


def crops(spec):
    return _waiting(spec, {crops})


def photos(spec):
    return _waiting(spec, {photos})


def records(spec):
    return _waiting(spec, {records})


def video(spec):
    return _waiting(spec, 0.08)
"""
BEFORE = {"crops": 0.05, "photos": 0.05, "records": 0.06}
AFTER = {"crops": 0.05, "photos": 0.07, "records": 0.035}

TESTS = """
import pytest
from pytest_tfperf import Workload


@pytest.mark.cpu
@pytest.mark.parametrize("pipeline", {pipelines})
def test_loader(throughput, gpu_topology, pipeline):
    workload = Workload(model="trivial", batch_size=32, input_pipeline="loader:" + pipeline)
    throughput.check(workload, on=gpu_topology.take(1), tolerance=0.05)
"""

# The picture must not depend on what else this machine does.
INI = """
[pytest]
pythonpath = .
tfperf_busy = 1
tfperf_steps = 40
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
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for text in AnsiDecoder().decode("\n".join(lines)):  # a colour holds until it is changed, across lines too
        console.print(text, no_wrap=True, overflow="crop")
    picture = console.export_svg(title="pytest-tfperf", unique_id=name)
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # nothing is fetched from elsewhere
    picture = picture.replace("<text ", '<text xml:space="preserve" ')
    path = PICTURES / f"{name}.svg"
    path.write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n")
    print(f"{path}: {len(lines)} lines")


def main() -> None:
    """Run the sessions and draw."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        tests = folder / "perf_tests" / "test_loader.py"
        tests.parent.mkdir()
        tests.write_text(TESTS.format(pipelines=[*BEFORE]))
        (folder / "loader.py").write_text(PIPELINES.format(**BEFORE))
        (folder / "pytest.ini").write_text(INI)
        pytest = [sys.executable, "-m", "pytest", "perf_tests", "--no-header"]
        subprocess.run([*pytest, "--update-baselines"], cwd=folder, check=True)
        tests.write_text(TESTS.format(pipelines=[*BEFORE, "video"]))
        (folder / "loader.py").write_text(PIPELINES.format(**AFTER))
        shown = "$ pytest perf_tests --no-header"
        command = f"echo {quote(shown)}; {' '.join(map(quote, pytest))}"
        with Terminal(command, folder) as terminal:
            draw("progress", terminal.wait_for(lambda text: re.search(r"left\].*images/s", text) is not None))
            draw("session", terminal.wait_for(lambda text: re.search(r"=+ .* in [\d.]+s .*=$", text) is not None))


if __name__ == "__main__":
    main()
