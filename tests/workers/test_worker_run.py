"""A training run over its channel: what it gives, and which error each kind of end becomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.profile import Input, OpTime, StepProfile, Trace
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import Hung, MeasurementError, OutOfMemory
from pytest_tfperf.workers.training_run import TrainingRun
from pytest_tfperf.workers.wire import Listener
from pytest_tfperf.workers.worker_run import Fault, WorkerRun
from tests.helpers.callers import joined
from tests.helpers.patience import PATIENCE_SECONDS, running, wait_for

READY = {
    "examples_per_step": 4,
    "unit": "images",
    "replicas": 1,
    "compile_seconds": 1.5,
    "fetches": True,
    "environment": {"tensorflow": "2.21.0"},
}
MESSAGE = {"job": "to train"}
JOB = Job(workload=Workload(model="trivial", batch_size=4), devices=Devices(kind=DeviceKind.CPU, count=1))


@dataclass
class Process:
    """A worker's process that has ended, and what was done to it."""

    status: int | None = 3
    pid: int = 4711
    is_here: bool = True
    done: list[str] = field(default_factory=list)

    def exit_status(self, timeout_seconds: float, /) -> int | None:
        self.done.append(f"waited {timeout_seconds:g} s")
        return self.status

    def end(self) -> None:
        self.done.append("ended")


class Started:
    """A run, and its worker's end of the channel, to which a test sends what a worker would."""

    def __init__(self, folder: Path, end: ExitStack) -> None:
        self._folder = folder
        self._end = end
        self.listener = end.enter_context(closing(Listener()))
        self.process = Process()
        self._driver, worker = joined(self.listener, {"hello": "worker"})
        self.worker = end.enter_context(closing(worker))
        self.phases: list[str] = []
        self.hangs: list[str] = []

    def called(self, *sent: dict[str, Any], silence: float = 60.0) -> WorkerRun:
        """A worker that has called, and has sent this."""
        scratch = self._folder / "scratch"
        scratch.mkdir()
        worker = WorkerRun(
            self.process,
            self._folder / "worker.log",
            scratch,
            MESSAGE,
            python="python",
            on_cpus=True,
            silence_seconds=silence,
            on_hang=lambda: self.hangs.append("hung"),
        )
        self._end.callback(worker.close)
        for message in sent:
            self.worker.send(message)
        worker.adopt(self._driver, self.phases.append)
        return worker

    def run(self, *sent: dict[str, Any], silence: float = 60.0) -> TrainingRun:
        return TrainingRun.of_job([self.called(*sent, silence=silence)], ["host"], JOB, silence)

    def ready(self, *sent: dict[str, Any], **more: Any) -> TrainingRun:
        return self.run({"phase": "model"}, {"phase": "compile"}, {"ready": READY}, *sent, **more)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    with ExitStack() as end:
        yield Started(tmp_path, end)


def window(steps: int) -> dict[str, Any]:
    return {"window": {"steps": steps, "seconds": steps / 10, "loss": 0.5}}


def test_a_run_that_is_ready_says_what_it_is(started: Started, tmp_path: Path) -> None:
    run = started.ready()
    assert (run.examples_per_step, run.compile_seconds, run.fetches) == (4, 1.5, True)
    assert (run.environment, run.log) == ({"tensorflow": "2.21.0"}, str(tmp_path / "worker.log"))
    assert started.phases == ["model", "compile"]


def test_a_step_profile_drops_the_window_that_is_still_queued(started: Started) -> None:
    profile = StepProfile(input=Input.FETCHED, pipeline_examples_per_sec=9.5)
    run = started.ready(window(1), {"step_profile": asdict(profile)})
    assert run.profile_step(matrix_products=True, multiply_adds=False) == profile
    asked = {"matrix_products": True, "multiply_adds": False}
    assert [started.worker.receive(PATIENCE_SECONDS) for _ in range(2)] == [MESSAGE, {"profile_step": asked}]


def test_a_step_that_exchanges_gradients_between_gpus_is_known_as_one(started: Started) -> None:
    run = started.ready({"step_profile": asdict(StepProfile(input=Input.RESIDENT, exchanges=True))})
    assert run.profile_step(matrix_products=False, multiply_adds=False).exchanges


ERROR = {"type": "ValueError", "message": "no", "below": [], "hint": "", "ours": False, "out_of_memory": True}


