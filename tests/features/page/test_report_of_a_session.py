"""--tfperf-html writes the report of a session, and a path that can't be written is refused before it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_tfperf import cli
from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

pytestmark = pytest.mark.slow

OF_A_PROGRAM = """
    import sys
    from pytest_tfperf import Command

    def test_passes(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)

    def test_has_no_baseline(throughput, on):
        command = [sys.executable, "-c", "print('7 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="unknown", reads=RATES_TO_THE_END), on=on)

    def test_dies(throughput, on):
        throughput.check(Command([sys.executable, "-c", "raise SystemExit(3)"], name="dead", reads=RATES), on=on)
"""


REMOVES_A_FOLDER = """
    def test_removes():
        import shutil

        shutil.rmtree("reports")
"""


@pytest.fixture(scope="module")
def project(played: Project) -> Project:
    played.tests(OF_A_PROGRAM)
    played.baseline("program", unit="examples", **ANY_THROUGHPUT)
    return played


@pytest.fixture(scope="module")
def session(project: Project) -> Finished:
    return project.run("--tfperf-html=report.html", "--tfperf-json=result.json")


@pytest.fixture(scope="module")
def facts(project: Project, session: Finished) -> dict[str, Any]:
    text = (project.folder / "report.html").read_text()
    found = re.search(r'id="facts">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_session_says_where_its_report_is(session: Finished, project: Project) -> None:
    assert f"report: {project.folder / 'report.html'}" in session.text


def test_the_report_has_the_measurements_of_the_session(facts: dict[str, Any]) -> None:
    assert {test["name"] for test in facts["tests"]} == {"program", "unknown"}


def test_a_test_that_ended_in_an_error_is_named_with_the_reason(facts: dict[str, Any]) -> None:
    assert [one["test"] for one in facts["not_measured"]] == ["test_it.py::test_dies"]
    assert "exited with status 3" in facts["not_measured"][0]["why"]


def test_the_report_is_no_part_of_a_rerun_command(facts: dict[str, Any]) -> None:
    assert not any("html" in one["command"] for test in facts["tests"] for one in test["commands"])


def test_a_second_session_shows_the_first_as_its_history(project: Project, session: Finished, facts: Any) -> None:
    assert session
    project.run("--tfperf-html=second.html", "-k", "passes")
    text = (project.folder / "second.html").read_text()
    found = re.search(r'id="facts">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    (test,) = json.loads(found[1])["tests"]
    assert len(test["history"]["rate"]) == 2


@pytest.mark.parametrize(
    ("path", "fact"),
    [("nowhere/report.html", "there is no folder"), (".", "that is a folder. Name a file in it")],
)
def test_a_path_that_cannot_be_written_is_refused_before_anything_is_measured(
    project: Project, path: str, fact: str
) -> None:
    finished = project.run(f"--tfperf-html={path}")
    assert finished.status == 4
    assert fact in finished.text
    assert "test_passes" not in finished.cases


def test_a_report_that_fails_at_the_end_costs_nothing_else(project: Project) -> None:
    (project.folder / "reports").mkdir()
    project.tests(OF_A_PROGRAM + REMOVES_A_FOLDER, name="test_removing.py")
    finished = project.run("--tfperf-html=reports/report.html", "test_removing.py", "-k", "passes or removes")
    assert "report.html can't be written: No such file or directory" in finished.text
    assert finished.status == 0


def test_a_session_that_measures_nothing_leaves_the_file_alone(project: Project) -> None:
    Path(project.folder / "old.html").write_text("old")
    finished = project.run("--tfperf-html=old.html", "-k", "no_such_test")
    assert "nothing was measured" in finished.text
    assert (project.folder / "old.html").read_text() == "old"


# The result for scripts


def result(project: Project) -> dict[str, Any]:
    return dict(json.loads((project.folder / "result.json").read_text()))


@pytest.fixture(scope="module")
def written(project: Project, session: Finished) -> dict[str, Any]:
    return result(project)


def test_the_result_has_the_facts_of_the_page(written: dict[str, Any], facts: dict[str, Any]) -> None:
    for test in facts["tests"]:
        del test["recent"]  # of its row
    only_of_the_result = {name: written[name] for name in ("version", "measurements")}
    # The page leaves out the documents that no test reproduces.
    assert {**written, "documents": []} == facts | only_of_the_result


def test_the_result_fits_its_schema(written: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())
    Draft202012Validator(schema).validate(written)


def test_the_result_has_the_status_that_pytest_exits_with(written: dict[str, Any], session: Finished) -> None:
    assert written["exit_status"] == session.status == 6


def test_the_result_says_what_the_options_make_of_an_outcome(project: Project, written: dict[str, Any]) -> None:
    of_gate = project.run("--tfperf-json=result.json", "--tfperf-require-baseline", "test_it.py::test_has_no_baseline")
    (test,) = result(project)["tests"]
    without = next(test for test in written["tests"] if test["name"] == "unknown")
    assert [(test["outcome"], test["effect"]) for test in (without, test)] == [
        ("NO_BASELINE", "passes"),
        ("NO_BASELINE", "fails"),
    ]
    assert result(project)["exit_status"] == of_gate.status == 1


def test_a_session_that_measures_nothing_writes_its_own_result(project: Project) -> None:
    (project.folder / "result.json").write_text("of yesterday")
    status = project.run("--tfperf-json=result.json", "-k", "no_such_test").status
    assert (result(project)["tests"], result(project)["exit_status"]) == ([], status)


def test_a_session_that_is_refused_writes_its_own_result(project: Project) -> None:
    (project.folder / "result.json").write_text("of yesterday")
    (project.folder / "baselines" / "box.csv").rename(project.folder / "box.csv")
    (project.folder / "baselines" / "box.csv").write_text("damaged")
    try:
        status = project.run("--tfperf-json=result.json").status
    finally:
        (project.folder / "box.csv").replace(project.folder / "baselines" / "box.csv")
    assert (result(project)["tests"], result(project)["exit_status"]) == ([], status)


def test_no_earlier_result_is_left_where_the_report_is_refused(project: Project) -> None:
    (project.folder / "result.json").write_text("of yesterday")
    assert project.run("--tfperf-json=result.json", "--tfperf-html=nowhere/report.html").status == 4
    assert not (project.folder / "result.json").exists()


# A session that fails though all its tests pass

RED = """
    import sys
    from pytest_tfperf import Command

    import pytest

    @pytest.mark.parametrize("number", range(8))
    def test_passes(throughput, on, number):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name=f"program{number}", reads=RATES_TO_THE_END), on=on)
