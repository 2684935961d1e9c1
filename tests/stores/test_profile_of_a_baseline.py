"""Which profile in the history is that of a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.profile import OpTime, Profile
from pytest_tfperf.core.verdict import NOTHING, Outcome
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import baseline, measurement, verdict

ROW = baseline(date="2026-01-02")
PROFILE = Profile(steps=20, ops=(OpTime(name="block/conv", type="Conv2D", seconds=0.001, count=1.0),))


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history.sqlite")


def test_a_baselines_profile_is_that_of_its_day(history: History) -> None:
    history.append(measurement(profile=PROFILE, recording=NOTHING))
    history.append(measurement(profile=Profile(steps=1), recording=NOTHING, time="2026-02-03T03:04:05+00:00"))
    assert history.earlier.profile_of(ROW) == PROFILE


def test_a_baseline_that_was_recorded_twice_in_a_day_has_the_later_profile(history: History) -> None:
    history.append(measurement(profile=Profile(steps=1), recording=NOTHING))
    history.append(measurement(profile=PROFILE, recording=NOTHING))
    assert history.earlier.profile_of(ROW) == PROFILE


@pytest.mark.parametrize(
    "other",
    [
        {"profile": None},
        {"verdict": verdict(Outcome.REGRESSED)},
        {"machine": "another"},
        {"topology": "1x4"},
        {"workload": Workload(model="vgg16", batch_size=64)},
    ],
)
def test_what_was_not_measured_for_a_baseline_is_no_profile_of_it(history: History, other: dict[str, Any]) -> None:
    history.append(measurement(**{"profile": PROFILE, "recording": NOTHING} | other))
    assert history.earlier.profile_of(ROW) is None


def test_a_baseline_without_a_date_has_no_profile(history: History) -> None:
    history.append(measurement(profile=PROFILE, recording=NOTHING))
    assert history.earlier.profile_of(baseline()) is None


def test_without_a_history_there_is_no_profile(history: History) -> None:
    assert history.earlier.profile_of(ROW) is None
