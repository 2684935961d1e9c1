"""Tests that train on real images: where there are none, where they are foreign, corrupt, or as they should be."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from inner import NOT_MEASURED, Finished, Project
from patience import SESSION_SECONDS

TESTS = """
    @pytest.mark.parametrize("input_pipeline", ["imagenet", "imagenet-only"])
    @pytest.mark.parametrize("batch_size", [2])
    def test_it(throughput, on, input_pipeline, batch_size):
        throughput.measure(tiny(batch_size, input_pipeline=input_pipeline), on=on)
"""
NEEDS_DATA = "test_it[2-imagenet]"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A data set of 24 images in 3 shards, and what `tfperf make-imagenet` said of it."""
    folder = tmp_path_factory.mktemp("data") / "imagenet"
    command = [sys.executable, "-m", "pytest_tfperf.cli", "make-imagenet", folder, "--images", "24", "--shards", "3"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SESSION_SECONDS, check=True)
    return folder, done.stdout


def run(project: Project, *arguments: str, **environment: str) -> Finished:
    project.tests(TESTS)
    return project.run(*arguments, **environment)


@pytest.mark.parametrize(
    ("arguments", "status", "kind"), [((), 0, "skipped"), (("--tfperf-require-baseline",), NOT_MEASURED, "error")]
)
def test_without_a_folder_a_test_is_skipped_and_under_the_nightly_gate_an_error(
    project: Project, arguments: tuple[str, ...], status: int, kind: str
) -> None:
    finished = run(project, *arguments)
    case = finished.cases[NEEDS_DATA]
    assert (finished.status, case.kind, project.started_workers) == (status, kind, False), finished.text
    if kind == "skipped":
        assert "name it with --tfperf-data-dir=DIR" in case.message


def test_a_foreign_folder_is_an_error_before_a_worker_starts(project: Project) -> None:
    project.write("photographs/cat.jpg", "")
    finished = run(project, TFPERF_DATA_DIR="photographs")
    case = finished.cases[NEEDS_DATA]
    assert (finished.status, case.kind, project.started_workers) == (NOT_MEASURED, "error", False)
    assert "has no files like train-00000-of-01024; it contains cat.jpg" in case.text


def test_the_command_says_what_it_wrote_and_how_to_use_it(made: tuple[Path, str]) -> None:
    folder, said = made
    assert f"{folder}: 24 images in 3 shard(s)" in said
    assert f"pytest perf_tests --tfperf-data-dir={folder}" in said


def test_real_images_are_trained_on_and_read_alone(project: Project, made: tuple[Path, str]) -> None:
    finished = run(project, f"--tfperf-data-dir={made[0]}")
    assert set(finished.kinds.values()) == {"passed"}, finished.text


def test_a_corrupt_record_is_named_in_the_error(project: Project, made: tuple[Path, str]) -> None:
    shutil.copytree(made[0], project.folder / "set")
    shard = project.folder / "set" / "train-00001-of-00003"
    shard.write_bytes(shard.read_bytes()[:-1000])
    case = run(project, "--tfperf-data-dir=set", "-k", "not only").cases[NEEDS_DATA]
    assert (case.kind, f"record 7 of {shard.name} in " in case.text) == ("error", True), case.text
