"""How often sessions on this machine are right: real workers, a real reference environment, eight tests.

    python benchmarks/live.py same --sessions 30                    # no software is slower
    python benchmarks/live.py slower --loss 0.05 --sessions 3       # the current environment loses 5 %
    python benchmarks/live.py one --loss 0.05 --sessions 20         # one test a session, which loses 5 %
    python benchmarks/live.py hog --sessions 3                      # a program beside the workers slows both sides
    python benchmarks/live.py same --sessions 5 --reference PYTHON  # another Python, with an older TensorFlow, say

It makes a scratch project in FOLDER, records its baselines with `--update-baselines`, and runs pytest there as a user
would. FOLDER is used again if it exists, so that several calls share baselines. Run it on a machine that does nothing
else; a session takes about a minute, or several where the machine is restless.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from comparison import interval

SUITE = """\
import pytest

from pytest_tfperf import Workload

CASES = [
    (dict(model="resnet20", batch_size=8), 1, 60),
    (dict(model="resnet20", batch_size=16), 1, 40),
    (dict(model="resnet20", batch_size=8, input_pipeline="host"), 1, 60),
    (dict(model="resnet20", batch_size=8, forward_only=True), 1, 120),
    (dict(model="trivial", batch_size=32), 1, 400),
    (dict(model="trivial", batch_size=64), 1, 300),
    (dict(model="trivial", batch_size=32, input_pipeline="host"), 1, 300),
    (dict(model="trivial", batch_size=32, variable_update="parameter_server"), 2, 200),
]


@pytest.mark.cpu
@pytest.mark.parametrize("fields, devices, steps", CASES)
def test_live(throughput, gpu_topology, fields, devices, steps):
    throughput.check(Workload(**fields), on=gpu_topology.take(devices), steps=steps)
"""

BURNER = "import time\nend = time.monotonic() + 3600\nwhile time.monotonic() < end: pass"

EXIT = {0: "green", 1: "software", 6: "not measured", 7: "machine"}


def pytest_session(folder: Path, *options: str) -> tuple[int, str, float]:
    """Run the suite; returns exit status, output and seconds."""
    command = [sys.executable, "-m", "pytest", "suite", "-m", "cpu", *options]
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - started


def prepared(folder: Path) -> Path:
    """The scratch project with its baselines."""
    (folder / "suite").mkdir(parents=True, exist_ok=True)
    (folder / "suite" / "test_live.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for attempt in range(1, 9):
        recorded = sum(len(csv.read_text().splitlines()) - 1 for csv in (folder / "baselines").glob("*.csv"))
        if recorded == 8:
            return folder
        option = "--update-baselines" if attempt == 1 else "--update-baselines=failed"
        status, output, seconds = pytest_session(folder, option)
        print(f"recording baselines, attempt {attempt}: exit status {status}, {seconds:.0f} s", flush=True)
        (folder / "recording.txt").write_text(output)
    sys.exit(f"not all of 8 baselines could be recorded; see {folder}/recording.txt")


def measurements(folder: Path) -> list[dict[str, Any]]:
    """The measurements of the history in `folder`, in the form that `tfperf history --export` writes."""
    tfperf = Path(sys.executable).with_name("tfperf")
    done = subprocess.run([tfperf, "history", "--export", "--dir", folder], capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["measurements"]
    return found


def report(name: str, folder: Path, sessions: list[tuple[int, float]]) -> None:
    """Print rates with 95 % Wilson intervals, and what the sessions took."""
    verdicts = Counter(EXIT.get(status, f"exit status {status}") for status, _ in sessions)
    print(f"\n{name}: {len(sessions)} sessions")
    for word, count in verdicts.most_common():
        print(f"  {word:<14} {count:>3}   {interval(count, len(sessions))} %")
    taken = measurements(folder)
    outcomes = Counter(verdict["outcome"] for one in taken if (verdict := one["verdicts"][0])["outcome"])
    print("  tests          " + ", ".join(f"{count} {word}" for word, count in outcomes.most_common()))
    runs = [len(one["runs"]) + 2 * len(one["pairs"]) for one in taken]
    print(f"  runs a test    median {statistics.median(runs):g}, mean {statistics.mean(runs):.1f}, most {max(runs)}")
    seconds = sorted(seconds for _, seconds in sessions)
    print(f"  seconds        median {statistics.median(seconds):.0f}, {seconds[0]:.0f} to {seconds[-1]:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("situation", choices=["same", "slower", "one", "hog"])
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--loss", type=float, default=0.05, help="the part of the throughput that is taken away")
    parser.add_argument("--reference", default=sys.executable, metavar="PYTHON", help="the reference environment")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/tfperf-live"), help="of the scratch project")
    args = parser.parse_args()
    folder = prepared(args.folder.resolve())
    history = folder / f"history-{args.situation}"
    shutil.rmtree(history, ignore_errors=True)
    options = [f"--tfperf-reference={args.reference}", f"--tfperf-dir={history}"]
    is_slower = args.situation in ("slower", "one")
    if is_slower:
        options.append(f"--tfperf-inject-slowdown={args.loss}")
    sessions = []
    with ExitStack() as stack:
        if args.situation == "hog":
            options += ["-o", "tfperf_busy=1"]  # otherwise its runs would be discarded as disturbed
            hog = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURNER]))
            stack.callback(hog.kill)
        for number in range(1, args.sessions + 1):
            which = ["-k", f"fields{number % 8}"] if args.situation == "one" else []
            status, output, seconds = pytest_session(folder, *options, *which)
            sessions.append((status, seconds))
            (history / f"session-{number}.txt").write_text(output)
            print(f"session {number}: {EXIT.get(status, status)}, {seconds:.0f} s", flush=True)
    name = f"{args.situation} {args.loss:.0%}" if is_slower else args.situation
    report(name, history, sessions)


if __name__ == "__main__":
    main()
