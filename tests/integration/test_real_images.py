"""Tests that train on photographs: where there are none, where they are foreign, corrupt, or as they should be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from inner import Finished, Project

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    @pytest.mark.parametrize("input_pipeline", ["imagenet", "imagenet-only"])
    def test_it(throughput, gpu_topology, input_pipeline):
        workload = Workload(model="nets:tiny", batch_size=2, input_pipeline=input_pipeline)
        throughput.measure(workload, on=gpu_topology.take(1))
"""
NEEDS_DATA = "test_it[imagenet]"
COULD_NOT_MEASURE = 6


def run(project: Project, *arguments: str, **environment: str) -> Finished:
    project.write("test_it.py", TESTS)
    return project.run(*arguments, **environment)


def workers_started(project: Project) -> bool:
    return (project.folder / ".tfperf" / "logs").exists()


def test_without_a_folder_the_test_is_skipped_with_the_option_to_give(project: Project) -> None:
    finished = run(project)
    case = finished.cases[NEEDS_DATA]
    assert (finished.status, case.kind, workers_started(project)) == (0, "skipped", False)
    assert "Name one with --tfperf-data-dir=DIR (tfperf make-imagenet DIR makes one)" in case.message


def test_the_nightly_gate_takes_a_missing_folder_for_an_error(project: Project) -> None:
    finished = run(project, "--tfperf-require-baseline")
    assert (finished.status, finished.kinds[NEEDS_DATA]) == (COULD_NOT_MEASURE, "error")


def test_a_foreign_folder_is_an_error_before_a_worker_starts(project: Project) -> None:
    project.write("photographs/cat.jpg", "")
    finished = run(project, TFPERF_DATA_DIR="photographs")
    case = finished.cases[NEEDS_DATA]
    assert (finished.status, case.kind, workers_started(project)) == (COULD_NOT_MEASURE, "error", False)
    assert "has no files like train-00000-of-01024; there is cat.jpg" in case.text


def damaged(project: Project, photographs: Path) -> str:
    """A set with one record that can't be read, in the project's folder `set`; gives the record."""
    shutil.copytree(photographs, project.folder / "set")
    path = project.folder / "set" / "train-00001-of-00003"
    path.write_bytes(path.read_bytes()[:-1000])
    return f"{path.name} record 7"


def test_a_corrupt_record_is_named_in_the_error(project: Project, photographs: Path) -> None:
    record = damaged(project, photographs)
    case = run(project, "--tfperf-data-dir=set", "-k", "not only").cases[NEEDS_DATA]
    assert case.kind == "error"
    assert f"{record} in " in case.text


@pytest.fixture(scope="module")
def skipping(shared: Project, photographs: Path) -> tuple[Finished, str]:
    record = damaged(shared, photographs)
    return run(shared, "--tfperf-data-dir=set", "--tfperf-corrupt=skip"), record


def test_photographs_are_trained_on_and_read_alone(skipping: tuple[Finished, str]) -> None:
    finished, _ = skipping
    assert finished.kinds == {"test_it[imagenet]": "passed", "test_it[imagenet-only]": "passed"}, finished.text


def test_a_corrupt_record_that_is_skipped_is_told_in_a_warning(skipping: tuple[Finished, str]) -> None:
    finished, record = skipping
    assert f"the first {record}" in finished.text
