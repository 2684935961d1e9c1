"""Waits until the ranks of a job have called the driver, and refuses ranks that do not fit."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from pytest_tfperf.core.job import Job, digest
from pytest_tfperf.features.cluster.engine_process import EngineProcess
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, Silence

_POLL_SECONDS = 0.2


class RankCall(NamedTuple):
    """A rank that has called, and what it said about itself."""

    channel: Channel
    rank: int
    size: int
    host: str
    pid: int
    versions: Mapping[str, str]

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine.

        A rank in a container may have this machine's name. Its pid then belongs to another process.
        """
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return False
        return self.host == platform.node() and b"pytest_tfperf.training.rank" in command


def wait_for_ranks(
    listener: Listener, job: Job, name: str, silence_seconds: float, engine: EngineProcess
) -> list[RankCall]:
    """The calls of all ranks, in the order of their numbers.

    Args:
        listener: where they call.
        job: what they will do.
        name: the job's name in the session.
        silence_seconds: how long to wait for all of them.
        engine: what starts them.

    Raises:
        MeasurementError: a rank never called, called twice, or fits neither the job nor the other ranks.
    """
    calls: dict[int, RankCall] = {}
    deadline = time.monotonic() + silence_seconds
    with ExitStack() as undo:
        while len(calls) < job.ranks:
            missing = [str(rank) for rank in range(job.ranks) if rank not in calls]
            names = f"rank{'s' if len(missing) > 1 else ''} {', '.join(missing)} of {job.ranks}"
            if time.monotonic() >= deadline:
                raise engine.failure(f"{names} did not call within {silence_seconds:g} s")
            try:
                channel, hello = listener.greet(_POLL_SECONDS)
            except Silence:
                if engine.has_ended():
                    raise engine.failure(f"{names} did not call, and the engine has ended") from None
                continue
            if hello.get("hello") != "rank" or hello.get("job") not in (name, ""):
                channel.close()  # a rank of an earlier job that was given up
                continue
            undo.callback(channel.close)
            said = (hello[key] for key in ("rank", "size", "host", "pid", "versions"))
            call = RankCall(channel, *said)
            if fault := _fault(job, call, calls):
                for one in (call, *calls.values()):
                    with suppress(ConnectionLost):
                        one.channel.send({"refused": fault})  # it ends
                raise engine.failure(fault)
            calls[call.rank] = call
        undo.pop_all()
    return [calls[rank] for rank in range(job.ranks)]


def _fault(job: Job, call: RankCall, earlier: Mapping[int, RankCall]) -> str:
    """Why a rank can't join those that have called earlier; "" if it can."""
    before = earlier.get(call.rank)
    # One that called, ended and was started again while the driver waited for others may join.
    if before is not None and not before.channel.is_closed:
        return (
            f"rank {call.rank} was started twice: pid {before.pid} on {before.host}, and pid {call.pid} on {call.host}"
        )
    if call.size != job.ranks or not 0 <= call.rank < job.ranks:
        return (
            f"pid {call.pid} on {call.host} says that it is rank {call.rank} of {call.size}, and the test trains on "
            f"{job.ranks}: what starts the ranks (TF_CONFIG, TFPERF_SIZE, the scheduler) must start as many"
        )
    ours = {"pytest-tfperf": digest()}
    first = next(iter(earlier.values()), call)
    for name, version in call.versions.items():
        wanted = ours.get(name, first.versions.get(name, ""))
        other = "pytest's" if name in ours else f"that of rank {first.rank} on {first.host}"
        if version != wanted:
            return (
                f"rank {call.rank} on {call.host} runs {name} {version or 'none'}, and {other} is {wanted}: "
                "install the same on all nodes"
            )
    return ""
