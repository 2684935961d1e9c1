"""Two hosts with a network between them on this machine: network namespaces, joined by a bridge."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

DRIVER = "10.77.0.1"
HOSTS = {"tfperf-a": "10.77.0.2", "tfperf-b": "10.77.0.3"}
_BRIDGE = "tfperf-br"

# What mpirun runs in place of ssh: in the host's network, under the host's name.
_AGENT = """\
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
"""


def missing() -> str:
    """Why there can be no hosts here; "" if there can."""
    absent = [name for name in ("ip", "tc", "unshare", "mpirun") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed: apt install iproute2 util-linux openmpi-bin"
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"network namespaces can't be made here: {made.stderr.strip()}" if made.returncode else ""


@contextmanager
def hosts(folder: Path) -> Iterator[str]:
    """Both hosts; gives the value of `--tfperf-launcher` that starts ranks there."""
    agent = folder / "agent"
    agent.write_text(_AGENT)
    agent.chmod(0o755)
    _remove()
    with ExitStack() as end:
        end.callback(_remove)
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{DRIVER}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for host, address in HOSTS.items():
            _ip("netns", "add", host)
            _ip("link", "add", f"{host}-o", "type", "veth", "peer", "name", "eth0", "netns", host)
            _ip("link", "set", f"{host}-o", "master", _BRIDGE, "up")
            _ip("-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
            for name in ("lo", "eth0"):
                _ip("-n", host, "link", "set", name, "up")
        yield f"mpirun --mca plm_rsh_agent {agent} --mca routed direct --mca rtc ^hwloc -H {','.join(HOSTS)}"


def slow_down(megabits: float) -> None:
    """Let each host send at most so much a second."""
    for host in HOSTS:
        limit = ["rate", f"{megabits}mbit", "burst", "32kbit", "latency", "400ms"]
        command = ["tc", "-n", host, "qdisc", "replace", "dev", "eth0", "root", "tbf", *limit]
        subprocess.run(command, check=True)


def _remove() -> None:
    with suppress(OSError):
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)
            # Its other end stays in a namespace that a process still holds.
            subprocess.run(["ip", "link", "del", f"{host}-o"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", _BRIDGE], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
