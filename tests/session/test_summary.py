"""What a session prints before its first test and after its last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.baseline import BaselineUpdate
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.settings import Update
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.errors import MeasurementError, WorkloadError
from pytest_tfperf.lines import Line
from pytest_tfperf.session.summary import after, before, refused
from tests.helpers.expected import SameTexts
from tests.helpers.machines import load
from tests.helpers.measurements import (
    NOISE,
    baseline,
    interleaved,
    measurement,
    session_verdict,
    throughput,
    verdict,
)
from tests.helpers.states import state_after, state_of

UNKNOWN_MODEL = WorkloadError("unknown model 'x'", next_step="Known: a, b.")
FAULTY = [
    SelectedTest(id="a.py::test[1]", faults=(UNKNOWN_MODEL,)),
    SelectedTest(id="a.py::test[2]", faults=(UNKNOWN_MODEL, WorkloadError("steps=0"))),
    *(SelectedTest(id=f"a.py::test[{number}]", cpu=True) for number in range(3, 41)),
]


def test_what_is_said_before_the_first_test(
    same_texts: SameTexts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_tfperf.bench.session.discover", lambda **_: load("no-gpu"))

    def said(name: str, tests: int, **settings: Any) -> list[str]:
        made = state_of(tmp_path / name, FAULTY[2 : 2 + tests], machine="h200", **settings)
        made.remarks.append("a remark")
        return before(made)

    same_texts(
        "before",
        {
            "a first session": said("first", 8),
            "the nightly gate has no doubts": said("nightly", 1, require_baseline=True),
            "a recording, whose runs may differ": said("recording", 1, update_baselines=Update.ALL),
            "all that may be special": said("special", 1, smoke=True, inject_slowdown=0.15, against=Path("/py")),
            "invalid parameters": refused(state_of(tmp_path, FAULTY)),
            "invalid parameters in brief": refused(state_of(tmp_path, FAULTY), in_brief=True),
        },
    )


# After the last test


def judged(outcome: Outcome, change: float = 0.0, **more: Any) -> Measurement:
    return measurement(throughput(1000.0 * (1 + change)), verdict=verdict(outcome, change, **more))


WIDENED = judged(Outcome.PASS, threshold=0.083, threshold_recorded=0.06)
WIDER = judged(Outcome.PASS, threshold=0.12, threshold_recorded=0.05)
UNKNOWN = measurement(verdict=Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE))
PASSED = judged(Outcome.PASS)
UNDER_LOAD = baseline(1000.0, note="recorded under load: other processes used 61 % of 2 cores (2 of 5 runs)")
RECORDED = (
    BaselineUpdate(baseline(1612.0), baseline(1402.0, between_runs=0.0123)),
    BaselineUpdate(None, baseline(7.25, between_runs=None)),
)
NOISY = replace(NOISE, between_sessions=0.004)
NAMES = ["h200", "2-nodes-local-h200", "h200"]


@pytest.fixture
def said(tmp_path: Path) -> Callable[..., list[Line | str]]:
    """The summary of a session that measured these."""

    def said_after(*measurements: Measurement, machine_is_red: bool = False, **settings: Any) -> list[Line | str]:
        made = state_after(tmp_path / str(len(list(tmp_path.iterdir()))), *measurements, **settings)
        made.verdicts += [session_verdict()] * machine_is_red
        return list(after(made, skips=True))

    return said_after


def with_faults(folder: Path) -> list[Line | str]:
    made = state_after(folder, PASSED, judged(Outcome.INCONCLUSIVE, -0.13), UNKNOWN)
    made.not_measured |= {test: MeasurementError("the worker died") for test in ("b", "c")}
    made.session.history_faults.append("the disk is full")
    made.skipped.update({"needs 2 GPUs": 1, "needs 4 GPUs": 63})
    made.interrupted = "b"
    return list(after(made, skips=True))


def with_recorded_rows(folder: Path) -> list[Line | str]:
    made = state_after(folder, measurement(), update_baselines=Update.ALL)
    made.recorder.changes += RECORDED
    return list(after(made, skips=True))


def under_xdist(folder: Path) -> list[Line | str]:
    made = state_of(folder)
    made.under_xdist = 3
    return list(after(made, skips=True))


def test_what_is_said_after_the_last_test(
    same_texts: SameTexts, tmp_path: Path, said: Callable[..., list[Line | str]]
) -> None:
    same_texts(
        "after",
        {
            "an improvement": said(judged(Outcome.IMPROVED, 0.13)),
            "an improvement slower than its baseline": said(judged(Outcome.IMPROVED, -0.41)),
            "an improvement on a red machine": said(judged(Outcome.IMPROVED, 0.13), machine_is_red=True),
            "recorded rows": with_recorded_rows(tmp_path / "recorded"),
            "a refused baseline": said(measurement(test="a"), measurement(test="b", is_refused=True)),
            "nothing was measured": said(require_baseline=True),
            "how much runs differ": said(PASSED, judged(Outcome.PASS, noise=NOISY), judged(Outcome.PASS, noise=NOISY)),
            "thresholds that widened": said(PASSED, WIDENED, WIDER),
            "a row that was recorded under load": said(judged(Outcome.PASS, baseline=UNDER_LOAD)),
            "two machines": said(*(measurement(verdict=verdict(), machine=name) for name in NAMES)),
            "comparisons": said(interleaved(None), interleaved(Outcome.INCONCLUSIVE)),
            "faults": with_faults(tmp_path / "faults"),
            "under pytest-xdist": under_xdist(tmp_path / "xdist"),
        },
    )


@pytest.mark.parametrize(("change", "is_doubted"), [(0.9, False), (6.0, True)])
def test_a_gain_that_a_lost_digit_may_explain_is_told_with_its_test(
    change: float, is_doubted: bool, said: Callable[..., list[Line | str]]
) -> None:
    gained = judged(Outcome.IMPROVED, change)
    doubt = f"{gained.test}: 7 times as fast as its baseline: if nothing explains that, correct the row"
    assert (doubt in said(gained)) is is_doubted
