"""`tfperf trial` as a user runs it, with workers whose training is played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.inner import PLAYED_TRAINING, Project
from tests.helpers.patience import SESSION_SECONDS
from tests.helpers.repositories import ONE_READING, Repository

pytestmark = pytest.mark.slow

TESTS = """
@pytest.mark.parametrize("batch_size", [1, 2])
def test_it(throughput, on, batch_size):
    throughput.check(tiny(batch_size), on=on)
"""
UNDECIDED, USAGE = 6, 4


def command(project: Project, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    left_out = ("TFPERF_", "PYTEST_", "GITHUB_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment["PYTHONPATH"] = os.pathsep.join([str(PLAYED_TRAINING), environment.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "pytest_tfperf.cli", "trial", *arguments],
        cwd=project.folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=SESSION_SECONDS,
        check=False,
    )


def trial(project: Project, *arguments: str, **variables: str) -> tuple[int, str]:
    done = command(project, *arguments, **variables)
    return done.returncode, done.stdout + done.stderr


MINE = {
    "PYTEST_ADDOPTS": "--tfperf-html=mine.html --junitxml=mine.xml --log-file=mine.log",
    "TFPERF_JSON": "mine.json",
    "TFPERF_MARKDOWN": "mine.md",
    "TFPERF_NOTIFY": "command touch mine.told",
    "GITHUB_STEP_SUMMARY": "mine.summary",
}
"""Where a user's own sessions write."""


@pytest.fixture(scope="module")
def goes_on(played: Project) -> subprocess.CompletedProcess[str]:
    """A trial of one session, and then of two."""
    played.tests(TESTS)
    played.write("mine.json", "of last night")
    trial(played, "--sessions=1", "--slowdown=0.4", "--", "-k", "test_it", **MINE)
    return command(played, "--sessions=2", "--slowdown=0.4", "--json", "--", "-k", "test_it", **MINE)


@pytest.fixture(scope="module")
def tried(played: Project, goes_on: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """The answer of that trial."""
    del goes_on
    return trial(played, "--sessions=2", "--slowdown=0.4", "--", "-k", "test_it", **MINE)


def test_the_answer_has_both_rates_each_test_and_what_is_missing_for_a_verdict(tried: tuple[int, str]) -> None:
    status, text = tried
    assert status == UNDECIDED, text
    assert "failed falsely  0 of 2 sessions of unchanged code, at most 78 %" in text
    assert "losses found    1 of 1 losses of 40.0 %" in text
    assert "test_it.py::test_it[2]" in text
    assert "MORE SESSIONS ARE NEEDED" in text
    assert "go on with --sessions 20" in text


def test_the_users_baselines_and_history_are_not_touched(played: Project, tried: tuple[int, str]) -> None:
    del tried
    assert not (played.folder / "baselines").exists()
    assert not (played.folder / ".tfperf" / "history.sqlite").exists()


def test_no_report_and_no_channel_of_the_user_gets_the_sessions_of_a_trial(
    played: Project, tried: tuple[int, str]
) -> None:
    del tried
    assert [path.name for path in played.folder.glob("mine.*")] == ["mine.json"]
    assert (played.folder / "mine.json").read_text() == "of last night"


def test_a_trial_that_has_all_its_sessions_answers_at_once(played: Project, tried: tuple[int, str]) -> None:
    again = trial(played, "--sessions=2", "--slowdown=0.4", "--", "-k", "test_it")
    assert again[1].strip() == tried[1][tried[1].index("trial of the gate") :].strip()


def test_other_arguments_are_another_trial(played: Project, tried: tuple[int, str]) -> None:
    del tried
    status, text = trial(played, "--sessions=2", "--slowdown=0.2", "--", "-k", "test_it")
    assert status == USAGE
    assert "the trial that was begun here is another one: --slowdown 0.4; now --slowdown 0.2" in text
    assert "--again" in text


def test_a_trial_does_not_go_on_with_other_code(played: Project, tried: tuple[int, str]) -> None:
    del tried
    nets = played.folder / "nets.py"
    before = nets.read_text()
    nets.write_text(f"{before}# slower\n")
    status, text = trial(played, "--sessions=3", "--slowdown=0.4", "--", "-k", "test_it")
    nets.write_text(before)
    assert status == USAGE
    assert "nets.py changed since the trial began" in text
    assert "--again" in text


def test_a_history_without_sessions_of_unchanged_code_is_no_trial(played: Project, tried: tuple[int, str]) -> None:
    del tried
    played.run("-k", "test_it")
    status, text = trial(played, "--from-history")
    assert status == USAGE
    assert "none of 1 session of box ran the same commit" in text


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    with Project(tmp_path_factory.mktemp("base") / "project", trains=False) as project:
        yield Repository(project)


def test_the_base_is_tried_by_comparisons_of_the_commit_with_itself(repository: Repository) -> None:
    status, text = trial(repository.project, "--base", "--sessions=2", "--slowdown=0.4", "--", *ONE_READING)
    assert status == UNDECIDED, text
    assert "trial of --tfperf-base on box" in text
    assert "failed falsely  0 of 2 sessions of unchanged code" in text
    assert "losses found    1 of 1 losses of 40.0 %" in text


def test_a_trial_that_goes_on_says_so_beside_its_json(goes_on: subprocess.CompletedProcess[str]) -> None:
    assert "the trial goes on: 2 of 3 sessions have run" in goes_on.stderr
    assert len(json.loads(goes_on.stdout)["trial"]["sessions"]) == 3


def test_sessions_that_measure_nothing_end_a_trial_with_a_status_of_their_own(tmp_path: Path) -> None:
    with Project(tmp_path / "project", trains=False) as project:
        project.tests("def test_it(throughput): raise RuntimeError('no data')\n")
        status, text = trial(project)
        assert status == UNDECIDED
        assert "no baseline could be recorded" in text


def test_a_trial_of_the_base_refuses_uncommitted_changes(repository: Repository) -> None:
    repository.cost(0.02)
    status, text = trial(repository.project, "--base")
    assert status == USAGE
    assert "--base compares the committed code with itself, and this checkout has changes" in text
