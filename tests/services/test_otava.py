"""The files for Apache Otava; where it is installed (`make otava`), it reads them itself and finds a step."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.cli import main
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.export import CONFIGURATION, otava_files
from tests.helpers.measurements import measurement

ROOT = Path(__file__).parents[2]
OTAVA = shutil.which("otava", path=str(ROOT / ".venv-otava" / "bin")) or shutil.which("otava")
BEGAN = datetime(2026, 1, 1, 3, tzinfo=UTC)
ONE = replace(
    PastResult.of(measurement(session="s1", time=BEGAN.isoformat(), test="t.py::a", topology="1x1", commit="abc")),
    workload="w",
    value=1000.0,
)


def daily(rates: list[float]) -> list[PastResult]:
    return [
        replace(ONE, value=rate, session=f"s{day}", time=(BEGAN + timedelta(days=day)).isoformat())
        for day, rate in enumerate(rates)
    ]


def series(results: list[PastResult]) -> list[list[str]]:
    (text,) = [text for name, text in otava_files(results).items() if name != CONFIGURATION]
    return list(csv.reader(text.splitlines()))


def test_a_series_has_a_row_for_each_result() -> None:
    assert series([ONE]) == [
        ["time", "examples_per_sec", "commit", "session", "test"],
        ["2026-01-01T03:00:00+00:00", "1000.0", "abc", "s1", "t.py::a"],
    ]


def test_a_figure_that_is_read_at_another_place_now_is_another_series() -> None:
    loss = [
        replace(one, figure=Figure("loss"), place=f"at step {at}")
        for one, at in zip(daily([9, 8]), (4, 5), strict=True)
    ]
    assert [row[1] for row in series(loss)] == ["value", "8"]


def test_a_figure_is_a_series_in_its_own_direction() -> None:
    files = otava_files([ONE, replace(ONE, figure=Figure("peak_memory"), unit="bytes", value=2.0**30)])
    tests = json.loads(files[CONFIGURATION])["tests"]
    assert [one["metrics"] for one in tests.values()] == [
        {"examples_per_sec": {"column": "examples_per_sec", "direction": 1}},
        {"peak_memory": {"column": "value", "direction": -1}},
    ]


def test_rows_are_in_the_order_of_time_whatever_the_zone() -> None:
    later = replace(ONE, session="later", time="2026-01-01T01:00:00-05:00")
    assert [row[3] for row in series([later, ONE])[1:]] == ["s1", "later"]


@pytest.mark.parametrize("left_out", [{"outcome": Outcome.INVALID}, {"is_slowed_on_purpose": True}])
def test_what_tells_nothing_of_the_software_is_left_out(left_out: dict[str, object]) -> None:
    assert otava_files([replace(ONE, **left_out)]) == {}  # type: ignore[arg-type]


@given(st.lists(st.text(min_size=1), unique=True, min_size=1))
def test_each_workload_has_a_file_of_its_own(workloads: list[str]) -> None:
    files = otava_files([replace(ONE, workload=workload) for workload in workloads])
    assert len(files) == len(workloads) + 1
    tests = json.loads(files[CONFIGURATION])["tests"]
    assert sorted(test["file"] for test in tests.values()) == sorted(set(files) - {CONFIGURATION})
    assert not any("/" in name for name in files)


def test_a_history_without_results_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "otava", "--dir", str(tmp_path), "-o", str(tmp_path / "out")]) == 4
    assert "no history yet" in capsys.readouterr().err


@pytest.mark.skipif(OTAVA is None, reason="Apache Otava is not installed: make otava")
def test_otava_itself_finds_a_step_on_its_day(tmp_path: Path) -> None:
    noise = random.Random(7)
    rates = [(1000.0 if day < 20 else 930.0) * (1 + noise.gauss(0, 0.005)) for day in range(30)]
    short = replace(ONE, workload="measured once", commit="")
    for name, text in otava_files([*daily(rates), short]).items():
        (tmp_path / name).write_text(text)
    assert OTAVA is not None
    done = subprocess.run(
        [OTAVA, "analyze", "all", "--since", "2025-12-01", "--output", "json"],
        cwd=tmp_path,
        env=os.environ | {"OTAVA_CONFIG": CONFIGURATION},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {name: points for line in done.stdout.splitlines() for name, points in json.loads(line).items()}
    assert [point["attributes"]["session"] for point in found["box/w/1x1"]] == ["s20"]
    assert found["box/measured once/1x1"] == []
