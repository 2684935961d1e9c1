"""Each rank gives a trace; one that only lends its devices has no operations of its own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from launchers import LOCAL_SILENCE_SECONDS

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.workers.local import LocalLauncher


@pytest.mark.parametrize(("update", "have_ops"), [("collective", [True, True]), ("parameter_server", [True, False])])
def test_each_rank_that_computes_traces_its_operations(tmp_path: Path, update: str, have_ops: list[bool]) -> None:
    workload = Workload(model="trivial", batch_size=1, variable_update=update)
    job = Job(workload=workload, devices=Devices(kind=DeviceKind.CPU, count=1), nodes=2)
    launcher = LocalLauncher(logs=tmp_path, silence_seconds=LOCAL_SILENCE_SECONDS)
    with closing(launcher), closing(launcher.start(job, lambda _: None)) as training:
        training.request(2)
        training.receive()
        traces = training.trace(2)
    assert [bool(trace.ops) for trace in traces] == have_ops
