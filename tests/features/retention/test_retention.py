"""Each session drops a part of what is too old; `tfperf history prune --details` drops all of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_USAGE
from pytest_tfperf.stores.history import History
from tests.helpers.inner import Project
from tests.helpers.measurements import measurement, verdict

TESTS = """
    def test_even(throughput, on):
        throughput.check(tiny(4, "nets:even"), on=on)
"""
NOW = datetime.now(UTC)
KEPT = 10  # of each test


def fill(history: History, *, days_ago: int, count: int) -> None:
    """Add this many sessions of one test, one of each day."""
    for number in range(count):
        when = NOW - timedelta(days=days_ago - number)
        history.append(measurement(session=f"{when:%m-%d}", time=when.isoformat(), verdict=verdict()))


# At the end of a session


@pytest.fixture
def project(played_project: Project) -> Project:
    played_project.tests(TESTS)
    played_project.write("even", "20.0")
    fill(played_project.history, days_ago=120, count=KEPT + 20)
    return played_project


def whole(project: Project) -> int:
    return sum(m.test != "" and m.session.count("-") == 1 for m in project.history.measurements())


def test_a_session_drops_what_is_older_than_90_days_and_says_so(project: Project) -> None:
    said = project.run("-m", "cpu").text
    assert "history: dropped the details of 20 measurements older than 90 days, whose figures stay" in said
    assert whole(project) == KEPT
    assert "dropped the details" not in project.run("-m", "cpu").text


def test_the_ini_value_sets_the_days(project: Project) -> None:
    assert "dropped" not in project.run("-m", "cpu", "-o", "tfperf_details_days=all").text
    said = project.run("-m", "cpu", "-o", "tfperf_details_days=110").text
    assert "the details of 11 measurements older than 110 days" in said
    assert whole(project) == KEPT + 9


def test_days_that_would_drop_everything_are_refused(project: Project) -> None:
    refused = project.run("-m", "cpu", "-o", "tfperf_details_days=0")
    assert "tfperf_details_days: '0' must be a whole number of days, 1 or more, or all" in refused.text
    assert whole(project) == KEPT + 20


def test_a_smoke_run_drops_nothing(project: Project) -> None:
    project.run("-m", "cpu", "--tfperf-smoke")
    assert whole(project) == KEPT + 20


# By the command, and after it


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.chdir(tmp_path)
    made = History(tmp_path / ".tfperf" / "history.sqlite")
    fill(made, days_ago=120, count=KEPT + 20)
    return made


def test_the_command_drops_all_of_it_and_frees_the_space(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    path = history.database.path
    assert path is not None
    before = path.stat().st_size
    assert cli.main(["history", "prune", "--details", "95d"]) == EXIT_GREEN
    assert "dropped the details of 20 measurements from before " in capsys.readouterr().out
    assert path.stat().st_size < before
    assert len(list(history.values(figure=""))) == KEPT + 20


def test_the_command_without_a_history_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["history", "prune", "--details", "90d"]) == EXIT_USAGE
    assert "no history yet" in capsys.readouterr().err


def test_the_command_says_what_it_deleted(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", "prune", "95d"]) == EXIT_GREEN
    assert ": deleted 26 measurements from before " in capsys.readouterr().out
    assert len(list(history.values(figure=""))) == 4


@pytest.mark.parametrize(
    "given", ["prune", "--test=a prune 3d", "--csv prune 3d", "--commit=a prune --details 3d", "prune 9999-01-01"]
)
def test_a_prune_that_is_not_clear_deletes_nothing(given: str, history: History) -> None:
    assert cli.main(["history", *given.split()]) == EXIT_USAGE
    assert len(list(history.measurements())) == KEPT + 20


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("explain t_a.py --session {old}", EXIT_USAGE),
        ("report --session {old} -o page.html", EXIT_USAGE),
        ("compare {old} latest", EXIT_USAGE),
        ("history --export --session {old}", EXIT_USAGE),
        ("history --export", EXIT_GREEN),
        ("history --csv --session {old}", EXIT_GREEN),
        ("history --session {old}", EXIT_GREEN),
        ("history changes", EXIT_GREEN),
    ],
)
def test_what_needs_an_old_measurement_whole_says_where_it_went(
    command: str, status: int, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["history", "prune", "--details", "90d"])
    capsys.readouterr()
    old = next(history.values(figure="")).session
    assert cli.main(command.format(old=old).split()) == status
    said = capsys.readouterr()
    needs_whole = status == EXIT_USAGE or "--export" in command
    assert ("details were dropped for their age (tfperf_details_days)" in said.err) == needs_whole, said
