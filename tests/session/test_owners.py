"""Whom a test belongs to: its mark, else the last pattern, else CODEOWNERS; and sessions of one owner's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_tfperf.session.selecting import Rules, code_owners
from tests.helpers.inner import Project

USAGE = 4
TESTS = """
    import sys
    from pytest_tfperf import Command

    def check(throughput, on, name):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name=name, reads=RATES_TO_THE_END), on=on)

    @pytest.mark.owner("team vision")
    def test_marked(throughput, on):
        check(throughput, on, "marked")

    def test_listed(throughput, on):
        check(throughput, on, "listed")

    def test_in_a_file(throughput, on):
        check(throughput, on, "in_a_file")
"""
PATTERNS = "tfperf_owners =\n    *::test_listed team-a\n    *::test_l* team-perf"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Tests in a folder of a repository, whose root has the CODEOWNERS file."""
    root = tmp_path_factory.mktemp("repository")
    (root / ".git").mkdir()
    (root / ".github").mkdir()
    (root / ".github" / "CODEOWNERS").write_text("*.py @nobody\n/inner/ @ada @org/files\n")
    with Project(root / "inner", trains=False) as project:
        project.tests(TESTS)
        ini = project.folder / "pytest.ini"
        ini.write_text(f"{ini.read_text()}\n{PATTERNS}\n")
        yield project


@pytest.fixture(scope="module")
def owners(project: Project) -> dict[str, str]:
    done = project.run()
    in_junit = {name: dict(case.properties).get("tfperf_owner", "") for name, case in done.cases.items()}
    in_history = {m.test.partition("::")[2]: m.owner for m in project.history.measurements()}
    assert in_junit == in_history
    return in_history


def test_a_mark_comes_first_then_the_last_pattern_then_codeowners(owners: dict[str, str]) -> None:
    assert owners == {"test_marked": "team vision", "test_listed": "team-perf", "test_in_a_file": "@ada @org/files"}


@pytest.mark.parametrize(
    ("name", "tests"),
    [("team vision", {"test_marked"}), ("team-perf", {"test_listed"}), ("@org/files", {"test_in_a_file"})],
)
def test_the_tests_of_one_owner_run(project: Project, name: str, tests: set[str]) -> None:
    done = project.run(f"--tfperf-owner={name}")
    assert (set(done.cases), "2 deselected" in done.text) == (tests, True)


def test_codeowners_is_read_once_where_one_owners_tests_are_selected(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def parsed(text: str) -> Rules:
        texts.append(text)
        return code_owners(text)

    monkeypatch.setattr("pytest_tfperf.session.selecting.code_owners", parsed)
    project.run("--tfperf-owner=@ada")
    assert len(texts) == 1


def test_an_owner_without_a_test_is_an_error_that_names_the_nearest(project: Project) -> None:
    done = project.run("--tfperf-owner=team-perv")
    assert (done.status, "belongs to 'team-perv'. Did you mean 'team-perf'?" in done.text) == (USAGE, True), done.text


@pytest.mark.parametrize("mark", ["owner", "owner()", "owner(3)", "owner(' ')"])
def test_a_mark_without_a_name_is_an_error(project: Project, mark: str) -> None:
    project.tests(f"@pytest.mark.{mark}\ndef test_unnamed(throughput, on):\n    pass\n", name="test_unnamed.py")
    done = project.run("test_unnamed.py", "--collect-only")
    assert (done.status, "test_unnamed: its mark `owner` names no owner" in done.text) == (USAGE, True), done.text


def test_a_pattern_without_an_owner_is_an_error(project: Project) -> None:
    done = project.run("-o", "tfperf_owners=*::test_a")
    assert (done.status, "must have a pattern of node ids and an owner in each line" in done.text) == (USAGE, True)
