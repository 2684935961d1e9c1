"""Workers, a guard and an observer that play a script, for tests of what drives them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pytest_tfperf.bench.disturbance_guard import Observation
from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.profile import Input, OpTime, StepProfile, Trace
from pytest_tfperf.core.run import Plan, Run, StepParts, Window
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.training_run import OfRank

TRIVIAL = Workload(model="trivial", batch_size=1)
BOX = Topology(
    host=Host(cpu_model="a CPU", usable_cores=1, total_cores=1),
    devices=Devices(kind=DeviceKind.CPU, count=1),
    machine_name="box",
)
PLAN = Plan(steps=40, warmup_steps=1)
BUSY = Disturbance(DisturbanceKind.OTHER_PROCESSES, 0.9, cores=2)


@dataclass(kw_only=True)
class PlayedRun:
    """A worker whose steps take `step_seconds(step)`."""

    step_seconds: Callable[[int], float]
    name: str = ""
    loss: float = 1.0
    examples_per_step: int = 1
    unit: str = "images"
    compile_seconds: float = 1.0
    first_step: OfRank = OfRank(1.0, "")
    fetches: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: {"tensorflow": "2.21.0"})
    log: str = "worker.log"
    profile: StepProfile = field(default_factory=lambda: StepProfile(input=Input.RESIDENT))
    dies_after: int = 10**9
    diary: list[str] = field(default_factory=list)
    queued: list[int] = field(default_factory=list)
    queued_at_answer: list[int] = field(default_factory=list)
    asked_for_profile: list[tuple[bool, bool]] = field(default_factory=list)
    steps: int = 0
    on_close: Callable[[], None] = lambda: None
    pids: tuple[int, ...] = ()
    taken: int = 1
    note: str = ""
    why_not_held: str = ""
    is_held: bool = False
    parts: StepParts | None = None

    def step_parts(self, windows: int) -> StepParts | None:
        return self.parts

    def not_counted(self, windows: int) -> str:
        return ""

    def hold(self) -> None:
        assert not self.queued, "it is held while an answer is waited for"
        self.is_held = True

    def request(self, steps: int) -> None:
        self.is_held = False
        self.queued.append(steps)

    def receive(self) -> Window:
        if len(self.queued_at_answer) == self.dies_after:
            raise MeasurementError("the worker died")
        self.queued_at_answer.append(len(self.queued))
        self.diary.append(self.name)
        steps = self.queued.pop(0)
        seconds = sum(self.step_seconds(self.steps + i) for i in range(steps))
        self.steps += steps
        return Window(steps, seconds, self.loss)

    def figures(self, names: Sequence[str]) -> Mapping[str, OfRank]:
        """Nothing tells the memory here."""
        return {"first_step": self.first_step} if "first_step" in names else {}

    def printed(self) -> Mapping[str, OfRank]:
        """It prints nothing."""
        return {}

    def profile_step(self, *, matrix_products: bool, multiply_adds: bool) -> StepProfile:
        self.asked_for_profile.append((matrix_products, multiply_adds))
        return self.profile

    def trace(self, steps: int) -> tuple[Trace, ...]:
        conv = OpTime(name="block/conv", type="Conv2D", seconds=self.step_seconds(self.steps), count=1.0)
        empty = base64.b64encode(zlib.compress(b"")).decode()
        return (Trace(host="vm", steps=steps, ops=(conv,), xspace=empty),)

    def close(self) -> None:
        self.on_close()


@dataclass
class Machine:
    """What the workers of several launchers share: who is alive, and what happened in which order."""

    room: int = 2
    alive: list[str] = field(default_factory=list)
    most_alive: int = 0
    diary: list[str] = field(default_factory=list)


@dataclass(eq=False)  # the bench keeps things by launcher
class PlayedLauncher:
    """Its workers give these images/s, or fail so, one after the other; the last one repeats."""

    script: tuple[float | Exception, ...]
    name: str = ""
    machine: Machine = field(default_factory=Machine)
    profile: StepProfile = field(default_factory=lambda: StepProfile(input=Input.RESIDENT))
    loss: float = 1.0
    log: str = "worker.log"
    unit: str = "images"
    jobs: list[Job] = field(default_factory=list)

    @property
    def started(self) -> int:
        return len(self.jobs)

    def start(self, job: Job, progress: Callable[[str], None]) -> PlayedRun:
        machine = self.machine
        if len(machine.alive) >= machine.room:
            raise MeasurementError("the worker raised ResourceExhaustedError", "its log")
        self.jobs.append(job)
        now = self.script[min(self.started, len(self.script)) - 1]
        if isinstance(now, Exception):
            raise now
        machine.alive.append(self.name)
        machine.most_alive = max(machine.most_alive, len(machine.alive))
        machine.diary.append(f"start {self.name}")
        seconds = 1 / now
        return PlayedRun(
            step_seconds=lambda _: seconds,
            name=self.name,
            loss=self.loss,
            log=self.log,
            unit=self.unit,
            profile=self.profile,
            diary=machine.diary,
            on_close=lambda: machine.alive.remove(self.name),
        )


def steady(*script: float | Exception, **more: object) -> PlayedLauncher:
    """A launcher of steady workers."""
    return PlayedLauncher(script, **more)  # type: ignore[arg-type]


@dataclass
class PlayedGuard:
    """Sees these disturbances, run after run, and none afterwards."""

    script: list[Disturbance | None] = field(default_factory=list)
    limits: DisturbanceLimits = DisturbanceLimits()

    def before(self, gpu_uuids: Iterable[str]) -> None: ...

    @contextmanager
    def watching(self, gpu_uuids: Iterable[str] = (), pids: Collection[int] = ()) -> Iterator[Observation]:
        seen = Observation()
        yield seen
        seen.disturbance = self.script.pop(0) if self.script else None


@dataclass
class Notes:
    """An observer that keeps what it is told."""

    labels: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    windows: list[Run] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def begin(self, label: str) -> None:
        self.labels.append(label)

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def notice(self, text: str) -> None:
        self.phases.append(text)

    def window(self, run: Run, plan: Plan) -> None:
        self.windows.append(run)

    def ended(self, run: Run) -> None:
        self.runs.append(run)

    def disturbed(self, disturbance: Disturbance) -> None:
        pass

    def done(self) -> None:
        pass
