"""Bare repositories that keep documents on a branch, and what their owners do to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.features.sharing.git_branch import GitBranch
from tests.helpers.repositories import git

BRANCH = "refs/heads/tfperf-history"

# Puts documents, or fetches all, again and again until it is killed; says so once it has begun.
_PROGRAM = """
import itertools, os, sys
from pathlib import Path
from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.features.sharing.git_branch import GitBranch
folder, action = sys.argv[1:]
branch = GitBranch(HistoryUrl(os.environ["URL"]), folder=Path(folder), root=Path(folder))
print("begins", flush=True)
for number in itertools.count():
    if action.startswith("put"):
        branch.put({f"v1/m/2026-11/{action}-{number}-{i}.json.gz": b"%d." % i * 5000 for i in range(10)})
    else:
        list(branch.get(branch.list()))
"""


def bare_repository(folder: Path, *, filters: bool = True) -> Path:
    """An empty repository that code hosts would serve; without `filters` it sends all documents, as git by default."""
    git(folder.parent, "init", "--quiet", "--bare", "--initial-branch=main", str(folder))
    git(folder, "config", "uploadpack.allowFilter", str(filters).lower())
    return folder


def hook(repository: Path, text: str, name: str = "pre-receive") -> None:
    stand_in(repository / "hooks" / name, text)


def documents(count: int, machine: str = "m", size: int = 3000) -> dict[str, bytes]:
    return {
        f"v1/{machine}/2026-11/{number:04}.json.gz": (b"%s-%d " % (machine.encode(), number) * size)[:size]
        for number in range(count)
    }


def all_in(branch: GitBranch) -> dict[str, bytes]:
    return dict(branch.get(branch.list()))


def killed_after(seconds: float, url: HistoryUrl, folder: Path, action: str) -> None:
    """Start a process that pulls, or pushes documents, and kill it with all that it started, as a session does."""
    command = [sys.executable, "-c", _PROGRAM, str(folder), action]
    variables = os.environ | {"URL": url.secret}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begins\n"
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def stand_in(file: Path, text: str) -> str:
    """A PATH on which a script is found as the program of that name."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return f"{file.parent}:{os.environ['PATH']}"


def squash(repository: Path) -> None:
    """Replace the branch's commits by one, as its owner may."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    new = git(repository, *who, "commit-tree", "-m", "squashed", f"{BRANCH}^{{tree}}")
    git(repository, "update-ref", BRANCH, new)


def subjects(repository: Path) -> Sequence[str]:
    return git(repository, "log", "--format=%s", BRANCH).splitlines()
