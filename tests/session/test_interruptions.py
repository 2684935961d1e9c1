"""Ctrl-C, a time limit's SIGTERM and kill -9 of pytest: workers and server end with it, finished results stay."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.inner import Finished, Project
from tests.helpers.patience import wait_for

INTERRUPTED = 2

TESTS = """
    def test_done(throughput, on):
        throughput.check(tiny(1), on=on)

    def test_in_doubt(throughput, on):
        throughput.check(tiny(2), on=on)

    def test_interrupted(throughput, on):
        throughput.check(tiny(model="nets:with_a_child", input_pipeline="nets:stalling"), on=on)
"""

# Writes which children pytest has when it starts to report where it was interrupted, which can take seconds.
CHILDREN = """
    import os
    from pathlib import Path

    def pytest_keyboard_interrupt():
        Path("children").write_text(Path(f"/proc/self/task/{os.getpid()}/children").read_text())
"""


def interrupted(
    project: Project, by: signal.Signals, *arguments: str, when: str = "stalled", tests: str = TESTS
) -> Finished:
    """A session that got this signal when the file `when` was there: in the middle of its last test's steps."""
    project.tests(tests)
    process = project.start(*arguments)
    project.wait_for_file(when, process)
    process.send_signal(by)
    return project.end_of(process)


SIGNALS = [
    pytest.param((signal.SIGINT, False), id="SIGINT"),
    pytest.param((signal.SIGTERM, False), id="SIGTERM"),
    pytest.param((signal.SIGKILL, False), id="SIGKILL"),
    pytest.param((signal.SIGINT, True), id="SIGINT, trained", marks=pytest.mark.slow),
]
"""Each with whether workers train."""


@pytest.fixture(scope="module", params=SIGNALS)
def ended(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[signal.Signals, Project, Finished]]:
    """The signal, and the session that it ended while one test waited for its further runs."""
    by, trains = request.param
    with Project(tmp_path_factory.mktemp(by.name), trains=trains) as project:
        project.baseline("nets:tiny-b2-replicated-device", value=1e9)
        project.write("conftest.py", CHILDREN)
        yield by, project, interrupted(project, by)


Ended = tuple[signal.Signals, Project, Finished]


def test_no_worker_server_or_child_of_theirs_is_left(ended: Ended) -> None:
    _, project, _ = ended
    assert wait_for(lambda: not project.processes()), project.processes()


def test_finished_results_and_those_in_doubt_are_in_the_history(ended: Ended) -> None:
    _, project, _ = ended
    assert [row["test"] for row in project.history.rows()] == ["test_it.py::test_done", "test_it.py::test_in_doubt"]


def test_a_session_that_can_end_in_order_shows_what_it_has(ended: Ended) -> None:
    by, _, finished = ended
    is_killed = by is signal.SIGKILL
    assert finished.status == (-signal.SIGKILL if is_killed else INTERRUPTED), finished.text
    assert ("box: 1 NO_BASELINE, 1 undecided in " in finished.text) is not is_killed
    assert ("1 undecided: the session ended, " in finished.text) is not is_killed


def test_the_interrupted_test_and_its_log_are_named(ended: Ended) -> None:
    by, project, finished = ended
    if by is signal.SIGKILL:
        pytest.skip("pytest reports nothing")
    named = re.search(r"interrupted in test_it.py::test_interrupted: its log is (\S+)", finished.text)
    assert named is not None, finished.text
    logs = list(project.folder.glob(".tfperf/logs/worker-*.log"))
    assert Path(named[1]) == max(logs, key=lambda log: int(log.stem.rpartition("-")[2]))


def test_workers_end_before_pytest_reports_where_it_was_interrupted(ended: Ended) -> None:
    by, project, _ = ended
    if by is signal.SIGKILL:
        pytest.skip("pytest reports nothing")
    assert (project.folder / "children").read_text() == ""


def test_no_fresh_worker_is_left(played_project: Project) -> None:
    tests = TESTS.replace("with_a_child", "tiny")  # nobody is left who could end a child of this one
    interrupted(played_project, signal.SIGKILL, "--tfperf-worker=fresh", "-k", "interrupted", tests=tests)
    assert wait_for(lambda: not played_project.processes()), played_project.processes()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL], ids=lambda by: by.name)
def test_no_server_is_left_that_imports_tensorflow(project: Project, by: signal.Signals) -> None:
    finished = interrupted(project, by, when=".tfperf/logs/server-*.log")
    assert by is signal.SIGKILL or re.search(r"interrupted in \S+: its log is \S+/server-", finished.text)
    assert wait_for(lambda: not project.processes()), project.processes()


def test_a_recording_that_is_interrupted_says_that_nothing_was_recorded(played_project: Project) -> None:
    finished = interrupted(played_project, signal.SIGINT, "--update-baselines")
    assert "not recorded: the session ended before all their runs" in finished.text
    assert not list(played_project.folder.glob("baselines/*.csv"))
