"""`tfperf bisect` in a real repository, with a program whose rate is played."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.helpers.inner import Project
from tests.helpers.patience import SESSION_SECONDS, wait_for
from tests.helpers.repositories import Repository

pytestmark = pytest.mark.slow

TEST = "perf_tests/test_it.py::test_loop"
FOUND, NOT_SLOWER, NOT_MEASURED, USAGE, INTERRUPTED = 0, 1, 6, 4, 2


class Bisected:
    """A repository of commits 0 to 5: commit 4 is slower, and the program of commit 2 fails."""

    def __init__(self, project: Project) -> None:
        self.repository = Repository(project)
        project.write("pytest.ini", (project.folder / "pytest.ini").read_text().replace("steps = 15", "steps = 1"))
        loop = (project.folder / "loop.py").read_text()
        self.commits = [self.repository.commit("commit 0")]
        for number in range(1, 6):
            text = "raise SystemExit(1)\n" if number == 2 else f"{loop}# {number}\n"
            (project.folder / "loop.py").write_text(text)
            if number == 4:
                self.repository.cost(0.012)
            self.commits.append(self.repository.commit(f"commit {number}"))

    @property
    def shown(self) -> list[str]:
        return [commit[:12] for commit in self.commits]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest_tfperf.cli", "bisect", *arguments],
            cwd=self.repository.folder,
            env={name: value for name, value in os.environ.items() if not name.startswith(("TFPERF_", "PYTEST_"))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        with self.start(*arguments) as process:
            text, _ = process.communicate(timeout=SESSION_SECONDS)
        return process.returncode, text


@pytest.fixture(scope="module")
def bisected(shared: Project) -> Bisected:
    return Bisected(shared)


@pytest.fixture(scope="module")
def first(bisected: Bisected) -> tuple[str, int, str]:
    """A search that Ctrl-C interrupts after its first comparison, and the same command again."""
    arguments = (TEST, "--good", bisected.commits[0])
    with bisected.start(*arguments) as process:
        kept = bisected.repository.folder / ".tfperf" / "bisect"

        def has_begun() -> bool:
            return any(kept.glob("*/0-*.json")) or process.poll() is not None

        wait_for(has_begun, SESSION_SECONDS)
        os.killpg(process.pid, signal.SIGINT)
        interrupted, _ = process.communicate(timeout=SESSION_SECONDS)
    return (interrupted, *bisected.run(*arguments))


def test_the_commit_is_found_with_its_size_its_author_and_the_command_that_shows_it(
    bisected: Bisected, first: tuple[str, int, str]
) -> None:
    _, status, text = first
    shown = bisected.shown
    assert status == FOUND, text
    assert f"{shown[4]} is the first slow one: -1" in text
    assert "author   Ada <ada@example.com>" in text
    assert f"show     git show {shown[4]}" in text


def test_a_commit_that_can_not_be_measured_is_skipped(bisected: Bisected, first: tuple[str, int, str]) -> None:
    assert f"{bisected.shown[2]}: skipped: " in first[2]


def test_an_interrupted_search_says_what_it_keeps_and_goes_on(first: tuple[str, int, str]) -> None:
    interrupted, _, text = first
    assert "interrupted; 1 comparison kept in " in interrupted
    # The first comparison was not made again: the second call shows it at once.
    assert text.splitlines()[1].strip().endswith("pairs")


def test_ends_that_do_not_differ_are_no_search(bisected: Bisected) -> None:
    status, text = bisected.run(TEST, "--good", bisected.commits[0], "--bad", bisected.commits[1])
    assert (status, "is not slower than" in text) == (NOT_SLOWER, True), text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--good", "nowhere"), "tfperf bisect: 'nowhere' is no commit of "),
        (("--good", "HEAD"), "are the same commit"),
        (("--good", "HEAD", "--bad", "HEAD~1"), "is no ancestor of"),
        ((), "neither the history nor a baseline in "),
        (("--packages", "a.lock", "b.lock"), "a.lock can't be read: No such file"),
        (("--good", "HEAD", "--packages", "a", "b"), "search either packages or commits"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_can_not_be_searched_is_refused(bisected: Bisected, arguments: tuple[str, ...], said: str) -> None:
    status, text = bisected.run("perf_tests/test_it.py::test_unknown", *arguments)
    assert status == USAGE
    assert said in text


def test_the_users_checkout_is_left_as_it_was(bisected: Bisected, first: tuple[str, int, str]) -> None:
    assert bisected.repository.git("status", "--porcelain", "--branch") == "## main"
