"""How workers start and are driven: forked or as fresh interpreters, at the input's rate, leaving nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.training.server import open_accelerators
from tests.helpers.inner import Finished, Project

pytestmark = pytest.mark.slow

TESTS = """
    def measured(throughput, on, pipeline, **steps):
        workload = tiny(4, input_pipeline=f"nets:{pipeline}")
        return throughput.measure(workload, on=on, **steps).examples_per_sec

    def test_lists(throughput, on):
        throughput.measure(tiny(model="nets:listing_the_servers_files"), on=on)

    def test_is_throttled(throughput, on):
        # 10 batches of 4 a second, of which 16 lie ready at first and whenever a worker idles.
        assert measured(throughput, on, "buffered", warmup_steps=20) < 2 * 4 * 10

    def test_reads_files(throughput, on):
        # 40 batches of 4 at once, twice a second; between two files it is ten times that.
        assert measured(throughput, on, "in_files", steps=200, warmup_steps=30) < 2 * 320
"""


@pytest.fixture(scope="module")
def forked(shared: Project) -> Finished:
    shared.tests(TESTS)
    (shared.folder / "tmp").mkdir()
    return shared.run(TMPDIR=str(shared.folder / "tmp"))


@pytest.mark.parametrize("test", ["test_is_throttled", "test_reads_files"])
def test_a_run_that_waits_for_its_input_is_measured_at_the_inputs_rate(forked: Finished, test: str) -> None:
    assert forked.cases[test].kind == "passed", forked.cases[test].text


def test_workers_leave_no_temporary_files(forked: Finished, shared: Project) -> None:
    """A killed worker runs no exit handlers, and TensorFlow leaves a file for each function that it compiled."""
    assert forked.status == 0, forked.text
    assert list((shared.folder / "tmp").iterdir()) == []


def test_the_fork_server_holds_no_accelerator(forked: Finished, shared: Project) -> None:
    held = (shared.folder / "servers_files").read_text().splitlines()
    assert held
    assert not [name for name in held if name.startswith("/dev/nvidia")]


def test_the_fork_server_touches_no_cuda_and_its_workers_do(project: Project, driver_libraries: Path) -> None:
    """CUDA that was initialised before a fork is unusable in every child."""
    project.tests("""
        def test_tells_the_pids(throughput, on):
            throughput.measure(tiny(model="nets:telling_the_pids"), on=on)
    """)
    log = project.folder / "cuda.log"
    finished = project.run(LD_LIBRARY_PATH=str(driver_libraries), CUDA_LOG=str(log))
    assert finished.status == 0, finished.text
    server, worker = (project.folder / "pids").read_text().split()
    events = log.read_text().splitlines()
    assert not [event for event in events if event.startswith(f"{server} ")]
    assert f"{worker} cuInit" in events


def test_a_fresh_interpreter_measures_the_same_way(project: Project) -> None:
    """With TensorFlow, whatever Keras backend the environment names."""
    project.tests(TESTS)
    finished = project.run("--tfperf-worker=fresh", "-k", "throttled", KERAS_BACKEND="torch")
    assert (finished.kinds, finished.status) == ({"test_is_throttled": "passed"}, 0), finished.text


def test_open_accelerators_are_found_among_descriptors(tmp_path: Path) -> None:
    for number, name in enumerate(["/dev/null", "/dev/nvidia0", "socket:[1]", "/dev/nvidiactl", "/home/nvidia"]):
        (tmp_path / str(number)).symlink_to(name)
    assert open_accelerators(tmp_path) == ["/dev/nvidia0", "/dev/nvidiactl"]
