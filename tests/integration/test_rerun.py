"""The command that a message gives is one that can be typed where pytest was called."""

from __future__ import annotations

import shlex

import pytest

from pytest_tfperf.settings import Settings

CALLS = {
    "nothing": ([], "test_is"),
    "-c": (["-c", "../perf.ini"], "it_is"),
    "--rootdir": (["--rootdir=.."], "test_is"),
    "-o": (["-o", "python_functions=it_*", "-o", "tfperf_steps=7"], "it_is"),
}


@pytest.mark.parametrize(("arguments", "name"), CALLS.values(), ids=CALLS)
def test_a_command_finds_its_test_from_a_subfolder(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    pytester.makefile(".ini", perf="[pytest]\npython_functions = it_*\n")
    pytester.makeini("[pytest]")
    tests = "def test_is(throughput): pass\ndef it_is(throughput): pass"
    pytester.mkdir("perf_tests").joinpath("test_y.py").write_text(tests)
    monkeypatch.chdir(pytester.path / "perf_tests")
    rerun = Settings.from_config(pytester.parseconfig(*arguments)).rerun
    command = shlex.split(rerun.of(f"perf_tests/test_y.py::{name}"))
    pytester.runpytest(*command[1:]).assert_outcomes(passed=1)


def test_what_is_of_one_session_only_is_not_repeated(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("-o", "tfperf_strict=true", "-o", "tfperf_machine=box")
    rerun = Settings.from_config(config).rerun
    assert rerun.of("test_y.py::test_x") == "pytest test_y.py::test_x -o tfperf_machine=box"