def test_a_worker_that_raises_names_the_phase_that_it_was_in(started: Started) -> None:
    with pytest.raises(OutOfMemory, match="the worker raised ValueError in phase 'model': no"):
        started.run({"phase": "model"}, {"error": ERROR})


def test_a_worker_without_tensorflow_names_the_python(started: Started) -> None:
    with pytest.raises(MeasurementError, match="python can't import TensorFlow: ImportError: no such library"):
        started.run({"failed": "ImportError: no such library"})


def test_a_worker_whose_connection_closes_has_died(started: Started) -> None:
    run = started.ready()
    started.worker.close()
    run.request(1)
    with pytest.raises(MeasurementError, match=r"the worker \(pid 4711\) exited with status 3 in phase 'steps'"):
        run.receive()


def test_a_silent_worker_hangs(started: Started) -> None:
    run = started.ready(silence=0.2)
    with pytest.raises(Hung, match=r"said nothing for 0\.2 s in phase 'steps'"):
        run.receive()
    assert started.hangs == ["hung"]


STALLING = """
import faulthandler, signal, sys, time

def stalling():
    print("ready", flush=True)
    time.sleep(600)

faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1], "a"))
stalling()
"""


def test_a_worker_that_hangs_shows_the_line_of_the_users_code(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_tfperf.workers.worker_run._STACKS_SECONDS", PATIENCE_SECONDS)
    run = started.ready(silence=0.2)
    (tmp_path / "nets.py").write_text(STALLING)
    with running(f"import runpy; runpy.run_path({str(tmp_path / 'nets.py')!r})", run.log) as process:
        assert process.stdout is not None
        process.stdout.readline()
        started.process.pid, started.process.status = process.pid, None
        with pytest.raises(Hung, match=f'lines of your code:\n  File "{tmp_path}/nets.py", line 6 in stalling\n'):
            run.receive()


def test_a_worker_on_another_machine_that_hangs_is_sent_no_signal(started: Started) -> None:
    run = started.ready(silence=0.2)
    with running("import time; print(flush=True); time.sleep(600)") as same_pid_here:
        assert same_pid_here.stdout is not None
        same_pid_here.stdout.readline()
        started.process.pid, started.process.status, started.process.is_here = same_pid_here.pid, None, False
        with pytest.raises(Hung):
            run.receive()
        assert same_pid_here.poll() is None


@pytest.mark.parametrize(
    ("error", "fault"),
    [({}, Fault.RAISED), ({"about_a_peer": False}, Fault.RAISED), ({"about_a_peer": True}, Fault.PEER)],
)
def test_an_error_that_another_rank_caused_is_told_from_its_own(
    started: Started, error: dict[str, bool], fault: Fault
) -> None:
    worker = started.called({"error": ERROR | error})
    with pytest.raises(MeasurementError):
        wait_for(worker.poll)
    assert worker.fault is fault


@pytest.mark.parametrize(("setting", "limit"), [(600.0, 90.0), (30.0, 30.0)])
def test_each_phase_has_a_limit_of_its_own_up_to_the_setting(started: Started, setting: float, limit: float) -> None:
    worker = started.called(silence=setting)
    worker.begin("peak memory", 60.0)
    worker.begin("step profile", 90.0)
    assert worker.silence_seconds == limit


def test_closing_ends_the_worker_and_its_temporary_files(started: Started, tmp_path: Path) -> None:
    started.ready().close()
    assert started.process.done == ["ended"]
    assert not (tmp_path / "scratch").exists()


def test_a_trace_is_asked_for_with_its_steps(started: Started) -> None:
    trace = Trace(host="vm", steps=3, ops=(OpTime(name="conv", type="Conv2D", seconds=0.1, count=1.0),), xspace="eA==")
    run = started.ready(window(1), {"trace": plain(trace)})
    assert run.trace(3) == (trace,)
    assert [started.worker.receive(PATIENCE_SECONDS) for _ in range(2)] == [MESSAGE, {"trace": 3}]


def test_a_profiler_that_hangs_is_given_up_after_a_minute_whatever_the_setting(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_tfperf.workers.training_run._PROFILE_SECONDS", 0.2)
    run = started.ready()
    with pytest.raises(Hung, match=r"said nothing for 0\.2 s in phase 'profile' and was killed\n"):
        run.trace(3)
