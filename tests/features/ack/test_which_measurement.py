"""The measurement that `tfperf ack` takes: of the code of HEAD, of each call that lost something, and shown."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.ack.command import size_of
from pytest_tfperf.stores import acknowledgements
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import TEST, WORKLOAD, measurement, verdict
from tests.helpers.repositories import git

GREEN, USAGE = 0, 4
NOW = datetime.now(UTC)
WHEN = [f"--until={NOW.date() + timedelta(days=30)}", "--why=bug 123"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a commit on main, and one on the branch `experiment`."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "config", "user.name", "Ada")
    git(tmp_path, "config", "user.email", "ada@example.com")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message=main")
    git(tmp_path, "checkout", "--quiet", "-b", "experiment")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message=slower")
    git(tmp_path, "checkout", "--quiet", "main")
    return tmp_path


def measured(
    folder: Path, change: float, *, hours_ago: float = 1.0, outcome: Outcome = Outcome.REGRESSED, **more: Any
) -> str:
    """Keep a measurement with this change in the history, and return its session."""
    of_test = verdict(outcome, change, confirmed_change=change, interval=(change - 0.01, change + 0.01))
    session = f"session-{hours_ago:g}"
    given = {"session": session, "time": (NOW - timedelta(hours=hours_ago)).isoformat(), "verdict": of_test}
    History(folder / ".tfperf" / "history.sqlite").append(measurement(**given | more))
    return session


def commit_of(folder: Path, branch: str = "main") -> str:
    return git(folder, "rev-parse", "--short=12", branch)


def ack(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    places = [f"--baselines={folder / 'baselines'}", f"--history={folder / '.tfperf'}"]
    status = cli.main(["ack", *arguments, *places])
    out, err = capsys.readouterr()
    return status, out + err


def changes(folder: Path) -> list[float]:
    return [one.change for one in acknowledgements.read(folder / "baselines")]


def test_the_output_names_time_age_commit_and_session(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = measured(repository, -0.08, hours_ago=5, commit=commit_of(repository))
    status, text = ack(repository, capsys, TEST, *WHEN)
    time = f"{NOW - timedelta(hours=5):%Y-%m-%d %H:%M} UTC, 5 h "
    assert (status, changes(repository)) == (GREEN, [-0.08])
    assert re.search(
        rf"^measured {time}\d+ min ago, at {commit_of(repository)}, session {session}$", text, re.MULTILINE
    )


def test_an_older_commit_of_this_branch_is_taken(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(repository, -0.08, commit=commit_of(repository))
    git(repository, "commit", "--quiet", "--allow-empty", "--message=later")
    assert ack(repository, capsys, TEST, *WHEN)[0] == GREEN


@pytest.mark.parametrize(
    ("branch", "end", "says"),
    [
        ("experiment", "", "that commit is no ancestor of HEAD"),
        ("main", "-dirty", "it was measured with changes that are not committed"),
    ],
)
def test_a_loss_of_other_code_is_refused_with_the_sessions_that_would_do(
    repository: Path, capsys: pytest.CaptureFixture[str], branch: str, end: str, says: str
) -> None:
    good = measured(repository, -0.08, hours_ago=72, commit=commit_of(repository))
    measured(repository, 0.0, hours_ago=48, commit=commit_of(repository), outcome=Outcome.PASS)
    measured(repository, -0.08, hours_ago=24, commit=commit_of(repository), machine="bax")
    last = measured(repository, -0.185, commit=commit_of(repository, branch) + end)
    status, text = ack(repository, capsys, TEST, *WHEN)
    assert (status, changes(repository), says in text) == (USAGE, [], True), text
    assert re.findall(r"--session (session-\d+)", text) == [last, good]
    assert f"--session {good}: measured {NOW - timedelta(days=3):%Y-%m-%d %H:%M} UTC, 3 days ago, at " in text


def test_a_session_that_is_named_is_taken_whatever_its_commit(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = measured(repository, -0.185, commit=commit_of(repository, "experiment"))
    assert ack(repository, capsys, TEST, *WHEN, f"--session={last}")[0] == GREEN
    assert changes(repository) == [-0.185]


def test_an_earlier_session_can_be_named(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    earlier = measured(repository, -0.08, hours_ago=5, commit=commit_of(repository))
    measured(repository, -0.11, hours_ago=1, commit=commit_of(repository))
    assert ack(repository, capsys, TEST, *WHEN, f"--session={earlier}")[0] == GREEN
    assert changes(repository) == [-0.08]


def test_without_git_the_commit_is_shown_and_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(tmp_path, -0.08, commit="0123456789ab")
    status, text = ack(tmp_path, capsys, TEST, *WHEN)
    assert (status, "ago, at 0123456789ab, session" in text) == (GREEN, True), text


def test_a_measurement_without_a_commit_is_taken(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(repository, -0.08)
    status, text = ack(repository, capsys, TEST, *WHEN)
    assert (status, "at an unknown commit" in text) == (GREEN, True), text


def two_calls(folder: Path) -> list[str]:
    """A session in which the test lost 8 % in one call, and 5 % in another."""
    shapes = {"1x1": -0.08, "1x2": -0.05}
    for shape, change in shapes.items():
        measured(folder, change, topology=shape)
    return [f"{WORKLOAD.id} on {shape}" for shape in shapes]


def test_each_call_that_lost_something_is_acknowledged_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = two_calls(tmp_path)
    status, text = ack(tmp_path, capsys, TEST, *WHEN)
    known = acknowledgements.read(tmp_path / "baselines")
    assert (status, [(one.call, one.change) for one in known]) == (GREEN, list(zip(calls, [-0.08, -0.05], strict=True)))
    for call, loss in zip(calls, ("8 % slower", "5 % slower"), strict=True):
        assert f"acknowledged: {TEST} ({call}) on box: {loss}, until " in text


def test_one_of_the_calls_can_be_named_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = two_calls(tmp_path)
    assert ack(tmp_path, capsys, TEST, *WHEN, "--call=1x2")[0] == GREEN
    assert [one.call for one in acknowledgements.read(tmp_path / "baselines")] == [second]
    assert ack(tmp_path, capsys, TEST, *WHEN, f"--call={first}")[0] == GREEN
    assert ack(tmp_path, capsys, TEST, "--remove", "--call=1x1")[0] == GREEN
    assert [one.call for one in acknowledgements.read(tmp_path / "baselines")] == [second]


def test_a_call_that_lost_nothing_cannot_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = two_calls(tmp_path)
    status, text = ack(tmp_path, capsys, TEST, *WHEN, "--call=1x16")
    assert (status, "unknown call '1x16'" in text, all(call in text for call in calls)) == (USAGE, True, True), text


def test_removing_a_test_removes_all_of_its_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_calls(tmp_path)
    ack(tmp_path, capsys, TEST, *WHEN)
    status, text = ack(tmp_path, capsys, TEST, "--remove")
    assert (status, text.count("removed: "), changes(tmp_path)) == (GREEN, 2, [])


def test_of_two_equal_calls_the_worse_is_acknowledged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change in (-0.08, -0.05):
        measured(tmp_path, change)
    assert ack(tmp_path, capsys, TEST, *WHEN)[0] == GREEN
    assert changes(tmp_path) == [-0.08]


def test_another_workload_of_the_test_is_another_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(tmp_path, -0.08)
    measured(tmp_path, -0.05, workload=replace(WORKLOAD, batch_size=32))
    ack(tmp_path, capsys, TEST, *WHEN)
    assert sorted(changes(tmp_path)) == [-0.08, -0.05]


def test_the_worse_end_of_the_interval_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(tmp_path, -0.08)
    ack(tmp_path, capsys, TEST, *WHEN)
    assert [one.worst for one in acknowledgements.read(tmp_path / "baselines")] == [pytest.approx(-0.09)]


def test_a_loss_beyond_its_interval_is_its_own_worst() -> None:
    of_test = verdict(Outcome.REGRESSED, -0.12, confirmed_change=-0.12, interval=(-0.1, -0.05))
    assert size_of(of_test) == (-0.12, -0.12)


@pytest.mark.parametrize("part", ["test_b", "a.py::test_b", TEST])
def test_a_part_of_the_id_names_what_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str) -> None:
    measured(tmp_path, -0.08)
    ack(tmp_path, capsys, TEST, *WHEN)
    assert ack(tmp_path, capsys, part, "--remove")[0] == GREEN
    assert changes(tmp_path) == []
