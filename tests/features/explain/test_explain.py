"""`tfperf explain` after a real session: it tells what the session's own message told."""

from __future__ import annotations

import re

import pytest

from pytest_tfperf import cli
from tests.helpers.inner import Project

TESTS = """
    import sys
    from pytest_tfperf import Command

    def test_slow(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)
"""


def test_a_regression_is_explained_with_the_figures_of_its_message(
    played_project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    played_project.tests(TESTS)
    played_project.baseline("program", unit="examples", value=1000.0)
    text = " ".join(played_project.run("-vv").text.split())
    assert cli.main(["explain", "test_slow", f"--dir={played_project.folder / '.tfperf'}"]) == 0
    explained = " ".join(capsys.readouterr().out.split())
    (threshold,) = set(re.findall(r"widened to ([\d.]+ %) by noise", text))
    (detectable,) = set(re.findall(r"slowdowns from ([\d.]+ %) \(95 % power\)", text))
    assert f"noise widens it to {threshold}." in explained
    assert f"8 (decides) {threshold} {detectable}" in explained
