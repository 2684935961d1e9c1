"""Each feature is one folder or file: a copy of the package without it loads, lists the other commands and measures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_tfperf

PACKAGE = Path(pytest_tfperf.__file__).parent
FEATURES = sorted(
    path.name for path in (PACKAGE / "features").iterdir() if path.suffix in ("", ".py") and path.name[0] != "_"
)

CHECK = """\
import pytest

from pytest_tfperf import Workload


@pytest.mark.cpu
def test_trivial(throughput, gpu_topology):
    throughput.check(Workload(model="trivial", batch_size=2), on=gpu_topology.take(1), steps=4)
"""


class Without:
    """A copy of the package without these features, and a project that uses it."""

    def __init__(self, folder: Path, *features: str) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, folder / "copy" / "pytest_tfperf", ignore=ignored)
        for feature in features:
            of_feature = folder / "copy" / "pytest_tfperf" / "features" / feature
            of_feature.unlink() if of_feature.is_file() else shutil.rmtree(of_feature)
        (folder / "test_it.py").write_text(CHECK)
        (folder / "pytest.ini").write_text("[pytest]\n")

    def run(self, *arguments: str) -> str:
        """The output of a program under this copy, which must end well."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder / "copy")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture
def without(tmp_path: Path, feature: str) -> Without:
    return Without(tmp_path, feature)


def test_the_features_are_found() -> None:
    assert len(FEATURES) > 10


@pytest.mark.parametrize("feature", FEATURES)
def test_a_check_passes_and_the_commands_of_the_others_are_listed(without: Without, feature: str) -> None:
    assert "1 passed" in without.run("-m", "pytest", "--tfperf-smoke", "-q")
    listed = re.findall(r"^    ([a-z]+) ", without.run("-m", "pytest_tfperf.cli", "--help"), re.MULTILINE)
    assert ("doctor" in listed, "export" in listed) == (feature != "doctor", feature != "export.py")


# Once whole: whatever a feature does when a test is judged, or when a session ends, it is not missed.
def test_a_whole_session_measures_without_any_feature(tmp_path: Path) -> None:
    alone = Without(tmp_path, *FEATURES)
    assert "1 measured" in alone.run("-m", "pytest", "-q", "-o", "tfperf_busy=1")
