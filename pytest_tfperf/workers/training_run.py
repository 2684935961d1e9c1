"""A training run in a worker process, or in several that train together: the ranks."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Self

from pytest_tfperf.core.job import Cluster, Job
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import StepProfile, Trace
from pytest_tfperf.core.run import StepParts, Window
from pytest_tfperf.core.workload import VariableUpdate
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.worker_run import Fault, WorkerRun

# After a rank has failed, the driver waits so long for errors of the others. Healthy ranks fail within a second.
_BLAME_SECONDS = 3.0

# An exchange fails after this part of the time that a rank may be silent. So the healthy ranks report an error before
# the driver gives up on all of them, and the silent rank is known.
_EXCHANGE_FRACTION = 0.75

# A rank is to blame if it has been silent for this long, or for this part of the time that it may be silent. A rank
# that was heard later may just be slow to notice that another is gone: TensorFlow misses the heartbeats of a stopped
# rank after 10 s.
_SILENT_SECONDS, _SILENT_FRACTION = 7.0, 0.25

# A pipeline that ends or stalls during a profile must not delay the session: the windows are already measured.
_PROFILE_SECONDS = 60.0

# The relative difference of two ranks' losses: both are the mean of the same numbers, but GPUs may round differently.
_SAME_LOSS = 1e-3


class OfRank(NamedTuple):
    """A rank's value of a figure."""

    value: float  # in the figure's unit
    rank: str  # its name; "" for a single worker
    place: str = ""  # where a program printed it, as in `Run.figure_places`; "" for a measured figure


