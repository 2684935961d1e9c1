"""A training run in several processes, the ranks: they take the same windows, and the slowest one counts."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pytest_tfperf.core.cluster import Cluster
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import Trace
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.step_profile import StepProfile
from pytest_tfperf.core.workload import VariableUpdate
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.worker_run import Fault, WorkerRun, window_of

# How long the other ranks have to say what they know when one has failed. Those that are well fail within a second.
_BLAME_SECONDS = 3.0

# An exchange that takes longer than this part of the time a rank may be silent fails: so the ranks that are well
# report before the driver gives all of them up, and the one that is silent is known.
_EXCHANGE_FRACTION = 0.75

# A rank that was heard later than this, or than this part of that time ago, may just be slow to notice that another is
# gone. TensorFlow itself misses the heartbeats of a rank that is stopped after 10 s.
_SILENT_SECONDS, _SILENT_FRACTION = 7.0, 0.25

# Of two ranks' losses. They are the same mean of the same numbers, yet two kinds of GPU may round differently.
_SAME_LOSS = 1e-3


class RanksRun:
    """A `TrainingRun` in several ranks.

    Args:
        ranks: the processes, by rank; each has called, and has its job.
        hosts: the name of each rank's host.
        job: what they train together.
        silence_seconds: ranks that send nothing for so long hang.
        end: called after all ranks have been closed.

    Raises:
        MeasurementError: as `TrainingRun.receive`, for the rank to blame; names it and its host.
    """

    def __init__(
        self,
        ranks: Sequence[WorkerRun],
        hosts: Sequence[str],
        job: Job,
        silence_seconds: float,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._ranks = ranks
        self._lends = job.workload.variable_update is VariableUpdate.PARAMETER_SERVER
        self._end = end
        self._silence_seconds = silence_seconds
        self._heard = dict.fromkeys(range(len(ranks)), time.monotonic())
        self.log = ranks[0].log
        addresses = self._answers("address")
        for rank, one in enumerate(ranks):
            cluster = Cluster(
                rank=rank,
                addresses=tuple(addresses),
                hosts=tuple(hosts),
                timeout_seconds=silence_seconds * _EXCHANGE_FRACTION,
            )
            one.send({"cluster": plain(cluster)})
        for one, ready in zip(ranks, self._answers("ready"), strict=True):
            one.note_ready(ready)
        # A rank that lends its devices sees no batch, and so can't know its tokens.
        counting = ranks[:1] if self._lends else ranks
        self.examples_per_step = self._agreed("examples per step", [one.examples_per_step for one in counting])
        self.unit = ranks[0].unit
        replicas = self._agreed("replicas", [one.replicas for one in ranks])
        if replicas != job.nodes * job.devices.count:
            raise MeasurementError(
                f"{replicas} replicas train together, not one on each of {job.nodes} x {job.devices.count} devices: "
                f"some did not join. The log of rank 0: {self.log}"
            )
        self.compile_seconds = max(one.compile_seconds for one in ranks)
        self.fetches = ranks[0].fetches
        self.environment = ranks[0].environment

    @property
    def pids(self) -> tuple[int, ...]:
        """See `TrainingRun.pids`."""
        return tuple(pid for rank in self._ranks for pid in rank.pids)

    def request(self, steps: int) -> None:
        """See `TrainingRun.request`."""
        for rank in self._ranks:
            rank.request(steps)

    def receive(self) -> Window:
        """See `TrainingRun.receive`; the window lasts as long as that of its slowest rank.

        Raises:
            MeasurementError: also where the ranks' losses differ: they do not train one model.
        """
        windows = [window_of(answer) for answer in self._answers("window")]
        losses = [window.loss for window in windows]
        first = losses[0]
        if first is not None and math.isfinite(first) and not all(self._is_same(loss, first) for loss in losses):
            self._agreed("loss", losses)
        return Window(
            steps=self._agreed("steps", [window.steps for window in windows]),
            seconds=max(window.seconds for window in windows),
            loss=first,
        )

    def profile_step(self, *, matrix_products: bool, multiply_adds: bool) -> StepProfile:
        """See `TrainingRun.profile_step`."""
        for rank in self._ranks:
            rank.request_profile(matrix_products=matrix_products, multiply_adds=multiply_adds)
        profiles = [build(StepProfile, answer, "step profile") for answer in self._answers("step_profile")]
        first = profiles[0]
        pipelines = [one.pipeline_examples_per_sec for one in profiles]
        core_seconds = [one.pipeline_core_seconds_per_example for one in profiles]
        products = [one.products_multiply_adds_per_sec for one in profiles]
        return StepProfile(
            input=first.input,
            # Each rank reports what all would fetch if they were like it.
            pipeline_examples_per_sec=min(known) if (known := _known(pipelines)) else None,
            pipeline_core_seconds_per_example=sum(known) if (known := _known(core_seconds)) else None,
            forward_multiply_adds=first.forward_multiply_adds,
            products_multiply_adds_per_sec=sum(known) if (known := _known(products)) else None,
            ranks=tuple(one.ranks[0] for one in profiles) if all(one.ranks for one in profiles) else (),
        )

    def trace(self, steps: int) -> tuple[Trace, ...]:
        """See `TrainingRun.trace`."""
        for rank in self._ranks:
            rank.request_trace(steps)
        return tuple(build(Trace, answer, "trace") for answer in self._answers("trace"))

    def close(self) -> None:
        """See `TrainingRun.close`."""
        with ExitStack() as end:
            end.callback(self._end)
            for rank in self._ranks:
                end.callback(rank.close)

    def _answers(self, kind: str) -> list[Any]:
        """The next answer of this kind from every rank, by rank."""
        answers: dict[int, Any] = {}
        limit = min(rank.silence_seconds for rank in self._ranks)
        deadline = time.monotonic() + limit
        while waiting := [rank for rank in range(len(self._ranks)) if rank not in answers]:
            ready = self._readable(waiting, deadline - time.monotonic())
            if not ready:
                raise self._silent(waiting)
            deadline = time.monotonic() + limit
            for rank in ready:
                self._heard[rank] = time.monotonic()
                try:
                    message = self._ranks[rank].poll()
                except MeasurementError as error:
                    raise self._to_blame(rank, error) from None
                if message is not None and kind in message:
                    answers[rank] = message[kind]
        return [answers[rank] for rank in range(len(self._ranks))]

    def _silent(self, waiting: Sequence[int]) -> MeasurementError:
        """The error where none of these ranks says anything any more: the one that was heard first may hold the others.

        Only a rank that lends its devices to rank 0 can hold it although it answered: it is asked again.
        """
        lending = range(1, len(self._ranks)) if self._lends else ()
        gone = [rank for rank in lending if not self._answers_at_once(rank)]
        blamed = gone[0] if gone else min(waiting, key=self._heard.__getitem__)
        others = [rank for rank in waiting if rank != blamed]
        error = self._ranks[blamed].silent()
        return _noted(error, f"nor did {self._named(others)}; it was heard last") if others else error

    def _is_same(self, loss: float | None, first: float) -> bool:
        if loss is None:
            return self._lends  # a rank that lends its devices has none
        return math.isclose(loss, first, rel_tol=_SAME_LOSS)

    def _answers_at_once(self, rank: int) -> bool:
        """Whether a rank that only lends its devices is well: it has nothing else to do than to answer."""
        while self._readable([rank], 0):
            self._ranks[rank].poll()
        self._ranks[rank].request(1)
        return bool(self._readable([rank], min(_BLAME_SECONDS, self._silence_seconds)))

    def _readable(self, ranks: Sequence[int], seconds: float) -> list[int]:
        """Those that have said something, or are gone, after so many seconds at most."""
        if read := [rank for rank in ranks if self._ranks[rank].has_message]:
            return read
        by_file = {self._ranks[rank].fileno(): rank for rank in ranks}
        poll = select.poll()  # `select.select` takes no file beyond the 1,024th
        for file in by_file:
            poll.register(file, select.POLLIN)
        return [by_file[file] for file, _ in poll.poll(max(0.0, seconds) * 1000)]

    def _to_blame(self, first: int, error: MeasurementError) -> MeasurementError:
        """The error of the rank to blame, when this one was the first to fail.

        First a rank that raised an error of its own, then the first whose connection broke, then one that has been
        silent for long. A rank that is well fails too, because it misses the other.
        """
        errors = {first: error}
        deadline = time.monotonic() + min(_BLAME_SECONDS, self._silence_seconds)
        while all(self._ranks[rank].fault is not Fault.RAISED for rank in errors):
            waiting = [rank for rank in range(len(self._ranks)) if rank not in errors]
            ready = self._readable(waiting, deadline - time.monotonic()) if waiting else []
            if not ready:
                break
            for rank in ready:
                try:
                    self._ranks[rank].poll()
                except MeasurementError as another:
                    errors[rank] = another
        blamed = min(errors, key=self._fault)  # of equal ones the first that was noted
        quiet = [rank for rank in range(len(self._ranks)) if rank not in errors]
        if not quiet or self._fault(blamed) is not Fault.PEER:
            return errors[blamed]
        first_line = str(errors[blamed]).splitlines()[0]
        longest = min(quiet, key=self._heard.__getitem__)
        silence = time.monotonic() - self._heard[longest]
        if silence >= min(_SILENT_SECONDS, _SILENT_FRACTION * self._silence_seconds):
            return _noted(self._ranks[longest].silent(round(silence, 1)), f"and so {first_line}")
        return _noted(errors[blamed], f"nothing was heard of {self._named(quiet)} meanwhile")

    def _named(self, ranks: Sequence[int]) -> str:
        return ", ".join(self._ranks[rank].name for rank in ranks)

    def _fault(self, rank: int) -> Fault:
        fault = self._ranks[rank].fault
        return Fault.PEER if fault is None else fault

    def _agreed(self, what: str, values: Sequence[Any]) -> Any:
        """What all ranks say."""
        if all(value == values[0] for value in values):
            return values[0]
        each = ", ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
        raise MeasurementError(
            f"the ranks do not train one model: they differ in {what} ({each}). Do all of them have the same code, and "
            f"the same TensorFlow? The log of rank 0: {self.log}"
        )


def _noted(error: MeasurementError, note: str) -> MeasurementError:
    """The same error with a line more, below the first."""
    first, *rest = str(error).splitlines()
    return type(error)("\n".join([first, note, *rest]))


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def rank_name(rank: int, ranks: int, host: str) -> str:
    """What messages call a rank."""
    return f"rank {rank} of {ranks} on {host}"
