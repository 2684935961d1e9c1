"""All that twelve saved sessions show, for changes of the code that must change no word.

    python -m tools.saved_sessions /tmp/before      # at the commit before
    python -m tools.saved_sessions /tmp/after       # and after
    diff -r /tmp/before /tmp/after

Each is a pytest session of its own, whose workers play the steps that are stored below. Written are what its terminal
shows (with annotations for GitHub), JSON, Markdown, JUnit and the HTML page. Times, ids and folders are masked.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLAYED_TRAINING: Final = ROOT / "tests" / "helpers" / "played_training"

INI: Final = """
[pytest]
addopts = -p no:hypothesispytest -p no:cacheprovider
tfperf_machine = box
tfperf_steps = 15
tfperf_warmup_steps = 1
tfperf_busy = 1
"""

ONE_TEST: Final = """
import pytest
from pytest_tfperf import Workload

pytestmark = pytest.mark.cpu

def test_even(throughput, gpu_topology):
    workload = Workload(model="nets:even", batch_size=4)
    throughput.check(workload, on=gpu_topology.take(1){more})
"""

MANY_TESTS: Final = """
import pytest
from pytest_tfperf import Workload

pytestmark = pytest.mark.cpu

@pytest.mark.parametrize("batch_size", range(1, 13))
def test_even(throughput, gpu_topology, batch_size):
    workload = Workload(model="nets:even", batch_size=batch_size)
    throughput.check(workload, on=gpu_topology.take(1))
"""

HEADER: Final = (
    "workload,topology,value,lower,upper,unit,runs,between_runs,provenance,source,date,gpu,gpu_fp32_tflops,lock,commit,"
    "environment,note"
)

ACKNOWLEDGED: Final = """
version = 1

[[acknowledged]]
machine = "box"
test = "test_it.py::test_even"
workload = "nets:even-b4-replicated-device"
topology = "1x1"
figure = "throughput"
until = {until}
why = "bug 123"
change = -0.2
worst = -0.21
"""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A session from stored measurements.

    Args:
        steps: the seconds of a step, of one worker after the other; then from the start again.
        tests: the test file.
        rows: the batch sizes of the recorded baselines, which are of 0.02 s a step.
        memory_row: the recorded peak memory in bytes; 0 for no such row.
        runs: the number of runs of the rows.
        spread: the between-run standard deviation of the rows, as a fraction.
        arguments: of pytest.
        reference: the pace of the reference environment, 1 for that of the session; 0 for no such environment.
        acknowledged: whether a loss of 20 % is acknowledged.
    """

    steps: str
    tests: str = ONE_TEST.format(more="")
    rows: tuple[int, ...] = (4,)
    memory_row: float = 0.0
    runs: int = 5
    spread: float = 0.002
    arguments: tuple[str, ...] = ()
    reference: float = 0.0
    acknowledged: bool = False


SESSIONS: Final = {
    "pass": Saved(steps="0.02"),
    "confirmed by runs": Saved(steps="0.025 0.0251 0.0249"),
    "confirmed by pairs": Saved(steps="0.025", reference=0.8),
    "a figure's loss": Saved(
        steps="0.02",
        tests=ONE_TEST.format(more=', also=("peak_memory",)'),
        memory_row=100e6,
    ),
    "inconclusive": Saved(steps="0.0216 0.0203 0.0215 0.0204", spread=0.01),
    "too noisy": Saved(steps="0.025", runs=2, spread=0.02),
    "error": Saved(steps="0.02", tests=ONE_TEST.format(more="").replace("nets:even", "nets:raising")),
    "recording": Saved(steps="0.025 0.0251 0.0249 0.025 0.02505", arguments=("--update-baselines",)),
    "base": Saved(steps="0.025", arguments=("--tfperf-against=reference/bin/python",), reference=0.8),
    "acknowledged": Saved(steps="0.025", acknowledged=True),
    "software slower": Saved(steps="0.0215", tests=MANY_TESTS, rows=tuple(range(1, 13)), reference=0.93),
    "machine slower": Saved(steps="0.022", tests=MANY_TESTS, rows=tuple(range(1, 13)), reference=1.0),
}

