"""`--tfperf-against`: another Python, and what is none. Workers play their steps, for both Pythons."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tests.helpers.inner import Finished, Project

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


# Figures

FIGURES = """
    import sys
    from pytest_tfperf import Command, Figure, Reads

    def program(throughput, on, name, *also):
        # Both sides print the same rate, so that only the figures differ.
        argv = [sys.executable, "program.py"]
        throughput.check(Command(argv, name=name, reads=Reads(field="rate", until_end=True)), on=on, also=also)

    def test_workload(throughput, on):
        throughput.check(tiny(), on=on, tolerance=0.3, also=("peak_memory", "loss"))

    def test_program(throughput, on):
        program(throughput, on, "it", Figure("loss", better="lower"))

    def test_is_new(throughput, on):
        program(throughput, on, "new", Figure("bleu", field="bleu", better="higher"))
"""
PROGRAM = """
    import json, os
    bleu = {} if "PLAYED_MEBIBYTES" in os.environ else {"bleu": 3.0}
    for step in range(9):
        print(json.dumps({"rate": 100.0, "loss": 1.0 if "PLAYED_MEBIBYTES" in os.environ else 2.0} | bleu))
"""


@pytest.fixture(scope="module")
def leaner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another Python, whose workers need half of the memory."""
    path = tmp_path_factory.mktemp("leaner") / "python"
    path.write_text(f'#!/bin/sh\nPLAYED_MEBIBYTES=100 exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def figures(played: Project, leaner: Path) -> Finished:
    """A suite that asks for the first step, and tests that ask for further figures."""
    played.tests(FIGURES, "test_figures.py")
    played.write("program.py", PROGRAM)
    return played.run("test_figures.py", f"--tfperf-against={leaner}", "-o", "tfperf_also=first_step")


def test_figures_of_test_and_suite_are_compared_with_the_other_pythons(figures: Finished) -> None:
    text = figures.cases["test_workload"].text
    assert text.startswith("peak memory 200 MiB, 100.0 % more than a's 100 MiB: "), figures.text
    assert {name for name, _ in figures.cases["test_workload"].properties} >= {
        "tfperf_figure.loss.a",
        "tfperf_figure.first_step.a",
    }


def test_a_programs_figures_are_read_on_both_sides(figures: Finished) -> None:
    assert figures.cases["test_program"].text.startswith("loss 2 at the end, 100.0 % higher than a's 1: "), figures.text


def test_a_figure_that_only_this_side_prints_is_said_and_fails_nothing(figures: Finished) -> None:
    assert figures.cases["test_is_new"].kind == "passed", figures.text
    assert [line for line in figures.text.splitlines() if line.split()[:2] == ["NO_BASELINE", "bleu"]]


def test_equal_pythons_have_equal_figures(played: Project) -> None:
    played.tests(FIGURES, "test_figures.py")
    python = f"--tfperf-against={sys.executable}"
    same = played.run("test_figures.py", python, "-k", "workload")
    assert (same.kinds, same.status) == ({"test_workload": "passed"}, 0), same.text


# What is no Python


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
