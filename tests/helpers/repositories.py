"""Git repositories that tests make, with programs whose rate is played."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.helpers.projects import Project

# Prints the rate of a work that costs so many seconds an example, with some noise. The rate is played, so that the
# machine decides nothing; each line is a window, which lasts 0.15 s at least.
LOOP = """
    import time
    from cost import COST
    for step in range(1, 10_000):
        time.sleep(0.16)
        print(f"step {step} throughput: {(1 + (step % 3 - 1) / 100) / COST:.3f} examples/s loss: 0.5")
"""

TESTS = """
import sys

def run(throughput, on, *argv, name="loop", also=(), **how):
    program = Command([sys.executable, *map(str, argv)], name=name, reads=RATES, **how)
    return throughput.check(program, on=on, tolerance=0.05, also=also)

def test_loop(throughput, on):
    run(throughput, on, "loop.py")
"""

ONE_READING = ("-o", "tfperf_steps=1")  # enough for runs that are compared as pairs


class Repository:
    """A project under git, on the branch main, with a test of the program `loop.py` whose cost is in `cost.py`."""

    def __init__(self, project: Project, tests: str = TESTS) -> None:
        self.project = project
        self.folder = project.folder
        self.git("init", "--quiet", "--initial-branch=main")
        project.write("loop.py", LOOP)
        project.write(".gitignore", ".tfperf/\n__pycache__/\n.junit.xml\n.benchmarks/\n")
        self.cost(0.01)
        project.tests(tests, "perf_tests/test_it.py")
        self.commit("the first")

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
        return git(self.folder, *who, *arguments)

    def cost(self, seconds: float) -> None:
        """What an example costs in the program."""
        self.project.write("cost.py", f"COST = {seconds}\n")

    def commit(self, subject: str) -> str:
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")

    @property
    def worktrees(self) -> list[str]:
        """The names of the folders that git knows as worktrees, but for the repository itself."""
        listed = [line for line in self.git("worktree", "list", "--porcelain").splitlines() if line.startswith("work")]
        return [Path(line.partition(" ")[2]).name for line in listed[1:]]


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
