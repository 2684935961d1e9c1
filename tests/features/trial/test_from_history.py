"""Which sessions of a history count as a trial, and which of their failures as false."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.trial.answer import answer
from pytest_tfperf.features.trial.sessions import trial_of_history
from pytest_tfperf.features.trial.trial import Trial
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import measurement, throughput, verdict

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


def noise(folder: Path, *changes: float) -> Any:
    """The noise of a test whose sessions, all of the same code, differ by these changes from its baseline."""
    history = History(folder / "history.sqlite")
    for number, change in enumerate(changes):
        outcome = verdict(Outcome.IMPROVED if change > 0.05 else PASS, change)
        rate = throughput(1000 * (1 + change))
        when = f"2026-03-{number + 1:02}T03:00:00+00:00"
        history.append(measurement(rate, test="t.py::a", session=f"s{number}", time=when, verdict=outcome, **SAME))
    return answer(trial_of_history(history, None)).tests["t.py::a"]


QUIET = [0.002 * (-1) ** number for number in range(12)]


@pytest.mark.parametrize("gains", [12 * [0.0], 12 * [0.06], 6 * [0.0] + 6 * [0.06], 12 * [-0.03]])
def test_a_gain_or_a_loss_that_stays_is_no_noise(gains: list[float], tmp_path: Path) -> None:
    found = noise(tmp_path, *(gain + change for gain, change in zip(gains, QUIET, strict=True)))
    assert found.holds is not None
    assert (found.holds < 0.05, found.is_too_noisy) == (True, False)


def test_a_test_whose_sessions_differ_is_too_noisy(tmp_path: Path) -> None:
    assert noise(tmp_path, *(15 * change for change in QUIET)).is_too_noisy


def test_sessions_that_were_slowed_down_on_purpose_do_not_count(tmp_path: Path) -> None:
    slowed = SAME | {"environment": {"tensorflow": "2.21.0", "injected_slowdown": "0.1"}}
    found = trial(tmp_path, (PASS, SAME), (RED, slowed), (PASS, SAME))
    assert (len(found.sessions), failures(found)) == (1, 0)


def test_a_history_whose_code_always_changed_is_no_trial(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match="none of 2 sessions of box ran the same commit"):
        trial(tmp_path, (PASS, SAME), (PASS, SAME | {"commit": "b" * 40}))


def test_uncommitted_changes_are_never_the_same_code(tmp_path: Path) -> None:
    dirty = SAME | {"commit": f"{'a' * 40}-dirty"}
    with pytest.raises(TfperfError, match="none of 2 sessions of box ran the same commit"):
        trial(tmp_path, (PASS, dirty), (RED, dirty))