"""


def test_a_red_session_is_red_in_every_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Project(tmp_path, trains=False) as project:
        project.tests(RED)
        for number in range(8):
            row = ANY_THROUGHPUT | {"value": 1e9}
            project.baseline(f"program{number}", unit="examples", **row)
        assert project.run("--tfperf-html=report.html", "-o", "tfperf_markdown=summary.md").status == 1
        html = (project.folder / "report.html").read_text()
        summary = (project.folder / "summary.md").read_text()
        assert cli.main(["report", f"--dir={project.folder / '.tfperf'}", "-o", str(tmp_path / "later.html")]) == 0
    red = "Machine and software REGRESSED (100.0 % slower than the baselines)"
    assert f"<title>{red}; 8 of 8 throughput tests passed</title>" in html
    assert f"**{red}; 8 of 8 throughput tests passed.**" in summary
    assert capsys.readouterr().out.startswith(f"{red}; 8 of 8 throughput tests passed: ")


CHANGES_THE_STATUS = {
    "a plugin's pytest_sessionfinish": """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(session):
            session.exitstatus = 42
    """,
    "a wrapper around all others": """
        import pytest

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_sessionfinish(session):
            yield
            session.exitstatus = 42
    """,
    "a plugin that ends pytest": """
        import pytest

        def pytest_sessionfinish(session):
            pytest.exit("enough", returncode=42)
    """,
    "a plugin's pytest_unconfigure": """
        import pytest

        def pytest_sessionstart(session):
            session.config.add_cleanup(lambda: setattr(session, "exitstatus", 42))
    """,
}


@pytest.mark.parametrize("plugin", CHANGES_THE_STATUS.values(), ids=list(CHANGES_THE_STATUS))
def test_the_result_has_the_status_that_another_plugin_makes_of_it(played_project: Project, plugin: str) -> None:
    played_project.write("conftest.py", plugin)
    played_project.tests("def test_it(throughput, on): throughput.check(tiny(), on=on)")
    session = played_project.run("--tfperf-json=result.json")
    assert result(played_project)["exit_status"] == session.status == 42


def test_a_result_that_another_plugin_has_overwritten_changes_no_status(played_project: Project) -> None:
    plugin = """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(session):
            session.exitstatus = 42
            session.config.rootpath.joinpath("result.json").write_bytes(b"packed")
    """
    played_project.write("conftest.py", plugin)
    played_project.tests("def test_it(throughput, on): throughput.check(tiny(), on=on)")
    assert played_project.run("--tfperf-json=result.json").status == 42


def test_the_result_has_the_status_of_too_many_warnings(played_project: Project) -> None:
    if not hasattr(pytest.ExitCode, "MAX_WARNINGS_ERROR"):
        pytest.skip("this pytest has no --max-warnings")
    played_project.tests(
        """
        import warnings

        @pytest.mark.filterwarnings("default")
        def test_it(throughput, on):
            warnings.warn("one", stacklevel=1)
            throughput.check(tiny(), on=on)
        """
    )
    session = played_project.run("--tfperf-json=result.json", "--max-warnings=0")
    assert result(played_project)["exit_status"] == session.status == 6, session.text
    assert "maximum allowed warnings exceeded" in session.text
