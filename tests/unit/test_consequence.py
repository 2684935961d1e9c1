"""What an outcome does to its test, and what the session's exit status says."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.core.consequence import Consequence, consequence, exit_status
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.core.workload import Workload

PLAIN = {"require_baseline": False, "strict": False}
NIGHTLY = {"require_baseline": True, "strict": False}
STRICT = {"require_baseline": False, "strict": True}


def measured(outcome: Outcome | None, **verdict: Any) -> Measurement:
    runs = (Run(windows=(Window(1, 0.1),), images_per_step=1),)
    return Measurement(
        test="test_a.py::test_it",
        workload=Workload(model="trivial", batch_size=1),
        topology="1x1",
        machine="box",
        devices="the CPU",
        runs=runs,
        throughput=summarise(runs),
        verdict=Verdict(outcome=outcome, reason=Reason.WITHIN_TOLERANCE, **verdict) if outcome else None,
    )


@pytest.mark.parametrize(
    ("outcome", "plain", "nightly", "strict"),
    [
        (Outcome.PASS, Consequence.PASSES, Consequence.PASSES, Consequence.PASSES),
        (Outcome.IMPROVED, Consequence.PASSES, Consequence.PASSES, Consequence.PASSES),
        (Outcome.REGRESSED, Consequence.FAILS, Consequence.FAILS, Consequence.FAILS),
        (Outcome.INVALID, Consequence.ERRORS, Consequence.ERRORS, Consequence.ERRORS),
        (Outcome.INCONCLUSIVE, Consequence.WARNS, Consequence.WARNS, Consequence.FAILS),
        (Outcome.NO_BASELINE, Consequence.SKIPS, Consequence.FAILS, Consequence.SKIPS),
        (None, Consequence.PASSES, Consequence.PASSES, Consequence.PASSES),
    ],
)
def test_an_outcome_does_to_its_test_what_design_says(
    outcome: Outcome | None, plain: Consequence, nightly: Consequence, strict: Consequence
) -> None:
    result = measured(outcome)
    assert [consequence(result, **options) for options in (PLAIN, NIGHTLY, STRICT)] == [plain, nightly, strict]


def test_a_pass_above_a_floor_only_fails_the_nightly_gate() -> None:
    result = measured(Outcome.PASS, is_floor=True)
    assert consequence(result, **PLAIN) is Consequence.PASSES
    assert consequence(result, **NIGHTLY) is Consequence.FAILS


@pytest.mark.parametrize(
    ("status", "happened", "becomes"),
    [
        (0, {}, 0),
        (1, {"failed": 1}, 1),
        (1, {"not_measured": 1}, 6),
        (1, {"failed": 1, "not_measured": 1}, 1),  # a regression is more serious
        (1, {}, 1),  # another plugin's failure
        (0, {"measured_nothing": True}, 6),
        (1, {"failed": 1, "measured_nothing": True}, 1),
        (0, {"machine_slower": True}, 7),
        (1, {"not_measured": 1, "machine_slower": True}, 7),
        (1, {"failed": 1, "machine_slower": True}, 1),
        (5, {"measured_nothing": True}, 5),  # pytest says itself that nothing was collected
        (2, {"not_measured": 1}, 2),  # interrupted
        (3, {"not_measured": 1}, 3),
    ],
)
def test_the_exit_status_tells_regressed_machine_and_not_measured_apart(
    status: int, happened: dict[str, Any], becomes: int
) -> None:
    assert exit_status(status, **{"failed": 0, "not_measured": 0} | happened) == becomes
