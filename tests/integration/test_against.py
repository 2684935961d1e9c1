"""`--tfperf-against`: another Python, a real one and fakes of every kind."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from inner import Finished, Project

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    TINY = Workload(model="nets:tiny", batch_size=1)

    @pytest.mark.cpu
    class TestOnCpus:
        def test_accepts_what_is_lost(self, throughput, gpu_topology):
            found = throughput.check(TINY, on=gpu_topology.take(1), tolerance=0.99)
            assert found.images_per_sec > 0

        def test_accepts_less(self, throughput, gpu_topology):
            throughput.check(TINY, on=gpu_topology.take(1), tolerance=0.3)
"""


@pytest.fixture(scope="module")
def slowed(shared: Project) -> Finished:
    """This Python loses 80 %; were it both, their ratio would not show it."""
    shared.write("test_it.py", TESTS)
    python = f"--tfperf-against={sys.executable}"
    return shared.run(python, "--tfperf-require-baseline", "--tfperf-inject-slowdown=0.8")


def test_a_check_compares_with_the_other_python_instead_of_a_baseline(slowed: Finished) -> None:
    assert slowed.cases["test_accepts_what_is_lost"].kind == "passed", slowed.text


def test_a_slowdown_on_purpose_hits_this_python_alone(slowed: Finished) -> None:
    assert (slowed.status, slowed.cases["test_accepts_less"].kind) == (1, "failure"), slowed.text


def test_the_comparison_is_announced_and_shown(slowed: Finished) -> None:
    assert f"each check compares this Python (b) with {sys.executable} (a)" in slowed.text
    assert "b / a" in slowed.text


def test_collecting_does_not_try_the_other_python(pytester: pytest.Pytester) -> None:
    pytester.parseconfigure("--collect-only", "--tfperf-against=/bin/false")


def refusal(pytester: pytest.Pytester, python: str | Path, *arguments: str) -> str:
    """What is said before anything is collected."""
    with pytest.raises(pytest.UsageError) as refused:
        pytester.parseconfigure(f"--tfperf-against={python}", *arguments)
    return str(refused.value)


def answering(path: Path, says: str) -> Path:
    """An interpreter that prints this, whatever it is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_path_that_is_not_there_is_refused(pytester: pytest.Pytester) -> None:
    said = refusal(pytester, "/no/such/python")
    assert (
        "--tfperf-against: '/no/such/python' must be a Python or a virtual environment: there is no such file" in said
    )


def test_a_virtual_environments_folder_stands_for_its_python(pytester: pytest.Pytester) -> None:
    python = answering(pytester.path / "venv" / "bin" / "python", '{"python": [3, 9, 18]}')
    assert f"{python} is Python 3.9.18" in refusal(pytester, pytester.path / "venv")


def test_a_folder_without_a_python_is_refused(pytester: pytest.Pytester) -> None:
    assert "this folder has no bin/python" in refusal(pytester, pytester.path)


def test_a_file_that_can_not_be_executed_is_refused(pytester: pytest.Pytester) -> None:
    (pytester.path / "python").touch()
    assert "this file is not executable" in refusal(pytester, pytester.path / "python")


def test_a_program_that_is_no_python_is_refused(pytester: pytest.Pytester) -> None:
    assert "/bin/false does not answer like a Python: it ended with status 1" in refusal(pytester, "/bin/false")


@pytest.mark.parametrize("says", ["", "Python 3.12", "[]", "{}", '{"python": null}', '{"python": ["x"]}'])
def test_an_answer_that_makes_no_sense_is_refused(pytester: pytest.Pytester, says: str) -> None:
    python = answering(pytester.path / "python", says)
    assert "does not answer like a Python" in refusal(pytester, python)


def test_a_python_that_is_too_old_is_refused(pytester: pytest.Pytester) -> None:
    python = answering(pytester.path / "python", '{"python": [3, 9, 18]}')
    assert "is Python 3.9.18; workers need 3.11 or newer" in refusal(pytester, python)


def test_a_python_without_tensorflow_is_refused(pytester: pytest.Pytester) -> None:
    fault = "ModuleNotFoundError: No module named 'tensorflow'"
    python = answering(pytester.path / "python", f'{{"python": [3, 12, 1], "fault": "{fault}"}}')
    said = refusal(pytester, python)
    assert f"(Python 3.12.1) can't import TensorFlow: {fault}" in said
    assert "-m pip install --upgrade tensorflow" in said


@pytest.mark.parametrize("version", ["2.15.1", "1.15.5"])
def test_a_tensorflow_that_is_too_old_is_refused(pytester: pytest.Pytester, version: str) -> None:
    python = answering(pytester.path / "python", f'{{"python": [3, 11, 4], "tensorflow": "{version}"}}')
    assert f"has TensorFlow {version}; workers need TensorFlow 2.16 or newer" in refusal(pytester, python)


@pytest.mark.parametrize("other", ["--update-baselines", "--tfperf-smoke"])
def test_what_contradicts_it_is_refused(pytester: pytest.Pytester, other: str) -> None:
    assert f"{other} with --tfperf-against" in refusal(pytester, sys.executable, other)
