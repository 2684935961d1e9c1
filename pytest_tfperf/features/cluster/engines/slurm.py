"""Ranks that Slurm's srun starts, inside an allocation or in a job of its own."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.failures import OUT_OF_MEMORY

_CANCEL_SECONDS = 10.0

# "srun: error: n2: task 1: Killed", "tasks 0-1,3: Exited with exit code 3". A rank's number is its task's.
_ENDED = re.compile(r"^srun: error: [^\s:]+: tasks? ([\d,-]{1,1000}): (.+)$", re.MULTILINE)
_SIGNALS = {signal.strsignal(number): -number for number in signal.Signals}

# Variables of the job or step in which pytest runs, which the srun of another step would take for options.
_OF_ANOTHER_STEP = (
    *("SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_TRES", "SLURM_TRES_PER_TASK"),
    *("SLURM_GPU_BIND", "SLURM_LABELIO"),
)


class Slurm:
    """See `Engine`; the options are srun's, such as ["--partition=gpu", "--gpus-per-node=4", "--time=30"].

    Raises:
        TfperfError: srun is missing.
    """

    starts_ranks = True
    runs_programs = True

    def __init__(self, options: Sequence[str]) -> None:
        if shutil.which("srun") is None:
            raise TfperfError(
                "there is no srun on PATH", next_step="Run pytest where Slurm's commands are (slurm-client)"
            )
        self._options = list(options)
        self._in_allocation = "SLURM_JOB_ID" in os.environ
        nodes = os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES")
        self.most_nodes = int(nodes) if self._in_allocation and nodes and nodes.isdigit() else None
        self._job = f"tfperf-{secrets.token_hex(4)}"

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        """See `Engine.command`; srun passes on the whole environment."""
        # Without -N, Slurm may put all ranks on one node, or the ranks of one node on several.
        placed = ["-N", str(nodes), f"--ntasks={nodes * ranks_per_node}", f"--ntasks-per-node={ranks_per_node}"]
        # A step that may not share the CPUs of the step in which pytest runs would wait for ever.
        shared = ["--overlap"] if self._in_allocation else [f"--job-name={self._job}"]
        # A script with `#SBATCH --export=NONE` would keep the variables from its steps. Bound tasks would compute with
        # the cores of one task, and share them among the ranks of their node once more.
        always = ["--export=ALL", "--kill-on-bad-exit=1", "--cpu-bind=none"]
        unset = [word for name in _OF_ANOTHER_STEP if name in os.environ for word in ("-u", name)]
        return [*(["env", *unset] if unset else []), "srun", *placed, *shared, *always, *self._options, *rank]

    def ended_ranks(self, output: str) -> Mapping[int, int]:
        """See `Engine.ended_ranks`; srun ends the others by SIGTERM, and exits as they did."""
        ended: dict[int, int] = {}
        for tasks, how in _ENDED.findall(output):
            for first, last in re.findall(r"(\d+)(?:-(\d+))?", tasks):
                for rank in range(int(first), int(last or first) + 1):
                    ended.setdefault(rank, _status(how))
        return ended

    def cancel(self) -> None:
        """Kill the job's processes, and wait until the job is gone: only then are its nodes free."""
        if self._in_allocation:
            return  # the job step ends with srun
        with suppress(OSError, subprocess.SubprocessError):
            _run("scancel", "--signal=KILL", f"--name={self._job}")
            _run("scancel", f"--name={self._job}")
            deadline = time.monotonic() + _CANCEL_SECONDS
            while time.monotonic() < deadline and _run("squeue", "--noheader", f"--name={self._job}"):
                time.sleep(0.2)


def _status(how: str) -> int:
    if exited := re.search(r"exit code (\d+)", how):
        return int(exited[1])
    return OUT_OF_MEMORY if how.startswith("Out Of Memory") else _SIGNALS.get(how.removesuffix(" (core dumped)"), 1)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_CANCEL_SECONDS, check=False)
    return done.stdout.strip()
