"""The command of a regression's message that accepts it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.message import next_commands
from tests.helpers.measurements import BUSY, measurement, pair, run_at, throughput, verdict

ACCEPT = "tfperf baselines accept test_a.py::test_b --session=s1 --baselines=/rows"
TAKE = "pytest test_a.py::test_b --tfperf-accept=test_a.py::test_b"


def slower(count: int, **more: Any) -> Measurement:
    rates = [900.0] * count
    given = {"runs": tuple(map(run_at, rates)), "verdict": verdict(Outcome.REGRESSED, -0.1)} | more
    return measurement(throughput(*rates), test="test_a.py::test_b", session="s1", **given)


@pytest.mark.parametrize(
    ("m", "command"),
    [
        pytest.param(slower(8), ACCEPT, id="enough free runs"),
        pytest.param(slower(5), TAKE, id="the first of five was picked because it was slow"),
        pytest.param(slower(8, runs=tuple(run_at(900.0, disturbance=BUSY) for _ in range(8))), TAKE, id="disturbed"),
        pytest.param(slower(1, pairs=tuple(pair(-0.1) for _ in range(8))), TAKE, id="runs of pairs"),
        pytest.param(slower(8, environment={"injected_slowdown": "0.1"}), None, id="slowed on purpose"),
    ],
)
def test_a_regression_names_the_command_that_its_runs_suffice_for(m: Measurement, command: str | None) -> None:
    commands = {line.label: line.text for line in next_commands(m, RerunCommand(folders=" --baselines=/rows"))}
    assert commands.get("accept") == command
