"""Each feature is one folder or file: a copy of the package without it loads, lists the other commands and measures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_tfperf

pytestmark = pytest.mark.slow

PACKAGE = Path(pytest_tfperf.__file__).parent
FEATURES = sorted(
    path.name for path in (PACKAGE / "features").iterdir() if path.suffix in ("", ".py") and path.name[0] != "_"
)

# A program, because no feature is in the process that trains. The whole session below trains.
CHECKS_A_PROGRAM = """\
import sys

import pytest

from pytest_tfperf import Command, Reads, cli


@pytest.mark.cpu
def test_check(throughput, gpu_topology):
    command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
    on = gpu_topology.take(1)
    reads = Reads(pattern="(?P<rate>[0-9.]+) examples/s", until_end=True)
    throughput.check(Command(command, name="program", reads=reads), on=on)


def test_commands():
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["--help"])
"""
TRAINS = """\
import pytest

from pytest_tfperf import Workload


@pytest.mark.cpu
def test_trivial(throughput, gpu_topology):
    throughput.check(Workload(model="trivial", batch_size=2), on=gpu_topology.take(1), steps=4)
"""

# One process for each folder, which has what all of them import and nothing of this package.
SESSIONS = """
import os, sys
import pandas, psutil, pynvml, pytest, pytest_benchmark.plugin

assert "pytest_tfperf" not in sys.modules
for folder in sys.argv[1:]:
    if os.fork() == 0:
        os.chdir(folder)
        output = os.open("output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.path.insert(0, os.path.join(folder, "copy"))
        status = pytest.main(["-q", "-rP", "--tfperf-smoke"])
        print("exit status", int(status), flush=True)
        os._exit(0)
    os.wait()
"""


def without(folder: Path, tests: str, *features: str) -> Path:
    """A project with a copy of the package that lacks these features."""
    package = folder / "copy" / "pytest_tfperf"
    shutil.copytree(PACKAGE, package)  # with what is compiled
    for feature in features:
        of_feature = package / "features" / feature
        of_feature.unlink() if of_feature.is_file() else shutil.rmtree(of_feature)
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\ntfperf_busy = 1\naddopts = -p no:hypothesispytest\n")
    return folder


# Of any two features there is a set with either and without the other: a feature that needs another is noticed as if
# each were deleted alone, in ten sessions in place of one for each.
DELETED = [
    [feature for number, feature in enumerate(FEATURES) if bool(number & 1 << bit) is has_it]
    for bit in range(len(FEATURES).bit_length())
    for has_it in (False, True)
]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The output of a session without each set of features."""
    projects = [without(tmp_path_factory.mktemp("without"), CHECKS_A_PROGRAM, *deleted) for deleted in DELETED]
    subprocess.run([sys.executable, "-c", SESSIONS, *projects], check=True)
    return [(project / "output").read_text() for project in projects]


def test_the_features_are_found_and_each_is_deleted_beside_each_other() -> None:
    pairs = {(gone, left) for deleted in DELETED for gone in deleted for left in {*FEATURES} - {*deleted}}
    assert len(pairs) == len(FEATURES) * (len(FEATURES) - 1) > 100


@pytest.mark.parametrize("number", range(len(DELETED)))
def test_a_check_passes_and_the_commands_of_the_others_are_listed(sessions: list[str], number: int) -> None:
    said, deleted = sessions[number], DELETED[number]
    assert "2 passed" in said, (deleted, said)
    assert said.endswith("exit status 0\n")
    assert [f"\n  {command} " in said for command in ("doctor", "replay")] == [
        command not in deleted for command in ("doctor", "replay")
    ]


# Once whole: whatever a feature does when a test is judged, or when a session ends, it is not missed.
def test_a_whole_session_measures_without_any_feature(tmp_path: Path) -> None:
    project = without(tmp_path, TRAINS, *FEATURES)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "copy")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (done.returncode, "1 measured" in done.stdout) == (0, True), done.stdout
