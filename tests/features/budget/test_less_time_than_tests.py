"""A session with less time than its tests take: the history says that each of them takes an hour."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project
from tests.helpers.measurements import command, measurement

pytestmark = pytest.mark.slow

TESTS = """
    import sys
    from pytest_tfperf import Command, Reads

    def check(throughput, on, name):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name=name, reads=Reads(until_end=True)), on=on)

    def test_recent(throughput, on):
        check(throughput, on, "recent")

    def test_ordinary():
        pass

    @pytest.mark.important
    def test_important(throughput, on):
        check(throughput, on, "important")

    def test_waits(throughput, on):
        check(throughput, on, "waits")
"""
TODAY = f"{datetime.now(UTC):%Y-%m-%d}"
LAST = {"test_recent": TODAY, "test_important": TODAY, "test_waits": "2000-01-01"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("budget")) as made:
        made.tests(TESTS)
        for test, day in LAST.items():
            name = test.removeprefix("test_")
            made.baseline(name, unit="examples", **ANY_THROUGHPUT)
            of = {"test": f"test_it.py::{test}", "workload": command(name=name), "topology": "1x1", "session": "older"}
            made.history.append(measurement(**of, seconds=3600.0, time=f"{day}T00:00:00+00:00"))
        yield made


@pytest.fixture(scope="module")
def finished(project: Project) -> Finished:
    summary = project.folder / "summary.md"
    return project.run("-v", "--tfperf-budget", "3h", GITHUB_STEP_SUMMARY=str(summary))


def test_only_what_fits_runs_and_nothing_is_skipped(finished: Finished) -> None:
    assert finished.kinds == {"test_waits": "passed", "test_ordinary": "passed", "test_important": "passed"}


def test_the_one_that_waits_longest_runs_first_and_other_tests_keep_their_places(finished: Finished) -> None:
    assert list(finished.cases) == ["test_ordinary", "test_waits", "test_important"]


def test_the_header_says_how_much_is_left_out(finished: Finished) -> None:
    pytest.LineMatcher(finished.text.splitlines()).fnmatch_lines(
        ["tfperf: --tfperf-budget of 3 h 0 min leaves out 1 test of about 1 h * min; the end of the session names them"]
    )


def test_the_end_and_the_summary_name_what_was_left_out(project: Project, finished: Finished) -> None:
    assert finished.text.count("test_it.py::test_recent") == 1
    assert "test\\_recent" in (project.folder / "summary.md").read_text()


def test_a_budget_for_all_changes_nothing(project: Project) -> None:
    assert list(project.run("--tfperf-budget", "9h").kinds.values()) == ["passed"] * 4


def test_a_time_without_a_unit_is_refused(project: Project) -> None:
    result = project.run("--tfperf-budget", "30")
    assert result.status == 4
    assert "--tfperf-budget: '30' must be a time above 0 with its unit: 90s, 30m or 1.5h" in result.text
