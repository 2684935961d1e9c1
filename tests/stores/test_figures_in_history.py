"""Figures beside the throughput in a history: rows of their own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli, load_history
from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import Value
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict, Want, Wants
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import KEY, baseline, measurement, run, verdict

MEMORY = Verdict(
    figure=Figure("peak_memory"),
    value=18.0,
    outcome=Outcome.REGRESSED,
    reason=Reason.CONFIRMED,
    baseline=baseline(16.0, key=KEY._replace(figure="peak_memory"), unit="bytes"),
    change=2.0,
    threshold=1.0,
)
LOSS = Verdict(figure=Figure("loss"), value=2.5)


def judged(*figures: Verdict, **more: Any) -> Measurement:
    return measurement(verdict=verdict(), figures=figures, runs=(run(figures={"peak_memory": 18.0}),), **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def figures_in(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "select measurement, figure, unit, value, outcome, baseline from tfperf_values v "
            "join tfperf_series s on s.number = v.series where figure != '' order by v.rowid"
        ).fetchall()


def test_each_figure_is_a_row(path: Path) -> None:
    number = History(path).append(judged(MEMORY, LOSS))
    assert figures_in(path) == [
        (number, "peak_memory", "bytes", 18.0, "REGRESSED", 16.0),
        (number, "loss", "", 2.5, "", None),
    ]


def test_figures_are_read_back_with_their_measurement(path: Path) -> None:
    history, one = History(path), judged(MEMORY, LOSS)
    history.append(one)
    assert list(history.measurements()) == [one]


def test_a_further_run_replaces_the_rows_of_figures(path: Path) -> None:
    history = History(path)
    waiting = Verdict(figure=Figure("loss"), value=2.0, outcome=Outcome.INCONCLUSIVE, wants=Wants(Want.RUNS, 3))
    number = history.append(judged(waiting, MEMORY))
    history.append(judged(LOSS), replaces=number)
    assert figures_in(path) == [(number, "loss", "", 2.5, "", None)]


def test_a_figure_that_wants_more_runs_has_no_outcome_yet(path: Path) -> None:
    waiting = Verdict(figure=Figure("loss"), value=2.0, outcome=Outcome.INCONCLUSIVE, wants=Wants(Want.RUNS, 3))
    History(path).append(judged(waiting))
    assert [row[4] for row in figures_in(path)] == [""]


def test_old_figures_are_deleted_with_their_measurements(path: Path) -> None:
    history = History(path)
    history.append(judged(MEMORY))
    history.prune(datetime(2027, 1, 1, tzinfo=UTC))
    assert figures_in(path) == []


def test_results_of_figures_are_described_as_their_test_asked_for_them_last(path: Path) -> None:
    history = History(path)
    history.append(judged(MEMORY))
    now = replace(MEMORY, figure=Figure("peak_memory", absolute=5.0))
    history.append(judged(now, time="2026-01-03T03:04:05+00:00"))
    assert [one.figure for one in history.values() if one.figure] == [now.figure, now.figure]


def test_a_result_of_a_figure_has_its_value_outcome_and_baseline(path: Path) -> None:
    History(path).append(judged(MEMORY))
    _, found = History(path).values()
    assert (found.key.figure, found.value, found.outcome, found.baseline) == (
        *("peak_memory", 18.0),
        *(Outcome.REGRESSED, 16.0),
    )


def test_a_figure_that_was_not_measured_has_no_result(path: Path) -> None:
    History(path).append(judged(replace(MEMORY, value=None, outcome=Outcome.INVALID)))
    assert [one.key.figure for one in History(path).values()] == [""]


def test_a_data_frame_has_figures_behind_the_throughputs(path: Path) -> None:
    History(path).append(judged(MEMORY, LOSS))
    frame = load_history(path.parent)
    assert dict(zip(frame["figure"], frame["value"], strict=True)) == {
        "": pytest.approx(1000.0),
        "peak_memory": 18.0,
        "loss": 2.5,
    }


def test_a_plot_of_rates_from_a_data_frame_has_no_figures_in_it(path: Path) -> None:
    History(path).append(judged(MEMORY))
    rates = load_history(path.parent).pivot_table(index="time", columns="test", values="examples_per_sec")
    assert rates.to_numpy().tolist() == [[pytest.approx(1000.0)]]


# The outcome of a test that failed by a figure


def test_a_test_that_a_figure_failed_did_not_pass(path: Path) -> None:
    history = History(path)
    history.append(judged(MEMORY))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select outcome from tfperf_measurements").fetchall() == [("REGRESSED",)]
    assert [one.test_outcome for one in history.values(figure="")] == ["REGRESSED"]
    assert [row["outcome"] for row in history.rows()] == ["REGRESSED"]
    assert list(load_history(path.parent)["outcome"]) == ["REGRESSED", "REGRESSED"]


@pytest.mark.parametrize(
    ("options", "cell"), [((), "REGRESSED (peak memory)"), (("--csv",), ",REGRESSED,"), (("--json",), '"REGRESSED"')]
)
def test_the_history_command_shows_what_the_test_did(
    path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], cell: str
) -> None:
    History(path).append(judged(MEMORY))
    assert cli.main(["history", "--dir", str(path.parent), *options]) == 0
    shown = capsys.readouterr().out
    assert cell in shown
    assert "PASS" not in shown


def test_the_place_of_a_figure_is_kept(path: Path) -> None:
    history = History(path)
    history.append(judged(replace(LOSS, places=("at step 400",)), MEMORY))
    assert [one.place for one in history.values() if one.figure] == ["at step 400", ""]


def test_what_later_verdicts_rest_on_is_the_throughputs_own_outcome(path: Path) -> None:
    history = History(path)
    history.append(judged(MEMORY))
    assert [one.outcome for one in history.values(figure="")] == [Outcome.PASS]
    (past,) = history.earlier.past_sessions_of_machine([baseline()], before="today", least_tests=1)[KEY]
    assert past.outcome is Outcome.PASS


@pytest.mark.parametrize("outcome", [Outcome.REGRESSED, Outcome.INVALID])
def test_a_throughput_is_a_reference_for_later_ones_whatever_became_of_its_figures(
    path: Path, outcome: Outcome
) -> None:
    history = History(path)
    history.append(judged(replace(MEMORY, outcome=outcome)))
    assert list(history.earlier.earlier_measurements("box", before="today", most=3)) == [KEY]


def test_a_measurement_whose_figure_wants_more_runs_has_no_outcome_yet(path: Path) -> None:
    history = History(path)
    history.append(judged(replace(MEMORY, outcome=Outcome.INCONCLUSIVE, wants=Wants(Want.RUNS, 3))))
    assert [(one.test_outcome, one.outcome) for one in history.values(figure="")] == [("", Outcome.PASS)]


def test_a_provisional_pass_is_none_where_a_figure_failed() -> None:
    provisional = baseline(provenance=Provenance.PROVISIONAL)
    found = Value.of(measurement(verdict=verdict(baseline=provisional), figures=(MEMORY,)))
    assert (found.outcome_word, found.test_outcome) == ("PASS (provisional)", "REGRESSED")
