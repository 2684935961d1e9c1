"""`--tfperf-against`: another Python, and what is none. Workers play their steps, for both Pythons."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from inner import Finished, Project

TEST = """
    def test_it(throughput, on):
        assert throughput.check(tiny(), on=on, tolerance=0.3).examples_per_sec > 0
        print("the body came to its end")
"""


@pytest.fixture(scope="module")
def slowed(played: Project) -> Finished:
    """This Python loses 80 %; if both did, their ratio would not show it."""
    played.tests(TEST)
    python = f"--tfperf-against={sys.executable}"
    return played.run(python, "--tfperf-require-baseline", "--tfperf-inject-slowdown=0.8")


def test_a_check_compares_with_the_other_python_instead_of_a_baseline(slowed: Finished) -> None:
    assert (slowed.kinds, slowed.status) == ({"test_it": "failure"}, 1), slowed.text
    assert "the body came to its end" in slowed.text
    assert f"each check compares this Python (b) with {sys.executable} (a)" in slowed.text
    assert "b / a" in slowed.text


def test_collecting_does_not_try_the_other_python(pytester: pytest.Pytester) -> None:
    pytester.parseconfigure("--collect-only", "--tfperf-against=/bin/false")


def refusal(pytester: pytest.Pytester, python: str | Path, *arguments: str) -> str:
    """What is said before anything is collected."""
    with pytest.raises(pytest.UsageError) as refused:
        pytester.parseconfigure(f"--tfperf-against={python}", *arguments)
    return str(refused.value)


def answering(path: Path, answer: str) -> Path:
    """An interpreter that prints this, whatever it is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("/no/such/python", "'/no/such/python' must be a Python or a virtual environment: there is no such file"),
        (".", "this folder has no bin/python"),
        ("not-executable", "this file is not executable"),
        ("/bin/false", "/bin/false can't run workers: it ended with status 1"),
    ],
)
def test_what_is_no_python_is_refused(pytester: pytest.Pytester, python: str, said: str) -> None:
    (pytester.path / "not-executable").touch()
    assert said in refusal(pytester, pytester.path / python)


def test_a_virtual_environments_folder_stands_for_its_python(pytester: pytest.Pytester) -> None:
    python = answering(pytester.path / "venv" / "bin" / "python", '{"failed": "no disk", "faults": {}}')
    assert f"{python} can't import TensorFlow: no disk" in refusal(pytester, pytester.path / "venv")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "can't run workers: it ended with status 0"),
        ('{"faults": 3}', "can't run workers: "),
        ("it is Python 2.7.18; workers need 3.11 or newer", "can't run workers: it is Python 2.7.18; workers need"),
        (
            '{"failed": "No module named tensorflow", "faults": {}}',
            "can't import TensorFlow: No module named tensorflow\nInstall one: ",
        ),
        (
            '{"imported": {"tensorflow": "2.15.1"}, "faults": {}}',
            "has TensorFlow 2.15.1; workers need TensorFlow 2.16",
        ),
    ],
)
def test_a_python_that_can_not_train_is_refused(pytester: pytest.Pytester, answer: str, said: str) -> None:
    assert said in refusal(pytester, answering(pytester.path / "python", answer))


@pytest.mark.parametrize("other", ["--update-baselines", "--tfperf-smoke"])
def test_options_that_contradict_it_are_refused(pytester: pytest.Pytester, other: str) -> None:
    assert f"--tfperf-against with {other}" in refusal(pytester, sys.executable, other)
