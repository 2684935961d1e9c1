"""The summary's line on each acknowledgement: how much, until when, whose it is, and what is no longer needed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.ack.plugin import session_ended
from pytest_tfperf.stores import acknowledgements
from tests.helpers.measurements import TEST, acknowledged, interleaved, measurement, verdict

LOSS, WORSE, NO_LOSS = (-0.15, -0.11), (-0.25, -0.21), (-0.01, 0.01)
KNOWN = acknowledged()
FILE = TEST.partition("::")[0]
REMOVE = f"tfperf ack '{TEST}' --machine box --remove"


def measured(days_left: int, outcome: Outcome, interval: tuple[float, float], **more: Any) -> Measurement:
    day = KNOWN.until - timedelta(days=days_left)
    change = sum(interval) / 2
    of_test = verdict(outcome, change=change, confirmed_change=change, interval=interval, acknowledged=KNOWN)
    return measurement(verdict=of_test, time=f"{day}T03:00:00+00:00", **{"owner": "team-vision"} | more)


def lines(folder: Path, *results: Measurement, known: tuple[Acknowledgement, ...] = (KNOWN,), **more: Any) -> list[str]:
    (folder / FILE).parent.mkdir(exist_ok=True)
    (folder / FILE).touch()
    acknowledgements.write(folder / "baselines", known)
    context = Session(settings=Settings(root=folder, values={"baselines": folder / "baselines"}, **more))
    return list(session_ended(context, SessionResult(results=results)))


@pytest.mark.parametrize(
    ("days_left", "begin"),
    [
        (15, f"acknowledged until 2027-01-15: {TEST}: 13.0 % slower (team-vision): bug 123"),
        (14, f"ends in 14 days: team-vision: {TEST}: 13.0 % slower, acknowledged until 2027-01-15: bug 123"),
        (1, "ends tomorrow: team-vision: "),
        (0, "ends today: team-vision: "),
        (-1, f"acknowledged until 2027-01-15, which is over: team-vision: {TEST}: 13.0 % slower: bug 123. Fix it"),
    ],
)
def test_the_owner_comes_first_when_the_end_is_near(tmp_path: Path, days_left: int, begin: str) -> None:
    (line,) = lines(tmp_path, measured(days_left, Outcome.REGRESSED, LOSS))
    assert line.startswith(begin)


def test_past_the_end_the_line_has_the_command_for_another(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, measured(-1, Outcome.REGRESSED, LOSS))
    assert line.endswith(f"tfperf ack '{TEST}' --machine box --replace --until DATE --why REASON")


def test_a_worse_loss_is_shown_beside_the_acknowledged_one(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, measured(30, Outcome.REGRESSED, WORSE))
    says = f"{TEST}: 23.0 % slower, acknowledged 13.0 % slower until 2027-01-15: bug 123"
    assert line == f"worse than acknowledged: team-vision: {says}"


def test_a_recovered_test_is_named_with_the_command(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, measured(30, Outcome.PASS, NO_LOSS))
    assert line == f"recovered: {TEST}: no slower, acknowledged 13.0 % slower. Remove it: {REMOVE}"


def test_of_several_calls_the_worst_counts(tmp_path: Path) -> None:
    results = measured(30, Outcome.PASS, NO_LOSS), measured(30, Outcome.REGRESSED, WORSE)
    (line,) = lines(tmp_path, *results)
    assert line.startswith("worse than acknowledged: ")


def test_a_test_without_an_owner_says_so(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, measured(3, Outcome.REGRESSED, LOSS, owner=""))
    assert line.startswith("ends in 3 days: no owner: ")


def test_a_test_whose_file_is_gone_is_stale(tmp_path: Path) -> None:
    gone = acknowledged(test="perf_tests/gone.py::test_it")
    (line,) = lines(tmp_path, measured(30, Outcome.PASS, NO_LOSS), known=(gone,))
    assert line.startswith("stale: perf_tests/gone.py::test_it is acknowledged, and no longer exists.")


def test_a_figure_that_is_no_longer_judged_is_stale(tmp_path: Path) -> None:
    of_figure = acknowledged(1e9, 2e9, figure="peak_memory")
    (line,) = lines(tmp_path, measured(30, Outcome.PASS, NO_LOSS), known=(of_figure,))
    assert line.startswith(f"stale: {TEST}, {KNOWN.call}, is not judged by its peak memory any more. Remove it: ")
    assert line.endswith("--figure peak_memory --machine box --remove")


def test_a_test_that_this_session_did_not_measure_has_no_line(tmp_path: Path) -> None:
    other = measurement(verdict=verdict(Outcome.PASS), test=f"{FILE}::test_other")
    assert lines(tmp_path, other) == []


def test_nothing_is_said_beside_another_side(tmp_path: Path) -> None:
    assert lines(tmp_path, interleaved()) == []


def test_the_command_names_the_folder_where_a_session_was_given_it(tmp_path: Path) -> None:
    rerun = RerunCommand(f" --tfperf-baselines={tmp_path}/baselines")
    (line,) = lines(tmp_path, measured(30, Outcome.PASS, NO_LOSS), rerun=rerun)
    assert line.endswith(f"tfperf ack '{TEST}' --machine box --baselines {tmp_path}/baselines --remove")
