"""However a measurement ends, nothing of its progress is left on the screen; here its worker can't start."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from pytest_tfperf.bench.comparing import Side, compare
from pytest_tfperf.bench.one_run import RunEngine
from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.reports.live import LiveLine
from pytest_tfperf.settings import Settings
from pytest_tfperf.workers.launcher import Job, Progress

WORKLOAD = Workload(model="trivial", batch_size=1)
BOX = Topology(
    host=Host(cpu_model="a CPU", usable_cores=1, total_cores=1), devices=Devices(kind=DeviceKind.CPU, count=1)
)
GONE = "\x1b[K"  # the line cleared to its end, and nothing written


class Refusing:
    """A launcher without TensorFlow."""

    def start(self, job: Job, progress: Progress) -> NoReturn:
        progress("start")
        raise MeasurementError("can't import TensorFlow")

    def close(self) -> None:
        pass


def test_a_measurement_that_can_not_start_leaves_no_progress(tmp_path: Path) -> None:
    written: list[str] = []
    attempts = RunEngine(Refusing(), Settings(root=tmp_path), LiveLine(write=written.append))
    with pytest.raises(MeasurementError):
        attempts.one(WORKLOAD, BOX, Plan())
    assert written[-1] == GONE


@pytest.mark.parametrize("pipeline", ["device", "host"], ids=["in turns", "run by run"])
def test_a_comparison_that_can_not_start_leaves_no_progress(pipeline: str) -> None:
    written: list[str] = []
    side = Side(workload=WORKLOAD.with_(input_pipeline=pipeline), launcher=Refusing())
    with pytest.raises(MeasurementError):
        compare(side, side, BOX, Plan(), Tolerance(), LiveLine(write=written.append))
    assert written[-1] == GONE
