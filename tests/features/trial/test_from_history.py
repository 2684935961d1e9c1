"""Which sessions of a history count as a trial, and which of their failures as false."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.trial import Trial
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.trial.from_history import trial_of_history
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import measurement, verdict

PASS, RED = Outcome.PASS, Outcome.REGRESSED
SAME = {"commit": "a" * 40, "environment": {"tensorflow": "2.21.0"}}


def trial(folder: Path, *sessions: tuple[Outcome, dict[str, Any]]) -> Trial:
    history = History(folder / "history.sqlite")
    for number, (outcome, more) in enumerate(sessions):
        for test, of_test in (("t.py::a", outcome), ("t.py::b", PASS)):
            when = f"2026-03-{number + 1:02}T03:00:00+00:00"
            one = measurement(test=test, session=f"s{number}", time=when, verdict=verdict(of_test), **more)
            history.append(one)
    return trial_of_history(history, None)


def failures(found: Trial) -> int:
    return sum(session.failed_falsely for session in found.sessions)


def test_a_failure_that_came_and_went_with_the_same_code_is_false(tmp_path: Path) -> None:
    found = trial(tmp_path, (PASS, SAME), (RED, SAME), (PASS, SAME))
    assert (len(found.sessions), failures(found)) == (2, 1)


def test_a_failure_that_stays_is_a_loss_found_late(tmp_path: Path) -> None:
    found = trial(tmp_path, (PASS, SAME), (RED, SAME), (RED, SAME))
    assert (len(found.sessions), failures(found)) == (2, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"commit": "b" * 40},
        {"environment": {"tensorflow": "2.22.0"}},
        {"commit": f"{'a' * 40}-dirty"},
        {"commit": ""},
    ],
    ids=["another commit", "another version", "uncommitted changes", "no repository"],
)
def test_a_session_of_changed_code_does_not_count(changed: dict[str, Any], tmp_path: Path) -> None:
    found = trial(tmp_path, (PASS, SAME), (PASS, SAME), (RED, SAME | changed))
    assert (len(found.sessions), failures(found)) == (1, 0)


def test_sessions_that_were_slowed_down_on_purpose_do_not_count(tmp_path: Path) -> None:
    slowed = SAME | {"environment": {"tensorflow": "2.21.0", "injected_slowdown": "0.1"}}
    found = trial(tmp_path, (PASS, SAME), (RED, slowed), (PASS, SAME))
    assert (len(found.sessions), failures(found)) == (1, 0)


def test_a_history_whose_code_always_changed_is_no_trial(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match="none of 2 sessions of box ran the same commit"):
        trial(tmp_path, (PASS, SAME), (PASS, SAME | {"commit": "b" * 40}))
