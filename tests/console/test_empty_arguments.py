"""What a script passes to `tfperf` from a variable that is not set is an error, and not an argument left out."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pytest_tfperf import cli
from tests.helpers.command_lines import arguments

USAGE = 4
SHOWS_ONLY = ("-h", "--help", "--version")


def test_no_argument_of_any_command_may_be_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "parser", cache(cli.parser))  # it takes far longer to build than to parse
    taken = [one for one in arguments() if one.name not in SHOWS_ONLY and cli.main(one.line("")) != USAGE]
    assert list(map(str, taken)) == []


def test_no_argument_may_be_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [cli.main(["compare", "previous", *of]) for of in ([" "], ["latest", "--machine= "])] == [USAGE, USAGE]


def test_the_message_names_the_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main(["compare", "previous", "latest", "--machine="])
    assert "argument --machine: is empty; a shell or CI variable in it may not be set" in capsys.readouterr().err


def test_a_program_whose_lines_are_read_may_have_an_empty_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main(["read", "--", "sh", "-c", "echo $# arguments", "sh", "", "a"])
    assert "2 arguments" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["TFPERF_DIR", "TFPERF_BASELINES", "TFPERF_MACHINE"])
def test_no_variable_that_commands_read_may_be_empty(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, "")
    assert cli.main(["reference", "create"]) == USAGE
    assert f"environment variable {name} is empty" in capsys.readouterr().err


def test_no_ini_value_that_commands_read_may_be_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntfperf_dir =\n")
    assert cli.main(["history"]) == USAGE
    assert f"{tmp_path / 'pytest.ini'}: tfperf_dir is empty" in capsys.readouterr().err
