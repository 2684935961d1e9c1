"""Forked from a server that holds no accelerator, or as fresh interpreters; windows back to back in either."""

from __future__ import annotations

from pathlib import Path

import pytest
from inner import Finished, Project

from pytest_tfperf.training.server import open_accelerators

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    pytestmark = pytest.mark.cpu

    def test_lists(throughput, gpu_topology):
        throughput.measure(Workload(model="nets:listing_the_servers_files", batch_size=1), on=gpu_topology.take(1))

    def test_is_throttled(throughput, gpu_topology):
        workload = Workload(model="nets:tiny", batch_size=4, input_pipeline="nets:buffered")
        measured = throughput.measure(workload, on=gpu_topology.take(1), steps=25, warmup_steps=20)
        assert measured.images_per_sec < 2 * 4 * 10
"""


# A driver that is busy between windows, yet for less time than a window takes. Five steps that are half a second: would
# the worker wait for each window to be asked for, four of the five batches would lie ready.
SLOW_DRIVER = """
    import time
    from pytest_tfperf.bench import windows
    from pytest_tfperf.reports.progress_line import ProgressLine

    windows.LEAST_WINDOWS, windows.WINDOW_SECONDS = 5, 1.0
    shown = ProgressLine.window

    def window(self, *arguments):
        time.sleep(0.4)
        shown(self, *arguments)

    ProgressLine.window = window
"""


@pytest.fixture(scope="module")
def forked(shared: Project) -> Finished:
    shared.write("test_it.py", TESTS)
    shared.write("conftest.py", SLOW_DRIVER)
    (shared.folder / "tmp").mkdir()
    return shared.run(TMPDIR=str(shared.folder / "tmp"))


def test_workers_leave_no_temporary_files(forked: Finished, shared: Project) -> None:
    """A killed worker runs no exit handlers, and TensorFlow leaves a file for each function that it compiled."""
    assert forked.status == 0, forked.text
    assert list((shared.folder / "tmp").iterdir()) == []


def test_the_fork_server_holds_no_accelerator(forked: Finished, shared: Project) -> None:
    held = (shared.folder / "servers_files").read_text().splitlines()
    assert held
    assert not [name for name in held if name.startswith("/dev/nvidia")]


def test_a_throttled_pipeline_is_measured_at_its_own_pace(forked: Finished) -> None:
    """Workers that idle between windows let the buffers fill, and read five times as fast."""
    assert forked.kinds["test_is_throttled"] == "passed", forked.cases["test_is_throttled"].text


def test_a_fresh_interpreter_measures_the_same_way(project: Project) -> None:
    project.write("test_it.py", TESTS)
    project.write("conftest.py", SLOW_DRIVER)
    finished = project.run("--tfperf-worker=fresh", "-k", "throttled")
    assert (finished.kinds, finished.status) == ({"test_is_throttled": "passed"}, 0), finished.text


def test_open_accelerators_are_found_among_descriptors(tmp_path: Path) -> None:
    for number, name in enumerate(["/dev/null", "/dev/nvidia0", "socket:[1]", "/dev/nvidiactl", "/home/nvidia"]):
        (tmp_path / str(number)).symlink_to(name)
    assert open_accelerators(tmp_path) == ["/dev/nvidia0", "/dev/nvidiactl"]
