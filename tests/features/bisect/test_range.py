"""From which commit to which `tfperf bisect` searches where nobody says it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.states import range_of
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import baseline, measurement, throughput, verdict

TEST = measurement().test
START = datetime(2026, 1, 1, tzinfo=UTC)


def session(number: int, rate: float, commit: str) -> Measurement:
    return measurement(
        throughput(rate),
        session=f"s{number}",
        time=(START + timedelta(days=number)).isoformat(),
        commit=commit,
        verdict=verdict(),
    )


def arguments(folder: Path, **given: str | None) -> argparse.Namespace:
    paths = {"dir": folder, "baselines": folder / "baselines"}
    return argparse.Namespace(**{"good": None, "bad": None, "test": TEST} | paths | given)


def keep(folder: Path, *measurements: Measurement) -> None:
    history = History(folder / "history.sqlite")
    for one in measurements:
        history.append(one)


def test_what_is_given_holds(tmp_path: Path) -> None:
    assert range_of(arguments(tmp_path, good="v1"), tmp_path) == ("v1", "HEAD")
    assert range_of(arguments(tmp_path, good="v1", bad="v2"), tmp_path) == ("v1", "v2")


def test_the_last_lasting_slowdown_of_the_history(tmp_path: Path) -> None:
    fast = [session(number, 1000 + number % 3, f"good{number}") for number in range(8)]
    slow = [session(number, 800 + number % 3, f"bad{number}-dirty") for number in range(8, 16)]
    keep(tmp_path, *fast, *slow)
    assert range_of(arguments(tmp_path), tmp_path) == ("good7", "bad8")


def test_without_a_slowdown_the_commit_of_the_baseline(tmp_path: Path) -> None:
    one = session(1, 1000, "abc")
    keep(tmp_path, one)
    row = baseline(commit="0123456789ab")
    BaselineStore(tmp_path / "baselines").update("box", {row.key: row})
    assert range_of(arguments(tmp_path), tmp_path) == ("0123456789ab", "HEAD")
    assert range_of(arguments(tmp_path, bad="v2"), tmp_path) == ("0123456789ab", "v2")


def test_a_test_that_nobody_measured_needs_a_good_commit(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match="--good=REV"):
        range_of(arguments(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("test_c", "neither the history nor a baseline in * says when d/test_a.py::test_c[x::1] was fast"),
        ("test_a.py::test_c", "neither the history nor a baseline in * says when d/test_a.py::test_c[x::1] was fast"),
        ("test_b", "'test_b' is a part of 2 tests; give more of the id:\n  d/test_a.py::test_b[1]\n  *test_b[2]"),
        ("test_d", "no measured test has 'test_d' in its id or name."),
    ],
)
def test_a_measured_test_is_found_by_the_end_of_its_id(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("test_c[x::1]", "test_b[1]", "test_b[2]")):
        keep(tmp_path / ".tfperf", replace(session(number, 1000, ""), test=f"d/test_a.py::{name}"))
    assert cli.main(["bisect", text]) == 4
    assert fnmatchcase(capsys.readouterr().err, f"*{said.replace('[', '[[]')}*")
