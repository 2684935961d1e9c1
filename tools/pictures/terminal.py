"""Draws session.svg and progress.svg: a real session of four programs, after what they read became slower or faster.

It needs tmux and PyTorch, and takes about two minutes: baselines are recorded first. What the terminal shows is not
edited, but lines above the progress and above the failures are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from shlex import quote

COLUMNS, LINES = 116, 80
MOST_SECONDS = 600

# Waiting sets the throughput of all programs, so that other work on this machine does not.
PHOTOS = """
import time
import torch
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if index % 32 == 0:
            time.sleep({seconds})
        return torch.zeros(16), index % 10


torch.set_num_threads(1)
model = torch.nn.Linear(16, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for photos, labels in DataLoader(Photos(), batch_size=32):
    time.sleep(0.03)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(photos), labels).backward()
    optimizer.step()
"""
PLAIN = """
import sys
import time

while True:
    time.sleep({seconds})
    sys.audit("tfperf.step", 32)
"""
PROGRAMS = {"photos": PHOTOS, "speech": PLAIN, "texts": PLAIN, "video": PLAIN}
BEFORE = {"photos": 0.02, "speech": 0.05, "texts": 0.06}
AFTER = {"photos": 0.07, "speech": 0.05, "texts": 0.03, "video": 0.08}

TEST = """
def test_{name}(throughput, gpu_topology):
    program = Command([sys.executable, "{name}.py"], name="{name}", unit="examples/s")
    throughput.check(program, on=gpu_topology.take(1), steps=20, tolerance=0.05)
"""

# The picture must not depend on what else this machine does.
INI = """
[pytest]
tfperf_busy = 1
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

    def wait_for(self, found: Callable[[str], bool]) -> str:
        """The screen, with colours, as soon as `found` says so of its text."""
        deadline = time.monotonic() + MOST_SECONDS
        while time.monotonic() < deadline:
            if found(self._screen()):
                return self._screen("-e")
            time.sleep(0.1)
        raise TimeoutError(f"the session did not get there:\n{self._screen()}")

    def _screen(self, *options: str) -> str:
        command = [*self._tmux, "capture-pane", "-p", *options]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip()


@dataclass(frozen=True)
class Screens:
    """What a terminal shows of the session, with its colours: while a test runs, and from its failures to its end."""

    progress: str
    session: str


def screens(report: Path) -> Screens:
    """Record baselines, change the programs, and run the session, which also writes its report."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _write(folder, BEFORE)
        (folder / "pytest.ini").write_text(INI)
        subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
        _commit(folder, "Programs and tests of their speed")
        pytest = [sys.executable, "-m", "pytest", "perf_tests", "--no-header"]
        subprocess.run([*pytest, "--update-baselines"], cwd=folder, check=True)
        _commit(folder, "Baselines")
        _write(folder, AFTER)
        _commit(folder, "Photos in full size, texts without a copy, a program for video")
        command = f"echo {quote('$ pytest perf_tests')}; {' '.join(map(quote, pytest))} --tfperf-html={report}"
        with Terminal(command, folder) as terminal:
            progress = terminal.wait_for(lambda text: re.search(r"steps \d+/\d+ .*/s", text) is not None)
            session = terminal.wait_for(lambda text: re.search(r"=+ .* in [\d.]+s .*=$", text) is not None)
            command, *_, line = progress.splitlines()
            return Screens(f"{command}\n{line}", session[session.rindex("\n", 0, session.index("= FAILURES =")) + 1 :])


def _write(folder: Path, programs: dict[str, float]) -> None:
    tests = folder / "perf_tests" / "test_programs.py"
    tests.parent.mkdir(exist_ok=True)
    imports = "import sys\nfrom pytest_tfperf import Command\n\n"
    tests.write_text(imports + "\n".join(TEST.format(name=name) for name in programs))
    for name, seconds in programs.items():
        (folder / f"{name}.py").write_text(PROGRAMS[name].format(seconds=seconds))


def _commit(folder: Path, message: str) -> None:
    git = ["git", "-c", "user.name=pictures", "-c", "user.email=pictures@example.com"]
    subprocess.run([*git, "add", "--all"], cwd=folder, check=True)
    subprocess.run([*git, "commit", "--quiet", f"--message={message}"], cwd=folder, check=True)


def draw(path: Path, screen: str) -> None:
    """Write a picture of a screen, which may have colours."""
    from rich.ansi import AnsiDecoder
    from rich.console import Console

    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for text in AnsiDecoder().decode(screen):  # a colour holds until it is changed, across lines too
        console.print(text, no_wrap=True, overflow="crop")
    picture = console.export_svg(title="", unique_id=path.stem)
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # nothing is fetched from elsewhere
    picture = picture.replace("<text ", '<text xml:space="preserve" ')
    path.write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n")
