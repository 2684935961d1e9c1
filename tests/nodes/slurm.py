"""A Slurm cluster of two nodes on this machine: Debian's daemons on the loopback interface, with files of their own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from pytest_tfperf.workers.process_end import die_with_parent
from tests.helpers.patience import wait_for

DAEMONS = ("munged", "slurmctld", "slurmd", "srun", "scancel", "squeue", "sinfo")

_CONFIGURATION = """\
ClusterName=tfperf
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=2000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=2000
PartitionName=main Nodes=n1,n2 Default=YES State=UP
"""


def missing() -> str:
    """Why there can be no cluster here; "" if there can."""
    absent = [name for name in DAEMONS if _found(name) is None]
    if absent:
        return f"Slurm is not installed (no {', '.join(absent)}): apt install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "Slurm's daemons start jobs as other users, so only root can run them"


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Two nodes, whose files are in this folder; gives the environment variables that Slurm's commands need."""
    host = socket.gethostname().split(".")[0]
    (folder / "state").mkdir()
    configuration = folder / "slurm.conf"
    configuration.write_text(_CONFIGURATION.format(host=host, folder=folder, ports=_ports(3)))
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    files = {"key": key, "socket": folder / "munge.sock", "pid": "munge.pid", "log": "munge.log", "seed": "munge.seed"}
    munge = [f"--{name}-file={folder / name_}" for name, name_ in files.items() if name != "socket"]
    with ExitStack() as end:
        commands = [["munged", "--force", "--foreground", f"--socket={folder}/munge.sock", *munge]]
        commands += [["slurmctld", "-D", "-f", str(configuration)]]
        commands += [["slurmd", "-D", "-f", str(configuration), "-N", node] for node in ("n1", "n2")]
        for number, (name, *arguments) in enumerate(commands):
            output = end.enter_context((folder / f"{name}.{number}.out").open("wb"))
            process = subprocess.Popen(
                [_found(name) or name, *arguments],
                env=environment,
                stdout=output,
                stderr=output,
                # By SIGKILL: slurmd does not end on SIGTERM while munged is gone.
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
            end.callback(process.wait)
            end.callback(process.kill)
            if name == "munged":
                assert wait_for((folder / "munge.sock").exists), "munged does not listen"

        def idle() -> bool:
            shown = subprocess.run(
                ["sinfo", "--noheader", "--format=%T %D"], env=environment, capture_output=True, text=True, check=False
            )
            return shown.stdout.strip() == "idle 2"

        assert wait_for(idle), (folder / "slurmctld.log").read_text()
        yield {"SLURM_CONF": str(configuration)}


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _ports(count: int) -> list[int]:
    with ExitStack() as end:
        opened = [end.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in opened]
