"""Tests that were measured lately, and that are now collected but deselected or skipped, are named."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

TESTS = """
    import os

    import pytest

    @pytest.mark.slow
    def test_slow(throughput, on):
        throughput.check(tiny(1), on=on)

    @pytest.mark.owner("team-vision")
    def test_quick(throughput, on):
        throughput.check(tiny(1), on=on)

    @pytest.mark.skipif("SKIPS" in os.environ, reason="needs a newer driver")
    def test_skipped(throughput, on):
        throughput.check(tiny(1), on=on)

    def test_skips_itself(throughput, on):
        if "SKIPS" in os.environ:
            pytest.skip("no network")
        throughput.check(tiny(1), on=on)

    def test_measures_and_skips(throughput, on):
        throughput.check(tiny(1), on=on)
        if "SKIPS" in os.environ:
            pytest.skip("the rest needs a network")

    @pytest.mark.xfail("SKIPS" in os.environ, reason="bug 7")
    def test_expected_to_fail(throughput, on):
        assert "SKIPS" not in os.environ
        throughput.check(tiny(1), on=on)

    @pytest.mark.skip(reason="never ran")
    def test_never_measured(throughput, on):
        throughput.check(tiny(1), on=on)

    def test_no_throughput_test():
        pass
"""
GONE = """
    def test_gone(throughput, on):
        throughput.check(tiny(1), on=on)
"""
SLOW, SKIPPED, SKIPS_ITSELF = (f"test_it.py::test_{name}" for name in ("slow", "skipped", "skips_itself"))


@pytest.fixture(scope="module")
def project(played: Project) -> Project:
    """All tests were measured, one of them in a file that is gone since."""
    played.tests(TESTS)
    played.tests(GONE, name="test_gone.py")
    played.baseline("nets:tiny-b1-replicated-device", **ANY_THROUGHPUT)
    played.run()
    (played.folder / "test_gone.py").unlink()
    return played


@pytest.fixture(scope="module")
def gate(project: Project) -> Finished:
    return project.run("-m", "not slow", "--tfperf-html=r.html", "--tfperf-require-baseline", SKIPS="1")


def not_run(project: Project) -> dict[str, list[str]]:
    text = (project.folder / "r.html").read_text()
    found = re.search(r'id="facts">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    facts: Any = json.loads(found[1])
    return {one["why"]: one["tests"] for one in facts["not_run"]}


def test_the_report_names_them_by_reason(project: Project, gate: Finished) -> None:
    assert gate.status == 0, gate.text
    assert not_run(project) == {
        "deselected by -m 'not slow'": [SLOW],
        "skipped: needs a newer driver": [SKIPPED],
        "skipped: no network": [SKIPS_ITSELF],
    }


def test_the_nightly_gate_says_how_many_and_the_first(gate: Finished) -> None:
    (line,) = [line for line in gate.text.splitlines() if "measured lately" in line]
    assert line == (
        f"3 tests measured lately did not run: {SLOW} (deselected by -m 'not slow'), {SKIPPED} (skipped: needs a newer "
        f"driver), {SKIPS_ITSELF} (skipped: no network)"
    )


def test_a_session_of_one_test_does_not_shout(project: Project, gate: Finished) -> None:
    assert gate
    session = project.run("-k", "quick", "--tfperf-html=r.html")
    assert "measured lately" not in session.text
    assert not_run(project)["deselected by -k quick"][:2] == [
        "test_it.py::test_expected_to_fail",
        "test_it.py::test_measures_and_skips",
    ]


def test_the_tests_of_other_owners_are_named_with_the_option(project: Project, gate: Finished) -> None:
    assert gate
    project.run("--tfperf-owner=team-vision", "--tfperf-html=r.html")
    assert SLOW in not_run(project)["deselected by --tfperf-owner=team-vision"]


def test_a_test_that_is_not_collected_is_not_named(project: Project, gate: Finished) -> None:
    assert gate
    project.run("test_it.py::test_quick", "--tfperf-html=r.html")
    assert not_run(project) == {}


def test_what_another_machine_measured_is_not_missed(project: Project, gate: Finished) -> None:
    assert gate
    project.run("-k", "quick", "--tfperf-html=r.html", "--tfperf-machine=other")
    assert not_run(project) == {}
