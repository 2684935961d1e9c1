"""`tfperf baselines stale`: rows checked for age."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.verdict import Verdict
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import KEY, baseline, measurement

GREEN, USAGE = 0, 4
OTHER = Key("resnet50-b64-horovod-device", "1x8")


def row(value: float = 1000.0, key: Key = KEY, **more: object) -> Baseline:
    return baseline(value, key=key, date="2026-01-02", **more)


def write(folder: Path, *rows: Baseline) -> None:
    store = BaselineStore(folder / "baselines", published=None)
    for one in rows:
        store.update(one.machine, {one.key: one})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with two rows of one machine."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, row(), row(500.0, OTHER))
    return tmp_path


def tfperf(*arguments: str) -> int:
    return cli.main(["baselines", *arguments])


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The words of each line of the table, below the machines' lines and its heading."""
    return [line.split() for line in capsys.readouterr().out.splitlines()[3:]]


# stale


def test_each_machine_has_a_line_with_its_rows_and_dates(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "baselines").rename(project / "elsewhere")
    monkeypatch.setenv("TFPERF_BASELINES", "elsewhere")
    assert tfperf("stale") == GREEN
    assert "box: 2 rows, 2 of them measured, recorded 2026-01-02\n" in capsys.readouterr().out


def reasons(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, list[str]]:
    assert tfperf("stale", "--json", *options) == GREEN
    return {one["key"][0]: one["reasons"] for one in json.loads(capsys.readouterr().out)}


def measured(project: Path, *sessions: tuple[str, Key], **more: Any) -> None:
    history = History(project / ".tfperf" / "history.sqlite")
    for session, key in sessions:
        named = measurement(session=session, topology=key.topology, **more)
        history.append(replace(named, workload=named.workload.parse(key.workload)))


GOOD = {"lock": "box-1.lock.txt", "commit": "abc1234"}


@pytest.fixture
def repeatable(project: Path) -> Path:
    """Both rows have a lock and a commit."""
    write(project, row(**GOOD), row(500.0, OTHER, **GOOD))
    (project / "baselines" / "box-1.lock.txt").write_text("")
    return project


def test_rows_that_the_last_sessions_measured_are_not_stale(
    repeatable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(repeatable, ("one", OTHER), ("two", KEY))
    assert reasons(capsys) == {}


def test_a_row_that_only_earlier_sessions_measured_is_stale(
    repeatable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(repeatable, ("one", OTHER), ("two", KEY))
    assert reasons(capsys, "--sessions=1") == {OTHER.workload: ["no test of the last session measured it"]}


def figure_row(name: str) -> Baseline:
    return row(2.5, KEY._replace(figure=name), unit="", **GOOD)


def test_the_row_of_a_figure_that_tests_no_longer_ask_for_is_stale(
    repeatable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repeatable, figure_row("loss"), figure_row("bleu"))
    measured(repeatable, ("one", OTHER), ("two", KEY), figures=(Verdict(figure=Figure("loss"), value=2.5),))
    assert tfperf("stale") == GREEN
    assert [line[:4] for line in lines(capsys)] == [["box", KEY.workload, "1x8", "bleu"]]


def test_the_row_of_a_figure_has_no_reference_environment_of_its_own(
    repeatable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repeatable, row(2.5, KEY._replace(figure="loss"), unit=""))
    assert reasons(capsys) == {}


@pytest.mark.parametrize(("age", "is_old"), [("2026-01-02", False), ("2026-01-04", True)])
def test_a_row_is_stale_from_an_age_on(
    age: str, is_old: bool, repeatable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(repeatable, ("one", OTHER), ("one", KEY))
    assert (reasons(capsys, f"--older-than={age}") != {}) == is_old


def test_a_row_whose_lock_is_missing_is_stale(repeatable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repeatable / "baselines" / "box-1.lock.txt").unlink()
    assert reasons(capsys)[KEY.workload] == ["its lock box-1.lock.txt is missing"]


def test_a_row_without_a_lock_has_no_reference_environment(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reasons(capsys)[KEY.workload] == ["no reference environment can be built"]


def test_without_a_history_the_other_reasons_are_found(repeatable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tfperf("stale") == GREEN
    said = capsys.readouterr()
    assert "none of 2 measured rows is out of date\n\nbox: the history has no session of this machine\n" in said.out
    assert "no history yet" in said.err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--sessions=0", "--sessions=0: give the number"),
        ("--machine=bax", "unknown machine 'bax'"),
        ("--older-than=old", "'old' is no time"),
    ],
)
def test_options_of_stale_are_checked(
    option: str, said: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tfperf("stale", option) == USAGE
    assert said in capsys.readouterr().err
