"""`--tfperf-against`: another Python, a real one and fakes of every kind."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from inner import Project

USAGE_ERROR = 4

ONE_TEST = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    def test_it(throughput, gpu_topology):
        found = throughput.check(Workload(model="nets:tiny", batch_size=1), on=gpu_topology.take(1), tolerance=0.9)
        assert found.images_per_sec > 0
"""


def answering(project: Project, says: str, status: int = 0) -> str:
    """An interpreter that prints this, whatever it is asked."""
    path = project.write("python", f"#!/bin/sh\ncat <<'END'\n{says}\nEND\nexit {status}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def refusal(project: Project, python: str, *arguments: str) -> str:
    project.write("test_it.py", ONE_TEST)
    finished = project.run(f"--tfperf-against={python}", *arguments)
    assert finished.status == USAGE_ERROR, finished.text
    return finished.text


def test_a_check_compares_with_the_other_python_instead_of_a_baseline(project: Project) -> None:
    project.write("test_it.py", ONE_TEST)
    finished = project.run(f"--tfperf-against={sys.executable}", "--tfperf-require-baseline")
    assert (finished.status, finished.kinds) == (0, {"test_it": "passed"}), finished.text
    assert f"each check compares this Python (b) with {sys.executable} (a)" in finished.text
    assert "b / a" in finished.text


def test_a_slowdown_on_purpose_hits_this_python_alone(project: Project) -> None:
    project.write("test_it.py", ONE_TEST.replace("0.9", "0.3"))
    finished = project.run(f"--tfperf-against={sys.executable}", "--tfperf-inject-slowdown=0.8")
    assert (finished.status, finished.kinds) == (1, {"test_it": "failure"}), finished.text


def test_a_virtual_environments_folder_will_do(project: Project) -> None:
    project.write("test_it.py", ONE_TEST)
    finished = project.run(f"--tfperf-against={Path(sys.executable).parents[1]}")
    assert (finished.status, finished.kinds) == (0, {"test_it": "passed"}), finished.text


def test_collecting_does_not_try_the_other_python(project: Project) -> None:
    project.write("test_it.py", ONE_TEST)
    assert project.run("--collect-only", "--tfperf-against=/bin/false").status == 0


def test_a_path_that_is_not_there_is_refused(project: Project) -> None:
    said = refusal(project, "/no/such/python")
    assert (
        "--tfperf-against: '/no/such/python' must be a Python or a virtual environment: there is no such file" in said
    )


def test_a_folder_without_a_python_is_refused(project: Project) -> None:
    assert "this folder has no bin/python" in refusal(project, str(project.folder))


def test_a_file_that_can_not_be_executed_is_refused(project: Project) -> None:
    assert "this file is not executable" in refusal(project, str(project.write("python", "")))


def test_a_program_that_is_no_python_is_refused(project: Project) -> None:
    assert "/bin/false does not answer like a Python: it ended with status 1" in refusal(project, "/bin/false")


@pytest.mark.parametrize("says", ["", "Python 3.12", "[]", "{}", '{"python": null}', '{"python": ["x"]}'])
def test_an_answer_that_makes_no_sense_is_refused(project: Project, says: str) -> None:
    assert "does not answer like a Python" in refusal(project, answering(project, says))


def test_a_python_that_is_too_old_is_refused(project: Project) -> None:
    said = refusal(project, answering(project, '{"python": [3, 9, 18]}'))
    assert "is Python 3.9.18; workers need 3.11 or newer" in said


def test_a_python_without_tensorflow_is_refused(project: Project) -> None:
    fault = "ModuleNotFoundError: No module named 'tensorflow'"
    said = refusal(project, answering(project, f'{{"python": [3, 12, 1], "fault": "{fault}"}}'))
    assert f"(Python 3.12.1) can't import TensorFlow: {fault}" in said
    assert "-m pip install tensorflow" in said


@pytest.mark.parametrize("version", ["2.15.1", "1.15.5"])
def test_a_tensorflow_that_is_too_old_is_refused(project: Project, version: str) -> None:
    said = refusal(project, answering(project, f'{{"python": [3, 11, 4], "tensorflow": "{version}"}}'))
    assert f"has TensorFlow {version}; workers need 2.16 or newer" in said


@pytest.mark.parametrize("other", ["--update-baselines", "--tfperf-smoke"])
def test_what_contradicts_it_is_refused(project: Project, other: str) -> None:
    assert f"{other} with --tfperf-against" in refusal(project, sys.executable, other)
