"""How often real sessions with --tfperf-base are wrong on this machine, and how long they take.

    nice python benchmarks/sessions_with_base.py /tmp/sessions              # hours; a second call goes on
    nice python benchmarks/sessions_with_base.py /tmp/five --tolerance 0.05 --branches same ten
    nice python benchmarks/sessions_with_base.py /tmp/beside --subject program --neighbour --branches same thirty

It makes a project by `tfperf init`, whose model is a stack of equal layers, with branches of nothing changed and of
more layers. With --subject steps it is a training with NumPy, which starts at once, that is measured by its steps, in
windows by turns; with --subject printed the same by what it prints in each step, one run after the other. With
--subject program it is a program that only computes, and with --subject waiting one whose steps sleep 20 ms. With
--neighbour other processes come and go (neighbour.py). One line of JSON for each session goes to sessions.jsonl, and
the counts are printed.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

BRANCHES = {"same": (20, 60), "five": (10, 63), "ten": (10, 66), "thirty": (10, 86)}  # sessions, size; main has 60
MODEL = """
import keras

def stack():
    layers = [keras.layers.Dense(512, activation="relu") for _ in range({size})]
    return keras.Sequential([keras.Input((512,)), *layers, keras.layers.Dense(10)])
"""
WAITING = """
import time

for step in range(1, 100_000):
    began = time.perf_counter()
    for _ in range(8):
        time.sleep({size} / 3000)
    print(f"step {{step}} throughput: {{8 / (time.perf_counter() - began):.4f}} examples/s loss: 0.5", flush=True)
"""
PROGRAM = """
import time

for step in range(1, 100_000):
    began = time.perf_counter()
    for _ in range({size}):
        sum(range(60_000))
    print(f"step {{step}} throughput: {{8 / (time.perf_counter() - began):.4f}} examples/s loss: 0.5", flush=True)
"""
NUMPY = """
import os, sys, time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy

def aligned(*shape):
    # As frameworks align theirs: else the length of paths decides where arrays begin, and so the speed, by up to 15 %.
    size = 4 * numpy.prod(shape)
    memory = numpy.zeros(size + 64, numpy.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size].view(numpy.float32).reshape(shape)

draw = numpy.random.default_rng(0)
weights = [aligned(128, 128) for _ in range({size})]
outputs = [aligned(32, 128) for _ in range({size} + 1)]
gradients = [aligned(32, 128) for _ in range(2)]
mask, change = aligned(32, 128), aligned(128, 128)
outputs[0][:] = draw.standard_normal((32, 128))
for weight in weights:
    weight[:] = draw.standard_normal((128, 128)) / 8
began = time.perf_counter()
for step in range(1_000_000):
    for x, weight, y in zip(outputs, weights, outputs[1:]):
        numpy.matmul(x, weight, out=y)
        numpy.maximum(y, 0, out=y)
    numpy.multiply(outputs[-1], 1 / 4096, out=gradients[0])
    for number, (x, weight) in enumerate(zip(outputs[-2::-1], weights[::-1])):
        gradient, before = gradients[number % 2], gradients[1 - number % 2]
        numpy.matmul(gradient, weight.T, out=before)
        numpy.greater(x, 0, out=mask)
        before *= mask
        numpy.matmul(x.T, gradient, out=change)
        change *= 1e-3
        weight -= change
    sys.audit("tfperf.step", 32)
    began, last = time.perf_counter(), began
"""
PRINTS = '    print(f"step {{step}}: {{32 / (began - last):.4f}} examples/s", flush=True)\n'
READS = ', reads=Reads(pattern="(?P<rate>[0-9.]+) examples/s")'
PROGRAM_TEST = """
import sys
import pytest
from pytest_tfperf import Command, Reads

@pytest.mark.cpu
def test_program(throughput, gpu_topology):
    program = Command([sys.executable, "train.py"], name="program"{reads})
    throughput.check(program, on=gpu_topology.take(1), steps={steps})
"""
OUTCOME = re.compile(r": 1 (REGRESSED|IMPROVED|INCONCLUSIVE|INVALID|PASS) in ")
BIN = Path(sys.executable).parent
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *WHO, *arguments], cwd=folder, check=True)


SUBJECTS = {"model": MODEL, "steps": NUMPY, "printed": NUMPY + PRINTS, "program": PROGRAM, "waiting": WAITING}


def project(folder: Path, subject: str) -> None:
    """Make the repository, with its branches."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    subprocess.run([BIN / "tfperf", "init"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    test = folder / "perf_tests" / "test_speed.py"
    own = test.read_text().replace('model="resnet20", batch_size=8', 'model="nets:stack", batch_size=64')
    is_model = subject == "model"
    program = {"reads": "" if subject == "steps" else READS, "steps": {"steps": 200, "printed": 12}.get(subject, 25)}
    test.write_text(own if is_model else PROGRAM_TEST.format(**program))
    code = folder / ("nets.py" if is_model else "train.py")
    for branch, size in [("main", 60), *((name, size) for name, (_, size) in BRANCHES.items())]:
        if branch != "main":
            git(folder, "switch", "--quiet", "--create", branch, "main")
        code.write_text(SUBJECTS[subject].format(size=size))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--allow-empty", "--message", branch)


def session(folder: Path, branch: str, tolerance: str, log: Path) -> dict[str, object]:
    """One session on a branch."""
    git(folder, "switch", "--quiet", branch)
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
        env=os.environ | {"PYTHONPATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    log.write_text(done.stdout)
    found = OUTCOME.search(done.stdout)
    return {
        "branch": branch,
        "outcome": found[1] if found else "none",
        "status": done.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "load": load,
    }


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--tolerance", default="0.02")
    arguments.add_argument("--branches", nargs="+", choices=BRANCHES, default=["same", "five", "ten"])
    arguments.add_argument("--sessions", type=int, help="of each branch, in place of 20 and 10")
    arguments.add_argument("--subject", choices=SUBJECTS, default="model")
    arguments.add_argument("--neighbour", action="store_true")
    given = arguments.parse_args()
    folder, records = given.folder / "project", given.folder / "sessions.jsonl"
    if not folder.exists():
        project(folder, given.subject)
    done = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    wanted = {name: given.sessions or BRANCHES[name][0] for name in given.branches}
    left = {name: number - sum(one["branch"] == name for one in done) for name, number in wanted.items()}
    if given.neighbour:
        seed = str(len(done) + 1)
        neighbour = subprocess.Popen([sys.executable, Path(__file__).with_name("neighbour.py"), "--seed", seed])
        atexit.register(neighbour.terminate)
    while any(number > 0 for number in left.values()):
        branch = max(left, key=lambda name: left[name] / wanted[name])  # the branches take turns
        left[branch] -= 1
        done.append(session(folder, branch, given.tolerance, given.folder / f"{len(done) + 1}-{branch}.log"))
        with records.open("a") as file:
            file.write(json.dumps(done[-1]) + "\n")
    for branch in wanted:
        print(branch, dict(Counter(one["outcome"] for one in done if one["branch"] == branch)))
    print(f"{statistics.median(one['seconds'] for one in done):.0f} s in the median, of {len(done)} sessions")


if __name__ == "__main__":
    main()