MASKS: Final = (
    (r"\d{8}-\d{6}-[0-9a-f]{6}", "SESSION"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z| UTC)?", "TIME"),
    (r"\d\d? \w{3} 20\d\d, \d\d:\d\d UTC", "TIME"),
    (r"\b20\d\d-\d\d-\d\d\b", "DAY"),
    (r"(worker|server)-[\w-]+\.log", r"\1.log"),
    (r'(time|timestamp|hostname)="[^"]*"', r'\1="X"'),
    (r'"(seconds|began|pid|time)": ?[^,}\]]+', r'"\1": X'),
    (r"\b[\d.,]+ (s|min)\b", "N s"),
    (r"in [\d.]+s( \([\d:]+\))?", "in Ns"),
    (r"([=-])\1+ (.*) \1+\n", r"\1 \2 \1\n"),
    # What else the machine does meanwhile.
    (r"(\n|%0A|\\n) +machine  .*?(?=\n|%0A|\\n)", ""),
    (r"; meanwhile other processes used \d+ % of the CPU", ""),
    (r"tfperf: other processes used .*\n", ""),
    (r"During the runs: .*?\. ", ""),
    (r"row of .* recorded under load: .*\n", ""),
    (r"recorded under load: [^;\n]*(; )?", ""),
    (r'"telemetry":(null|\{.*?\]\}\]\})', '"telemetry": X'),
    (r"pid \d+", "pid N"),
    (r"0x[0-9a-f]+", "0xN"),
)


def main() -> None:
    """Write the outputs of all sessions, or of those that are named, to a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="gets a folder for each session; outside the repository")
    parser.add_argument("sessions", nargs="*", help="of these only", choices=[*SESSIONS, []])
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    names = given.sessions or list(SESSIONS)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: save(SESSIONS[name], given.folder / name.replace(" ", "-")), names))


def save(saved: Saved, folder: Path) -> None:
    """Run a session, and write what it showed to a folder."""
    project = folder / "project"
    _prepare(saved, project)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TFPERF_", "PYTEST_", "GITHUB_", "CI"))
    }
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(PLAYED_TRAINING), str(ROOT)]),
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "COLUMNS": "120",
    }
    reference = saved.reference and "--tfperf-against=reference/bin/python" not in saved.arguments
    arguments = [
        *saved.arguments,
        *(["--tfperf-reference=reference/bin/python"] if reference else []),
        "--tfperf-html=page.html",
        "--junitxml=junit.xml",
    ]
    terminal = _output([sys.executable, "-m", "pytest", *arguments], project, environment)
    history = _output([sys.executable, "-m", "pytest_tfperf.cli", "history", "--json"], project, environment)
    shown = {"terminal.txt": terminal, "history.json": history}
    for name in ("page.html", "junit.xml", "baselines/box.csv"):
        if (project / name).exists():
            shown[Path(name).name] = (project / name).read_text()
    if (folder / "summary.md").exists():
        shown["summary.md"] = (folder / "summary.md").read_text()
    for name, text in shown.items():
        (folder / name).write_text(_masked(text, project))
    shutil.rmtree(project)


def _prepare(saved: Saved, project: Path) -> None:
    project.mkdir(parents=True)
    (project / "pytest.ini").write_text(INI)
    (project / "test_it.py").write_text(saved.tests)
    (project / "even").write_text(saved.steps)
    (project / "nets.py").write_text("def even(): ...\ndef raising(): ...\n")
    (project / "baselines").mkdir()
    rows = [
        f"nets:even-b{size}-replicated-device,1x1,{size * 50.0},,,images/s,{saved.runs},{saved.spread},measured,,,,,,,,"
        for size in sorted(saved.rows, key=str)
    ]
    header = HEADER
    if saved.memory_row:
        header = header.replace("topology,", "topology,figure,")
        rows = [row.replace(",1x1,", ",1x1,,") for row in rows]
        rows += [f"nets:even-b4-replicated-device,1x1,peak_memory,{saved.memory_row},,,bytes,5,0.002,measured,,,,,,,,"]
    (project / "baselines" / "box.csv").write_text("\n".join([header, *rows, ""]))
    if saved.acknowledged:
        until = date.today() + timedelta(days=60)
        (project / "baselines" / "acknowledged.toml").write_text(ACKNOWLEDGED.format(until=until))
    if saved.reference:
        python = project / "reference" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nPLAYED_PACE={saved.reference} exec {sys.executable} "$@"\n')
        python.chmod(0o755)


def _output(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return f"{done.stdout}exit status {done.returncode}\n"


def _masked(text: str, project: Path) -> str:
    for folder, name in ((project.resolve(), "PROJECT"), (ROOT, "ROOT"), (Path(sys.prefix), "VENV")):
        text = text.replace(str(folder), name)
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return text


if __name__ == "__main__":
    main()
