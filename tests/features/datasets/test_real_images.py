"""Tests that train on real images: where there are none, where they are foreign, and as they should be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.inner import NOT_MEASURED, Project
from tests.helpers.patience import SESSION_SECONDS

pytestmark = pytest.mark.slow

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    @pytest.mark.parametrize("input_pipeline", ["imagenet", "imagenet-only"])
    def test_it(throughput, gpu_topology, input_pipeline):
        workload = Workload(model="nets:tiny", batch_size=2, input_pipeline=input_pipeline)
        throughput.measure(workload, on=gpu_topology.take(1))
"""
NEEDS_DATA = "test_it and not only"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A data set of 24 images in 3 shards, and what `tfperf make-imagenet` said of it."""
    folder = tmp_path_factory.mktemp("data") / "imagenet"
    command = [sys.executable, "-m", "pytest_tfperf.cli", "make-imagenet", folder, "--images", "24", "--shards", "3"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SESSION_SECONDS, check=True)
    return folder, done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 0, "name it with --tfperf-data-dir=DIR"),
        (("--tfperf-require-baseline",), NOT_MEASURED, "name it with --tfperf-data-dir=DIR"),
        (
            ("--tfperf-data-dir=photographs",),
            NOT_MEASURED,
            "has no files like train-00000-of-01024; it contains cat.jpg",
        ),
    ],
    ids=["skipped", "an error of the nightly gate", "a foreign folder is an error"],
)
def test_without_images_no_worker_is_started(
    pytester: pytest.Pytester, arguments: tuple[str, ...], status: int, said: str
) -> None:
    pytester.makeini("[pytest]\ntfperf_machine = box\n")
    pytester.makepyfile(test_it=TESTS.replace("nets:tiny", "trivial"))
    pytester.mkdir("photographs").joinpath("cat.jpg").touch()
    result = pytester.runpytest("-rs", "-k", NEEDS_DATA, *arguments)
    result.assert_outcomes(**{"errors" if status else "skipped": 1}, deselected=1)
    assert (result.ret, said in result.stdout.str()) == (status, True)
    assert not Path(".tfperf/logs").exists()


def test_the_command_says_what_it_wrote_and_how_to_use_it(made: tuple[Path, str]) -> None:
    folder, said = made
    assert f"{folder}: 24 images in 3 shard(s)" in said
    assert f"pytest perf_tests --tfperf-data-dir={folder}" in said


def test_real_images_are_trained_on_and_read_alone(shared: Project, made: tuple[Path, str]) -> None:
    shared.write("test_it.py", TESTS)
    finished = shared.run(f"--tfperf-data-dir={made[0]}")
    assert set(finished.kinds.values()) == {"passed"}, finished.text