class TrainingRun:
    """Training that is compiled and ready, in a worker or in several ranks, and runs windows of steps on request.

    All ranks take the same windows, and the slowest one counts. Always request the next window before you read an
    answer. While a worker is idle, its input pipeline fills its buffers, and the next window would be too fast.

    Args:
        workers: the processes, by rank; each has called and got its job.
        hosts: those of the ranks of a distributed job, by rank; () for others.
        lends: whether the ranks but the first only lend their devices to it.
        replicas: the number that must train together; None where nobody knows.
        end: called after all workers have been closed.

    Raises:
        MeasurementError: as `receive`.
    """

    def __init__(
        self,
        workers: Sequence[WorkerRun],
        silence_seconds: float,
        *,
        hosts: Sequence[str] = (),
        lends: bool = False,
        replicas: int | None = None,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._workers = workers
        self._lends = lends
        self._end = end
        self._silence_seconds = silence_seconds
        self._heard = dict.fromkeys(workers, time.monotonic())
        self.log = workers[0].log
        if hosts:
            addresses, timeout = self._answers("address"), silence_seconds * _EXCHANGE_FRACTION
            cluster = Cluster(rank=0, addresses=tuple(addresses), hosts=tuple(hosts), timeout_seconds=timeout)
            for rank, worker in enumerate(workers):
                worker.send({"cluster": plain(replace(cluster, rank=rank))})
        ready = self._answers("ready")
        for worker in workers:
            worker.begin("steps")
        # A rank that only lends its devices to rank 0 sees no batch, so it can't count the tokens.
        counting = ready[:1] if self._lends else ready
        # Batch size times replicas, over all nodes, in units ("images", "tokens", ...).
        self.examples_per_step: int = self._agreed("examples_per_step", counting)
        self.unit: str = ready[0]["unit"]
        together = self._agreed("replicas", ready)
        if replicas is not None and together != replicas:
            raise MeasurementError(
                f"{together} replicas train together, not one on each of {replicas} devices: some did not join",
                next_step=f"The log of rank 0: {self.log}",
            )
        self.taken: int = ready[0].get("steps", 1)  # steps before the first window
        # Duration of the first call: tracing, compiling and one step.
        self.compile_seconds: float = max(map(itemgetter("compile_seconds"), ready))
        self.fetches: bool = ready[0]["fetches"]  # whether each step takes its batch from an input pipeline
        self.environment: Mapping[str, str] = ready[0]["environment"]  # versions and settings, by name
        self.modules: Mapping[str, str] = ready[0].get("modules", {})  # -> its file, where the job asks for it

    @classmethod
    def of_job(
        cls,
        workers: Sequence[WorkerRun],
        hosts: Sequence[str],
        job: Job,
        silence_seconds: float,
        end: Callable[[], None] = lambda: None,
    ) -> Self:
        """The training of a job, whose ranks run on these hosts; the rest is as for the class."""
        return cls(
            workers,
            silence_seconds,
            hosts=hosts if job.is_distributed else (),
            lends=job.workload.variable_update is VariableUpdate.PARAMETER_SERVER,
            replicas=job.nodes * job.devices.count if job.is_distributed else None,
            end=end,
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of its processes on this machine."""
        return tuple(pid for worker in self._workers for pid in worker.pids)

    note = ""
    """What a reader should know of how it is counted."""

    def step_parts(self, windows: int) -> StepParts | None:  # noqa: ARG002  a worker profiles its step instead
        """The parts of a step in the last windows; None where they are not known."""
        return None

    def not_counted(self, windows: int) -> str:  # noqa: ARG002  a worker does nothing else
        """What it did in the last windows beside the steps that count, in words."""
        return ""

    @property
    def why_not_held(self) -> str:
        """Why it may not wait between two windows, as for those of another training; "" where it may."""
        return ""

    def hold(self) -> None:
        """Keep it from doing anything until the next request; call it when no answer is waited for.

        A worker only waits: nothing that fetches data ahead is held.
        """

    def request(self, steps: int) -> None:
        """Queue a window of `steps` steps; returns at once."""
        for worker in self._workers:
            worker.send({"steps": steps})

    def receive(self) -> Window:
        """The result of the oldest requested window, which lasts as long as that of the slowest rank.

        Raises:
            MeasurementError: a worker raised, died or hung; names the rank to blame, the phase and the cause, and shows
                the log's end. `OutOfMemory` if memory was short. Also if the ranks' losses differ: then they do not
                train one model.
        """
        return self._window(self._answers("window"))

    def _window(self, windows: Sequence[Mapping[str, Any]]) -> Window:
        """The window of all ranks."""
        first = windows[0]["loss"]
        if first is not None and math.isfinite(first):
            # A rank that only lends its devices has no loss.
            losses = [window["loss"] for window in windows if window["loss"] is not None or not self._lends]
            if not all(loss is not None and math.isclose(loss, first, rel_tol=_SAME_LOSS) for loss in losses):
                self._agreed("loss", windows)
        seconds = max(map(itemgetter("seconds"), windows))
        return Window(steps=self._agreed("steps", windows), seconds=seconds, loss=first)

    def profile_step(self, *, matrix_products: bool, multiply_adds: bool) -> StepProfile:
        """The profile of a step; a fact that the workers can't measure is None.

        Call it after the last window was read: windows that are still queued are dropped. It may be called again.

        Args:
            matrix_products: also time matrix products, on the first device alone.
            multiply_adds: also count the model's multiply-adds.

        Raises:
            MeasurementError: a worker raised, died, or was silent for a minute and for twice as long as it compiled.
        """
        # Ranks compile their step once more, without the exchange.
        limit = max(_PROFILE_SECONDS, 2 * self.compile_seconds)
        for worker in self._workers:
            worker.begin("step profile", limit)
            worker.send({"profile_step": {"matrix_products": matrix_products, "multiply_adds": multiply_adds}})
        profiles = [build(StepProfile, answer, "step profile") for answer in self._answers("step_profile")]
        pipelines = _known(profiles, "pipeline_examples_per_sec")
        core_seconds = _known(profiles, "pipeline_core_seconds_per_example")
        products = _known(profiles, "products_multiply_adds_per_sec")
        return replace(
            profiles[0],
            # Each rank reports the rate of all ranks together as if they were as fast as itself.
            pipeline_examples_per_sec=min(pipelines, default=None),
            pipeline_core_seconds_per_example=sum(core_seconds) if core_seconds else None,
            products_multiply_adds_per_sec=sum(products) if products else None,
            ranks=tuple(profile.ranks[0] for profile in profiles) if all(profile.ranks for profile in profiles) else (),
        )

    def figures(self, names: Sequence[str]) -> Mapping[str, OfRank]:
        """The largest value of each figure among the ranks; a figure that a rank can't measure is left out.

        Call it after the last window was read, as `profile_step`.

        Raises:
            MeasurementError: a worker raised, died, or was silent for a minute.
        """
        for worker in self._workers:
            worker.begin("figures", _PROFILE_SECONDS)
            worker.send({"figures": list(names)})
        answers = self._answers("figures")
        values = {name: [answer[name] for answer in answers] for name in names}
        return {
            name: OfRank(float(max(known)), self._workers[known.index(max(known))].name if len(known) > 1 else "")
            for name, known in values.items()
            if None not in known
        }

    def printed(self) -> Mapping[str, OfRank]:
        """The figures that a user's program has printed; call it after `figures`.

        Raises:
            MeasurementError: it printed none where one must be, or what can't be a value.
        """
        return {}

    def trace(self, steps: int) -> tuple[Trace, ...]:
        """Run this many steps under TensorFlow's profiler; returns each process's trace, rank 0 first.

        Raises:
            MeasurementError: a worker raised, died, or was silent for a minute.
        """
        for worker in self._workers:
            worker.begin("profile", _PROFILE_SECONDS)
            worker.send({"trace": steps})
        return tuple(build(Trace, answer, "trace") for answer in self._answers("trace"))

    def close(self) -> None:
        """End the workers and all that they started; never raises."""
        with ExitStack() as end:
            end.callback(self._end)
            for worker in self._workers:
                end.callback(worker.close)

    def _answers(self, kind: str) -> list[Any]:
        """The next answer of this kind from every rank, by rank."""
        answers: dict[WorkerRun, Any] = {}
        limit = min(worker.silence_seconds for worker in self._workers)
        deadline = time.monotonic() + limit
        while waiting := [worker for worker in self._workers if worker not in answers]:
            ready = self._wait(waiting, deadline - time.monotonic())
            if not ready:
                raise self._silent(waiting)
            deadline = time.monotonic() + limit
            for worker in ready:
                try:
                    message = worker.poll()
                except MeasurementError as error:
                    raise self._to_blame(worker, error) from None
                self._heard[worker] = time.monotonic()
                if message is not None and kind in message:
                    answers[worker] = message[kind]
        return [answers[worker] for worker in self._workers]

    def _wait(self, waiting: Sequence[WorkerRun], seconds: float) -> list[WorkerRun]:
        """Wait until some workers have sent something or are gone, at most so many seconds; returns these."""
        return _readable(waiting, seconds)

    def _silent(self, waiting: Sequence[WorkerRun]) -> MeasurementError:
        """The error when none of these ranks answers any more: the one that has been silent longest is to blame.

        A rank that lends its devices to rank 0 can block rank 0 although it has answered, so ask it again.
        """
        lending = self._workers[1:] if self._lends else ()
        gone = [worker for worker in lending if not self._answers_at_once(worker)]
        blamed = gone[0] if gone else min(waiting, key=self._heard.__getitem__)
        others = [worker for worker in waiting if worker is not blamed]
        error = blamed.silent()
        return error.at("", f"nor did {_names(others)}; it was heard last") if others else error

    def _answers_at_once(self, worker: WorkerRun) -> bool:
        """Whether a rank that only lends its devices is healthy: then it is idle, and answers at once."""
        while _readable([worker], 0):
            worker.poll()
        worker.send({"steps": 1})
        return bool(_readable([worker], min(_BLAME_SECONDS, self._silence_seconds)))

    def _to_blame(self, first: WorkerRun, error: MeasurementError) -> MeasurementError:
        """The error of the rank to blame, when `first` was the first to fail.

        The rank to blame raised an error of its own; else its connection broke first; else it has been silent for long.
        Healthy ranks fail too, because they miss the failed one. TensorFlow reports an exchange that got no answer in
        time as an error, and sometimes crashes over it: a rank that is lost then is healthy, too.
        """
        has_waited = time.monotonic() - self._heard[first] >= self._silence_seconds * _EXCHANGE_FRACTION
        errors = {first: error}
        quiet = [worker for worker in self._workers if worker is not first]
        deadline = time.monotonic() + min(_BLAME_SECONDS, self._silence_seconds)
        while quiet and all(worker.fault is not Fault.RAISED for worker in errors):
            ready = _readable(quiet, deadline - time.monotonic())
            if not ready:
                break
            for worker in ready:
                try:
                    worker.poll()
                except MeasurementError as another:
                    errors[worker] = another
                    quiet.remove(worker)
        blamed = min(errors, key=attrgetter("fault"))  # among equal faults the first that was noted
        has_crashed_waiting = blamed is first and has_waited and first.fault is Fault.LOST
        if not quiet or not (has_crashed_waiting or blamed.fault is Fault.PEER):
            return errors[blamed]
        longest = min(quiet, key=self._heard.__getitem__)
        silence = time.monotonic() - self._heard[longest]
        if silence >= min(_SILENT_SECONDS, _SILENT_FRACTION * self._silence_seconds):
            return longest.silent(round(silence, 1)).at("", f"and so {errors[blamed].fact}")
        return errors[blamed].at("", f"nothing was heard of {_names(quiet)} meanwhile")

    def _agreed(self, name: str, answers: Sequence[Mapping[str, Any]]) -> Any:
        """The item that is the same in the answers of all ranks."""
        values = list(map(itemgetter(name), answers))
        if values.count(values[0]) == len(values):
            return values[0]
        each = ", ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
        raise MeasurementError(
            f"the ranks do not train one model: they differ in {name.replace('_', ' ')} ({each})",
            next_step=f"Do all of them have the same code, and the same TensorFlow? The log of rank 0: {self.log}",
        )


def _readable(workers: Sequence[WorkerRun], seconds: float) -> list[WorkerRun]:
    """Wait until some workers have sent something or are gone, at most so many seconds; returns these workers."""
    if read := [worker for worker in workers if worker.channel.has_message]:
        return read
    by_file = {worker.channel.fileno(): worker for worker in workers}
    poll = select.poll()  # `select.select` takes no file beyond the 1,024th
    for file in by_file:
        poll.register(file, select.POLLIN)
    return [by_file[file] for file, _ in poll.poll(max(0.0, seconds) * 1000)]


def _names(workers: Sequence[WorkerRun]) -> str:
    return ", ".join(worker.name for worker in workers)


def _known(profiles: Sequence[StepProfile], name: str) -> list[float]:
    return [value for profile in profiles if (value := getattr(profile, name)) is not None]


def rank_name(rank: int, ranks: int, host: str) -> str:
    """A rank's name in messages."""
    return f"rank {rank} of {ranks} on {host}"
