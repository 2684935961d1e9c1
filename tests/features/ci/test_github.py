"""What a session leaves for CI systems: the page of a GitHub job, annotations, and properties in JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

pytestmark = pytest.mark.slow

TESTS = """
    import sys
    from pytest_tfperf import Command

    COMMAND = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]

    def test_passes(throughput, on):
        throughput.check(Command(COMMAND, name="quick", reads=RATES_TO_THE_END), on=on)

    def test_regresses(throughput, on, request):
        request.node.user_properties.append(("own", "kept"))
        throughput.check(Command(COMMAND, name="slow", reads=RATES_TO_THE_END), on=on)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("github") / "perf", trains=False) as made:
        made.tests(TESTS, "tests/test_it.py")
        made.baseline("quick", unit="examples", **ANY_THROUGHPUT)
        made.baseline("slow", unit="examples", value=1e6)
        yield made


@pytest.fixture(scope="module")
def finished(project: Project) -> Finished:
    github = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(project.folder.parent)}
    return project.run("--junitxml=kept.xml", GITHUB_STEP_SUMMARY=str(project.folder / "summary.md"), **github)


def properties(project: Project, test: str) -> dict[str, str]:
    (case,) = [
        one for one in ElementTree.parse(project.folder / "kept.xml").iter("testcase") if one.get("name") == test
    ]
    return {one.get("name", ""): one.get("value", "") for one in case.iter("property")}


def test_the_summary_begins_with_one_sentence(project: Project, finished: Finished) -> None:
    text = (project.folder / "summary.md").read_text()
    assert "**1 of 2 throughput tests regressed; 1 passed.**" in text


def test_a_regression_is_annotated_at_its_test(project: Project, finished: Finished) -> None:
    commands = [line for line in finished.text.splitlines() if line.startswith("::")]
    assert len(commands) == 1
    line = (
        (project.folder / "tests/test_it.py")
        .read_text()
        .splitlines()
        .index("def test_regresses(throughput, on, request):")
    )
    title = "REGRESSED%3A tests/test_it.py%3A%3Atest_regresses"
    assert commands[0].startswith(f"::error file=perf/tests/test_it.py,line={line + 1},title={title}::slow on ")


def test_junit_has_the_figures_once_although_the_test_ran_several_times(project: Project, finished: Finished) -> None:
    found = properties(project, "test_regresses")
    assert found["own"] == "kept"
    assert {name: found[f"tfperf_{name}"] for name in ("outcome", "workload", "machine", "unit", "baseline")} == {
        "outcome": "REGRESSED",
        "workload": "slow",
        "machine": "box",
        "unit": "examples/s",
        "baseline": "1000000.0",
    }


@pytest.mark.parametrize(
    ("path", "why"), [("missing/summary.md", "No such file or directory"), ("/dev/full", "No space left on device")]
)
def test_a_summary_that_can_not_be_written_costs_no_result(project: Project, path: str, why: str) -> None:
    result = project.run("-k", "passes", GITHUB_STEP_SUMMARY=path)
    assert result.status == 0
    assert f"{path}: the Markdown summary can't be written: {why}" in result.text


def test_another_system_gets_the_summary_as_a_file(project: Project) -> None:
    result = project.run("-k", "passes", TFPERF_MARKDOWN="mine.md")
    assert result.status == 0
    assert "1 of 1 throughput test passed" in (project.folder / "mine.md").read_text()


def test_a_file_that_can_not_be_written_costs_no_other(project: Project) -> None:
    result = project.run("-k", "passes", TFPERF_MARKDOWN="/dev/full", TFPERF_COMMENT="comment.md")
    assert "/dev/full: the Markdown summary can't be written: No space left on device" in result.text
    assert "1 of 1 throughput test passed" in (project.folder / "comment.md").read_text()


def test_a_file_that_can_not_be_written_is_refused_before_the_first_test(project: Project) -> None:
    result = project.run(TFPERF_MARKDOWN="missing/mine.md")
    assert result.status == 4
    assert "tfperf_markdown=" in result.text
    assert "there is no folder" in result.text


def test_a_session_without_throughput_tests_leaves_no_summary(project: Project) -> None:
    project.write("ordinary/test_ordinary.py", "def test_ordinary(): pass")
    project.run("ordinary", GITHUB_STEP_SUMMARY=str(project.folder / "none.md"))
    assert not (project.folder / "none.md").exists()


def test_elsewhere_nothing_is_annotated(project: Project) -> None:
    assert "::error" not in project.run("-k", "passes").text
