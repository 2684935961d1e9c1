"""Ctrl-C, a time limit's SIGTERM and kill -9 of pytest: workers and server go with it, finished results stay."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from inner import Finished, Project
from patience import wait_for

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    pytestmark = pytest.mark.cpu

    def test_done(throughput, gpu_topology):
        throughput.check(Workload(model="nets:tiny", batch_size=1), on=gpu_topology.take(1))

    def test_in_mid_run(throughput, gpu_topology):
        workload = Workload(model="nets:with_a_child", batch_size=1, input_pipeline="nets:stalling")
        throughput.check(workload, on=gpu_topology.take(1))
"""


def stopped(project: Project, by: signal.Signals, tests: str = TESTS) -> Finished:
    """A session that was stopped by this signal in the middle of its last test's steps."""
    project.write("test_it.py", tests)
    process = project.start()
    project.wait_for_file("stalled", process)
    process.send_signal(by)
    return project.end_of(process)


# Says which children pytest has when it begins to find out where it was interrupted, which can take seconds.
CHILDREN = """
    import os
    from pathlib import Path

    def pytest_keyboard_interrupt():
        Path("children").write_text(Path(f"/proc/self/task/{os.getpid()}/children").read_text())
"""


@pytest.fixture(scope="module")
def interrupted(shared: Project) -> Finished:
    shared.write("conftest.py", CHILDREN)
    return stopped(shared, signal.SIGINT)


def test_ctrl_c_ends_workers_and_server_before_anything_else(interrupted: Finished, shared: Project) -> None:
    assert (shared.folder / "children").read_text() == ""


def test_ctrl_c_ends_workers_server_and_their_children(interrupted: Finished, shared: Project) -> None:
    assert wait_for(lambda: not shared.processes()), shared.processes()


def test_ctrl_c_exits_as_pytest_does(interrupted: Finished) -> None:
    assert interrupted.status == 2


def test_ctrl_c_keeps_finished_results(interrupted: Finished, shared: Project) -> None:
    assert shared.finished_results() == ["test_it.py::test_done"]


def test_ctrl_c_shows_finished_results(interrupted: Finished) -> None:
    assert "box: 1 NO_BASELINE in " in interrupted.text


DOUBTFUL = """
    def test_in_doubt(throughput, gpu_topology):
        throughput.check(Workload(model="nets:tiny", batch_size=2), on=gpu_topology.take(1))

    def test_in_mid_run("""


@pytest.fixture(scope="module")
def out_of_time(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Finished]]:
    """Ended by SIGTERM, with a test that waits for its further runs."""
    with Project(tmp_path_factory.mktemp("out_of_time")) as project:
        project.baseline("nets:tiny-b2-replicated-device", reference=1e9)
        yield project, stopped(project, signal.SIGTERM, TESTS.replace("\n    def test_in_mid_run(", DOUBTFUL))


def test_a_time_limit_ends_workers_server_and_their_children(out_of_time: tuple[Project, Finished]) -> None:
    assert wait_for(lambda: not out_of_time[0].processes()), out_of_time[0].processes()


def test_a_time_limit_exits_as_ctrl_c_does(out_of_time: tuple[Project, Finished]) -> None:
    assert out_of_time[1].status == 2, out_of_time[1].text


def test_a_time_limit_shows_finished_results_and_doubts(out_of_time: tuple[Project, Finished]) -> None:
    assert "box: 1 NO_BASELINE, 1 INCONCLUSIVE in " in out_of_time[1].text


def test_the_next_night_knows_of_what_was_in_doubt(out_of_time: tuple[Project, Finished]) -> None:
    assert out_of_time[0].finished_results() == ["test_it.py::test_done", "test_it.py::test_in_doubt"]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("killed")) as project:
        stopped(project, signal.SIGKILL)
        yield project


def test_kill_9_ends_workers_and_server(killed: Project) -> None:
    assert wait_for(lambda: not killed.processes()), killed.processes()


def test_kill_9_keeps_finished_results(killed: Project) -> None:
    assert killed.finished_results() == ["test_it.py::test_done"]


def test_kill_9_ends_a_fresh_interpreter(project: Project) -> None:
    project.write("test_it.py", TESTS.replace("with_a_child", "tiny"))
    process = project.start("--tfperf-worker=fresh", "-k", "mid_run")
    project.wait_for_file("stalled", process)
    process.kill()
    project.end_of(process)
    assert wait_for(lambda: not project.processes()), project.processes()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_while_tensorflow_is_imported_leaves_no_process(project: Project, by: signal.Signals) -> None:
    project.write("test_it.py", TESTS)
    process = project.start()
    project.wait_for_file(".tfperf/logs/server-*.log", process)
    process.send_signal(by)
    project.end_of(process)
    assert wait_for(lambda: not project.processes()), project.processes()
