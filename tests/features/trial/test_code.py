"""What counts as the code of a trial's sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.features.trial.runner import code_of
from pytest_tfperf.features.trial.trial import Trial
from tests.helpers.repositories import git


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("model.py", "config/b64.yaml", "vocabulary.txt", "results.csv", ".tfperf/x.py", "env/lib/p.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    return tmp_path


def changed(project: Path, name: str) -> bool:
    """Whether a trial notices a changed file."""
    besides = (project / ".tfperf", project / "baselines")
    trial = Trial(code=code_of([project], besides))
    (project / name).write_text("after!")
    return trial.changed_code(code_of([project], besides)) == [str(project / name)]


@pytest.mark.parametrize("name", ["model.py", "config/b64.yaml"])
def test_code_and_settings_are_compared_outside_of_git(name: str, project: Path) -> None:
    assert changed(project, name)


@pytest.mark.parametrize("name", ["model.py", "vocabulary.txt"])
def test_uncommitted_changes_of_any_committed_file_are_compared(name: str, project: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", "model.py", "vocabulary.txt")
    (project / name).write_text("dirty")
    assert changed(project, name)


@pytest.mark.parametrize("name", ["results.csv", "new.py", ".tfperf/x.py", "env/lib/p.py", "baselines/box.toml"])
def test_what_sessions_write_and_other_packages_are_not_compared(name: str, project: Path) -> None:
    (project / "baselines").mkdir()
    assert not changed(project, name)


def test_committed_files_that_sessions_write_are_not_compared(project: Path) -> None:
    (project / "baselines").mkdir()
    (project / "baselines" / "box.toml").write_text("before")
    git(project, "init", "-q")
    git(project, "add", "baselines")
    assert not changed(project, "baselines/box.toml")


def test_a_file_that_is_gone_is_a_change(project: Path) -> None:
    trial = Trial(code=code_of([project], ()))
    (project / "model.py").unlink()
    assert trial.changed_code(code_of([project], ())) == [str(project / "model.py")]
