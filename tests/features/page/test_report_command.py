"""`tfperf report`: what it selects from a history, what it writes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.cli import main
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import interleaved, measurement, session_verdict, throughput, verdict
from tools.simulated_weeks import CPU_MACHINE, sessions


@pytest.fixture(scope="module")
def weeks() -> Sequence[Sequence[Measurement]]:
    return list(sessions(3))


@pytest.fixture(scope="module")
def folder(weeks: Sequence[Sequence[Measurement]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    history = History(folder / "history.sqlite")
    for one in [one for session in weeks for one in session]:
        history.append(one)
    return folder


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def facts(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["report", "--dir", str(folder), "--format", "json", *options]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_the_last_session_is_the_default(folder: Path, weeks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert facts(folder, capsys)["session"]["ids"] == [weeks[-1][0].session]


def test_an_earlier_session_can_be_named(folder: Path, weeks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    session = weeks[1][0].session
    found = facts(folder, capsys, "--session", session)
    assert found["session"]["ids"] == [session]
    assert {len(test["history"]["rate"]) for test in found["tests"]} == {2}


def test_the_last_session_is_the_one_made_last_whatever_the_clock_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path / "history.sqlite")
    for session, year in (("s1", 2026), ("s2", 2031), ("s3", 2026)):
        history.append(measurement(session=session, time=f"{year}-01-0{session[1]}T03:00:00+00:00"))
    assert facts(tmp_path, capsys)["session"]["ids"] == ["s3"]


@pytest.mark.parametrize("test", ["a\0b.py::t", "a\udcffb.py::t"])
def test_a_test_whose_name_no_database_keeps_is_reported_by_its_stored_name(
    test: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path / "history.sqlite")
    for day in (1, 2):
        history.append(measurement(test=test, session=f"s{day}", time=f"2026-01-0{day}T03:00:00+00:00"))
    assert [len(one["history"]["rate"]) for one in facts(tmp_path, capsys)["tests"]] == [2]
    assert main(["report", "--dir", str(tmp_path), "-o", "page.html"]) == 0


def test_a_report_on_an_earlier_session_knows_no_later_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path / "history.sqlite")
    for day in range(30):
        rate = (1000.0 if day < 15 else 900.0) + day % 3
        history.append(measurement(throughput(rate), session=f"s{day}", time=f"2026-01-{day + 1:02}T03:00:00+00:00"))
    assert [test["changes"] != [] for test in facts(tmp_path, capsys)["tests"]] == [True]
    assert [test["changes"] for test in facts(tmp_path, capsys, "--session", "s14")["tests"]] == [[]]


def test_a_machine_narrows_the_report_to_its_tests(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {one["machine"] for one in facts(folder, capsys, "--machine", CPU_MACHINE)["tests"]} == {CPU_MACHINE}


def test_since_a_date_each_test_is_reported_once_by_its_latest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = facts(folder, capsys, "--since", "2026-11-03")
    assert len(found["tests"]) == len({one["test"] for one in found["tests"]}) == 25
    assert found["scope"].startswith("since 2026-11-03")


def test_a_session_is_reported_with_its_verdicts_on_software_and_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path / "history.sqlite")
    for day, outcome in ((1, Outcome.REGRESSED), (2, Outcome.PASS)):
        when = {"session": f"s{day}", "time": f"2026-01-0{day}T03:00:00+00:00"}
        history.append(measurement(verdict=verdict(), **when))
        history.append_verdict(session_verdict(outcome), **when)
    assert facts(tmp_path, capsys)["headline"] == "1 of 1 throughput test passed"
    red = facts(tmp_path, capsys, "--session", "s1")
    assert red["headline"] == "Machine REGRESSED (68.3 % slower than its baselines); 1 of 1 throughput test passed"
    (text,) = red["verdicts"]
    assert text.startswith("machine box: REGRESSED: the reference environment is 68.3 % slower")


def test_a_session_that_only_compared_is_the_last_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = History(tmp_path / "history.sqlite")
    history.append(measurement(session="s1", time="2026-01-01T03:00:00+00:00"))
    history.append(interleaved(session="s2", time="2026-01-02T03:00:00+00:00"))
    found = facts(tmp_path, capsys)
    assert (found["session"]["ids"], found["headline"]) == (["s2"], "1 of 1 throughput test regressed")
    assert facts(tmp_path, capsys, "--session", "latest")["session"] == found["session"]
    assert facts(tmp_path, capsys, "--session", "previous")["session"]["ids"] == ["s1"]


def test_a_session_is_reported_with_its_comparisons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = History(tmp_path / "history.sqlite")
    for day in (1, 2):
        when = {"session": f"s{day}", "time": f"2026-01-0{day}T03:00:00+00:00"}
        history.append(measurement(**when))
        history.append(interleaved(test=f"t.py::test_{day}", **when))
    assert [one["test"] for one in facts(tmp_path, capsys)["comparisons"]] == ["t.py::test_2"]


def test_since_a_date_each_comparison_is_reported_once_by_its_latest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path / "history.sqlite")
    for day in (1, 2):
        slower = interleaved(session=f"s{day}", time=f"2026-01-0{day}T03:00:00+00:00", ratio=1 - day / 10)
        history.append(slower)
    assert [one["change"] for one in facts(tmp_path, capsys, "--since", "2026-01-01")["comparisons"]] == [-0.2]


def test_the_environment_of_the_session_before_is_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (previous,) = facts(folder, capsys)["previous"]
    assert len(previous["machines"]) == 2


def test_a_page_is_written_and_its_headline_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--dir", str(folder), "-o", "page.html"]) == 0
    headline, _, path = capsys.readouterr().out.strip().rpartition(": ")
    assert path == "page.html"
    assert headline in Path(path).read_text()


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (["--session", "nope"], "unknown session 'nope'"),
        (["--machine", "nope"], "unknown machine 'nope'. Known: 8x-v100-nvlink, xeon-16c."),
        (["--since", "yesterday"], "is no time: write 2026-01-31"),
        (["--since", "2031-01-01"], "nothing was measured since 2031-01-01"),
        (["-o", "missing/page.html"], "there is no folder missing"),
        (["-o", "."], "that is a folder"),
    ],
)
def test_what_cannot_be_reported_is_refused(
    folder: Path, options: list[str], fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--dir", str(folder), *options]) == 4
    assert fact in capsys.readouterr().err


def test_a_folder_without_a_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--dir", str(tmp_path / "none")]) == 4
    assert "no history yet" in capsys.readouterr().err


def test_an_empty_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    History(tmp_path / "history.sqlite").prepare()
    assert main(["report", "--dir", str(tmp_path)]) == 4
    assert "nothing was measured here yet" in capsys.readouterr().err


@pytest.mark.parametrize(("machine", "is_said"), [("box", True), ("another", False)])
def test_a_trial_of_the_reported_machine_is_said(
    machine: str, is_said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    History(tmp_path / "history.sqlite").append(measurement(session="s1", machine="box"))
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "trial.json").write_text(json.dumps({"machine": machine, "fact": "was tried on 2026-11-27"}))
    assert ("was tried on 2026-11-27" in facts(tmp_path, capsys)["trial"]) is is_said


def test_a_series_has_its_latest_points_and_the_changes_among_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(tmp_path / "history.sqlite")
    for day in range(60):
        rate = 1000.0 + day % 3 - 50 * (day >= 20) - 50 * (day >= 45)
        when = (datetime(2026, 1, 1, 3, tzinfo=UTC) + timedelta(days=day)).isoformat()
        history.append(measurement(throughput(rate), session=f"s{day}", time=when, verdict=verdict()))
    (whole,) = facts(tmp_path, capsys)["tests"]
    monkeypatch.setattr("pytest_tfperf.features.page.past._MOST_POINTS", 30)
    (latest,) = facts(tmp_path, capsys)["tests"]
    assert (len(whole["history"]["rate"]), latest["history"]["rate"]) == (60, whole["history"]["rate"][30:])
    assert (len(whole["changes"]), latest["changes"]) == (2, whole["changes"][1:])
