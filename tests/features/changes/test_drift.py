"""Lasting changes, as `tfperf history changes` lists them and `--tfperf-fail-on-drift` fails a session for them.

The history is that of one real session, copied to many days.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli
from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Verdict
from pytest_tfperf.features.changes.plugin import session_verdicts
from pytest_tfperf.reports.session_verdicts import text_of
from pytest_tfperf.stores import acknowledgements
from tests.helpers.inner import Project
from tests.helpers.measurements import KEY, acknowledged, baseline, measurement, verdict

TESTS = """
    import sys
    from pytest_tfperf import Command

    def test_program(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)
"""

DAYS, SLOWER_FROM = 40, 30
START = datetime(2026, 1, 1, 3, tzinfo=UTC)
GREEN, REGRESSED, USAGE = 0, 1, 4


def on_day(day: int, measured: Measurement) -> Measurement:
    """As it was on a day: 5 % faster before `SLOWER_FROM`."""
    rate = measured.throughput.examples_per_sec * (1.05 if day < SLOWER_FROM else 1)
    return replace(
        measured,
        session=f"day-{day}",
        time=(START + timedelta(days=day)).isoformat(),
        commit=f"commit{day}",
        throughput=replace(measured.throughput, examples_per_sec=rate),
    )


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("drift"), trains=False) as project:
        project.tests(TESTS)
        project.baseline("program", unit="examples", value=9.0, upper=math.inf)
        project.run()
        measured = project.measured("test_program")
        (project.folder / ".tfperf" / "history.sqlite").unlink()
        for day in range(DAYS):
            project.history.append(on_day(day, measured))
        yield project


def changes(project: Project, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(["history", "changes", f"--dir={project.folder / '.tfperf'}", *arguments])
    return status, capsys.readouterr().out


def listed(project: Project, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    status, text = changes(project, capsys, "--json", *arguments)
    assert status == GREEN
    found: list[dict[str, Any]] = json.loads(text)
    return found


def test_a_slowdown_is_listed_with_its_date_and_commits(slower: Project, capsys: pytest.CaptureFixture[str]) -> None:
    _, text = changes(slower, capsys)
    assert "2026-01-31  step  -4.8 %" in text
    assert "commit29..commit30" in text


def test_it_is_told_as_json(slower: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = listed(slower, capsys)
    assert (found["test"], found["session"], found["kind"]) == ("test_it.py::test_program", "day-30", "step")
    assert found["size"] == pytest.approx(1 / 1.05 - 1)


@pytest.mark.parametrize(
    ("argument", "count"),
    [
        ("--machine=box", 1),
        ("--since=2026-01-30", 1),
        ("--since=2026-02-05", 0),
    ],
)
def test_it_is_asked_for_by_machine_date_and_test(
    slower: Project, argument: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(listed(slower, capsys, argument)) == count


def test_a_history_without_changes_says_so(slower: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert changes(slower, capsys, "--since=2026-02-05") == (GREEN, "no lasting change was found\n")


def test_a_folder_without_a_history_is_an_error(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", "changes", f"--dir={tmp_path}"]) == USAGE
    assert str(tmp_path) in capsys.readouterr().err


def test_a_filter_before_the_action_holds(slower: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", f"--dir={slower.folder / '.tfperf'}", "--since=2026-02-05", "changes"]) == GREEN
    assert capsys.readouterr().out == "no lasting change was found\n"


def test_json_before_the_action_holds(slower: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", f"--dir={slower.folder / '.tfperf'}", "--json", "changes"]) == GREEN
    assert json.loads(capsys.readouterr().out)[0]["kind"] == "step"


def test_a_filter_that_changes_do_not_have_is_refused(slower: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", "--commit=abc", "changes"]) == USAGE
    assert "--machine, --test or --since" in capsys.readouterr().err


def test_it_fails_a_session_that_asks(slower: Project) -> None:
    finished = slower.run("--tfperf-fail-on-drift")
    assert finished.status == REGRESSED
    assert finished.kinds == {"test_program": "passed", "drift on box": "failure"}
    message = "drift on box: test_it.py::test_program became slower for good, by 4.8 %"
    assert finished.cases["drift on box"].message == message
    assert finished.text.count("Look for the cause between the two commits") == 1
    last_failed = slower.folder / ".pytest_cache" / "v" / "cache" / "lastfailed"
    assert not last_failed.exists() or json.loads(last_failed.read_text()) == {}  # it is no test that could run again


def test_it_fails_no_session_that_does_not(slower: Project) -> None:
    assert slower.run().status == GREEN


@pytest.mark.parametrize(("days", "status"), [(30, GREEN), (-1, REGRESSED)])
def test_it_fails_no_session_until_the_end_of_its_acknowledgement(slower: Project, days: int, status: int) -> None:
    end = datetime.now(UTC).date() + timedelta(days=days)
    one = acknowledged(-0.05, -0.06, test="test_it.py::test_program", workload="program", topology="1x1", until=end)
    acknowledgements.write(slower.folder / "baselines", [one])
    assert slower.run("--tfperf-fail-on-drift").status == status
    acknowledgements.write(slower.folder / "baselines", [])


@pytest.mark.parametrize(("call", "status"), [("program", GREEN), ("another", REGRESSED)])
def test_an_acknowledgement_of_another_call_does_not_hide_it(slower: Project, call: str, status: int) -> None:
    end = datetime.now(UTC).date() + timedelta(days=30)
    one = acknowledged(-0.05, -0.06, test="test_it.py::test_program", workload=call, topology="1x1", until=end)
    acknowledgements.write(slower.folder / "baselines", [one])
    assert slower.run("--tfperf-fail-on-drift").status == status
    acknowledgements.write(slower.folder / "baselines", [])


def test_a_new_baseline_accepts_it(slower: Project) -> None:
    slower.baseline("program", unit="examples", value=8.9, upper=math.inf)
    assert slower.run("--tfperf-fail-on-drift").status == GREEN


def test_a_slowdown_within_the_tests_tolerance_fails_no_session(slower: Project) -> None:
    slower.baseline("program", unit="examples", value=9.0, lower=-0.06, upper=math.inf)
    assert slower.run("--tfperf-fail-on-drift").status == GREEN


def test_a_figure_that_became_worse_for_good_is_one(tmp_path: Path) -> None:
    context = Session(settings=Settings(values={"dir": tmp_path}), id=f"day-{DAYS - 1}")
    for day in range(DAYS):
        memory = Verdict(
            figure=Figure("peak_memory"),
            value=2.0**33 * (1.1 if day >= SLOWER_FROM else 1.0),
            baseline=baseline(2.0**33, key=KEY._replace(figure="peak_memory"), unit="bytes"),
        )
        context.history.append(on_day(day, measurement(verdict=verdict(), figures=(memory,))))
    (found,) = session_verdicts(context, ["box"])
    assert "peak memory of resnet50-b64-replicated-device on 1x8): +10.0 %" in text_of(found)
