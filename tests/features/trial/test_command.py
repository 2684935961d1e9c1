"""`tfperf trial` where a kept trial answers without a new session."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.trial.runner import code_of
from pytest_tfperf.features.trial.trial import Trial, TrialResult, TrialSession, read, write
from tests.helpers.repositories import git

GREEN, WARN_ONLY, USAGE, UNDECIDED = 0, 1, 4, 6
PASSED, LOST = (
    TrialResult(outcome=outcome, throughput_outcome=outcome) for outcome in (Outcome.PASS, Outcome.REGRESSED)
)
UNCHANGED = TrialSession(tests={"t.py::a": PASSED, "t.py::b": PASSED}, seconds=100.0)
SLOWED = replace(UNCHANGED, tests={"t.py::a": LOST, "t.py::b": PASSED}, slowed=("t.py::a",), status=1)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "model.py").write_text("")
    return tmp_path


def kept(project: Path, unchanged: int, slowed: int, *folders: Path) -> Trial:
    """A trial in the project's folder that has run so many sessions."""
    trial = Trial(
        date="2026-11-27",
        machine="box",
        arguments=("perf_tests",) if folders else (),
        code=code_of([project, *folders], [project / ".tfperf"]),
        tests=("t.py::a", "t.py::b"),
        sessions=(UNCHANGED,) * unchanged + (SLOWED,) * slowed,
    )
    write(project / ".tfperf", trial, "")
    return trial


@pytest.mark.parametrize(
    ("sessions", "slowed", "status"),
    [
        pytest.param((20, 10), SLOWED, GREEN, id="all losses were found"),
        pytest.param((20, 10), replace(SLOWED, tests=UNCHANGED.tests), WARN_ONLY, id="none was found"),
        pytest.param((2, 1), SLOWED, UNDECIDED, id="too few sessions"),
    ],
)
def test_the_status_says_whether_the_gate_may_block(
    project: Path, sessions: tuple[int, int], slowed: TrialSession, status: int
) -> None:
    trial = kept(project, *sessions)
    ran = tuple(slowed if session.slowed else session for session in trial.sessions)
    write(project / ".tfperf", replace(trial, sessions=ran), "")
    assert cli.main(["trial", f"--sessions={sessions[0]}"]) == status


def test_half_as_many_sessions_as_asked_for_have_losses(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(project, 3, 2)
    cli.main(["trial", "--sessions=3", "--json"])
    trial = json.loads(capsys.readouterr().out)["trial"]
    assert (trial["same"], trial["slowed"], len(trial["sessions"])) == (3, 2, 5)


def test_sessions_for_which_there_is_no_time_are_left_to_the_next_call(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(project, 1, 1)
    assert cli.main(["trial", "--for=50s"]) == UNDECIDED
    said = capsys.readouterr().out
    assert said.startswith("the trial goes on: 2 of 30 sessions have run\n\ntrial of the gate on box, 2026-11-27\n")


def test_a_trial_that_is_whole_does_not_go_on(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(project, 20, 10)
    cli.main(["trial"])
    assert "the trial goes on" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "then", "now"),
    [
        (["--slowdown=0.2"], "--slowdown 0.05", "--slowdown 0.2"),
        (["--", "-k", "a"], "pytest", "pytest -k a"),
        (["--base"], "without --base", "with --base"),
        (["--base", "--slowdown=0.2"], "--slowdown 0.05, without --base", "--slowdown 0.2, with --base"),
    ],
)
def test_other_arguments_are_another_trial(
    project: Path, capsys: pytest.CaptureFixture[str], options: list[str], then: str, now: str
) -> None:
    kept(project, 20, 10)
    assert cli.main(["trial", *options]) == USAGE
    assert f"the trial that was begun here is another one: {then}; now {now}. Begin anew" in capsys.readouterr().err


def test_code_outside_of_the_project_that_the_arguments_name_is_compared(
    project: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = tmp_path_factory.mktemp("elsewhere")
    for name in ("test_it.py", "helper.py"):
        (tests / name).write_text("")
    named = str(tests / "test_it.py")
    write(project / ".tfperf", replace(kept(project, 20, 10, tests), arguments=(f"{named}::test_it", "nowhere")), "")
    arguments = ["trial", "--", f"{named}::test_it", "nowhere"]
    assert cli.main(arguments) == GREEN
    (tests / "helper.py").write_text("slower = True")
    assert cli.main(arguments) == USAGE
    assert f"{tests / 'helper.py'} changed since the trial began" in capsys.readouterr().err


def test_code_of_a_folder_that_the_arguments_name_is_compared(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tests = tmp_path_factory.mktemp("elsewhere") / "perf_tests"
    tests.mkdir()
    (tests / "test_it.py").write_text("")
    write(project / ".tfperf", replace(kept(project, 20, 10, tests), arguments=(str(tests),)), "")
    (tests / "test_it.py").write_text("slower = True")
    assert cli.main(["trial", "--", str(tests)]) == USAGE


def test_what_sessions_write_is_no_code(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = [project / "baselines" / "box.toml", project / ".tfperf" / "hook.py"]
    for path in written:
        path.parent.mkdir()
        path.write_text("")
    write(project / ".tfperf", replace(kept(project, 20, 10), code=dict.fromkeys(map(str, written), "0")), "")
    assert cli.main(["trial"]) == USAGE
    assert f"{written[0]}, {written[1]} changed since" in capsys.readouterr().err


def test_a_trial_begins_anew_where_that_is_asked_for(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(project, 20, 10)
    assert cli.main(["trial", "--again", "--", "nowhere"]) == USAGE
    assert "first, baselines of the trial's own are recorded" in capsys.readouterr().out
    assert read(project / ".tfperf") is None


def test_uncommitted_changes_cannot_be_compared_with_themselves(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(project, "init", "--quiet")
    git(project, "add", "model.py")
    git(project, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "--message=one")
    (project / "model.py").write_text("slower = True\n")
    kept(project, 20, 10)
    assert cli.main(["trial", "--base"]) == USAGE
    assert "--base compares the committed code with itself" in capsys.readouterr().err
