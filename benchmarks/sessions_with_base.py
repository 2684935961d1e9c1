"""How often real sessions with --tfperf-base are wrong on this machine, and how long they take.

    nice python benchmarks/sessions_with_base.py /tmp/sessions        # hours; a second call goes on

It makes a project by `tfperf init`, whose model is a stack of equal layers, with branches of nothing changed, of 5 %
and of 10 % more layers. One line of JSON for each session goes to sessions.jsonl, and the counts are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

BRANCHES = {"same": (20, 60), "five": (10, 63), "ten": (10, 66)}  # sessions, layers; main has 60
MODEL = """
import keras

def stack():
    layers = [keras.layers.Dense(512, activation="relu") for _ in range({layers})]
    return keras.Sequential([keras.Input((512,)), *layers, keras.layers.Dense(10)])
"""
OUTCOMES = re.compile(r"(REGRESSED|IMPROVED|INCONCLUSIVE|INVALID|PASS)\b")
BIN = Path(sys.executable).parent
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *WHO, *arguments], cwd=folder, check=True)


def project(folder: Path) -> None:
    """Make the repository, with its branches."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    subprocess.run([BIN / "tfperf", "init"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    test = folder / "perf_tests" / "test_speed.py"
    test.write_text(test.read_text().replace('model="resnet20", batch_size=8', 'model="nets:stack", batch_size=64'))
    for branch, layers in [("main", 60), *((name, layers) for name, (_, layers) in BRANCHES.items())]:
        if branch != "main":
            git(folder, "switch", "--quiet", "--create", branch, "main")
        (folder / "nets.py").write_text(MODEL.format(layers=layers))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--allow-empty", "--message", branch)


def session(folder: Path, branch: str, tolerance: str) -> dict[str, object]:
    """One session on a branch."""
    git(folder, "switch", "--quiet", branch)
    comment = folder.parent / "comment.md"
    comment.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "perf_tests",
        "--tfperf-base=main",
        "-o",
        f"tfperf_tolerance={tolerance}",
    ]
    began, load = time.monotonic(), os.getloadavg()[0]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"TFPERF_COMMENT": str(comment), "PYTHONPATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    (folder.parent / "last.log").write_text(done.stdout)
    found = OUTCOMES.search(comment.read_text()) if comment.exists() else None
    return {
        "branch": branch,
        "outcome": found[1] if found else "none",
        "status": done.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "load": load,
        "row": next((line for line in done.stdout.splitlines() if "b/a" in line), ""),
    }


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--tolerance", default="0.02")
    given = arguments.parse_args()
    folder, records = given.folder / "project", given.folder / "sessions.jsonl"
    if not folder.exists():
        project(folder)
    done = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    left = {name: number - sum(one["branch"] == name for one in done) for name, (number, _) in BRANCHES.items()}
    while any(number > 0 for number in left.values()):
        branch = max(left, key=lambda name: left[name] / BRANCHES[name][0])  # the branches take turns
        left[branch] -= 1
        done.append(session(folder, branch, given.tolerance))
        with records.open("a") as file:
            file.write(json.dumps(done[-1]) + "\n")
    for branch in BRANCHES:
        print(branch, dict(Counter(one["outcome"] for one in done if one["branch"] == branch)))
    print(f"{statistics.median(one['seconds'] for one in done):.0f} s in the median, of {len(done)} sessions")


if __name__ == "__main__":
    main()
