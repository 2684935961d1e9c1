"""`tfperf` commands take their folders from where a session in the same folder would."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import KEY, baseline, measurement

SETTINGS = "tfperf_baselines = rows\ntfperf_dir = past\ntfperf_machine = box\n"
TOML = 'tfperf_baselines = "rows"\ntfperf_dir = "past"\ntfperf_machine = "box"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TFPERF_DIR", "TFPERF_BASELINES", "TFPERF_MACHINE"):
        monkeypatch.delenv(name, raising=False)
    History(tmp_path / "past" / "history.sqlite").append(measurement(machine="box"))
    BaselineStore(tmp_path / "rows", published=None).update("box", {KEY: baseline()})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    status = cli.main(command)
    captured = capsys.readouterr()
    return f"{status} {captured.out}{captured.err}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", f"[pytest]\n{SETTINGS}"),
        ("tox.ini", f"[pytest]\n{SETTINGS}"),
        ("setup.cfg", f"[tool:pytest]\n{SETTINGS}"),
        ("pyproject.toml", f"[tool.pytest.ini_options]\n{TOML}"),
        ("pytest.toml", f"[pytest]\n{TOML}"),
    ],
)
def test_each_ini_file_of_pytest_is_read(
    name: str, text: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / name).write_text(text)
    assert "box" in said(capsys, "history")
    assert "box" in said(capsys, "baselines", "stale")


def test_one_of_a_folder_above_is_found_and_its_paths_start_there(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pytest.ini").write_text(f"[pytest]\n{SETTINGS}")
    (project / "perf_tests").mkdir()
    monkeypatch.chdir(project / "perf_tests")
    assert "box" in said(capsys, "history")


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py"])
def test_without_settings_for_pytest_the_history_is_in_pytests_rootdir(
    name: str,
    pytester: pytest.Pytester,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the folder of a package's file, also where pytest and `tfperf` are called in a folder below it."""
    (project / name).touch()
    (project / "perf_tests").mkdir()
    monkeypatch.chdir(project / "perf_tests")
    rootdir = pytester.parseconfig().rootpath
    History(rootdir / ".tfperf" / "history.sqlite").append(measurement(machine="box"))
    assert "box" in said(capsys, "history")


def test_a_variable_wins_over_it_and_an_option_over_both(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pytest.ini").write_text("[pytest]\ntfperf_dir = of-the-file\n")
    assert "of-the-file/history.sqlite: no history yet" in said(capsys, "history")
    monkeypatch.setenv("TFPERF_DIR", "of-the-variable")
    assert "of-the-variable/history.sqlite: no history yet" in said(capsys, "history")
    assert "box" in said(capsys, "history", "--dir=past")


def test_a_file_that_can_not_be_parsed_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text("[tool.pytest.ini_options\n")
    assert said(capsys, "history").startswith("4 tfperf: ")
    assert "pyproject.toml can't be parsed" in said(capsys, "history")
