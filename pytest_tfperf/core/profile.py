"""A few steps under TensorFlow's profiler: what a worker sends of them, and what a measurement keeps."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from pytest_tfperf.core.op_times import Growth, OpTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What one process traced; it crosses the wire.

    Args:
        host: where it ran, as TensorFlow names it.
        steps: traced.
        ops: every operation that ran.
        xspace: the profiler's XSpace message, compressed with zlib and in base64; "" where it is too large to send.
        fault: why `xspace` is empty.
    """

    host: str
    steps: int
    ops: tuple[OpTime, ...]
    xspace: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a measurement keeps.

    Args:
        folder: where the trace lies, relative to pytest's rootdir if it is inside; "" where there is none.
        logdir: the folder of all traces, for TensorBoard.
        fault: why there is no trace.
        steps: traced.
        ops: the operations with most time of their own; of several ranks those of rank 0.
        grown: the operations whose time grew most since the baseline was recorded.
    """

    folder: str = ""
    logdir: str = ""
    fault: str = ""
    steps: int = 0
    ops: tuple[OpTime, ...] = ()
    grown: tuple[Growth, ...] = ()

    @property
    def command(self) -> str:
        """Opens the trace."""
        return f"tensorboard --logdir {shlex.quote(self.logdir)}"
