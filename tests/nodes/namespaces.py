"""Two hosts with a network between them on this machine: network namespaces, joined by a bridge."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

# Network namespaces are the whole machine's, so names and addresses hold the process id: others may test at the same
# time. The addresses are those that RFC 2544 reserves for benchmarks, eight for each process.
_NAME = f"tf{os.getpid()}"
_HOSTS = (f"{_NAME}a", f"{_NAME}b")
_BRIDGE = f"{_NAME}br"
_FIRST = IPv4Address("198.18.0.0") + os.getpid() % 2**14 * 8

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


@dataclass(frozen=True)
class Network:
    """Two hosts that this one reaches.

    Args:
        launcher: the value of `--tfperf-launcher` that starts ranks there.
        driver: this host's address in their network.
        hosts: their names.
    """

    launcher: str
    driver: str
    hosts: tuple[str, ...]

    def slow_down(self, megabits: float) -> None:
        """Let each host send at most so much a second."""
        limit = ["rate", f"{megabits:.3f}mbit", "burst", "32kbit", "latency", "400ms"]
        for host in self.hosts:
            command = ["tc", "-n", host, "qdisc", "replace", "dev", "eth0", "root", "tbf", *limit]
            subprocess.run(command, check=True)


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """Both hosts, as long as it is open."""
    agent = folder / "agent"
    agent.write_text(_AGENT)
    agent.chmod(0o755)
    driver, *addresses = (str(_FIRST + number) for number in range(1, 2 + len(_HOSTS)))
    with ExitStack() as end:
        end.callback(_remove)
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{driver}/29", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for host, address in zip(_HOSTS, addresses, strict=True):
            _ip("netns", "add", host)
            _ip("link", "add", f"{host}-o", "type", "veth", "peer", "name", "eth0", "netns", host)
            _ip("link", "set", f"{host}-o", "master", _BRIDGE, "up")
            _ip("-n", host, "addr", "add", f"{address}/29", "dev", "eth0")
            for name in ("lo", "eth0"):
                _ip("-n", host, "link", "set", name, "up")
        launcher = f"mpirun --mca plm_rsh_agent {agent} --mca routed direct --mca rtc ^hwloc -H {','.join(_HOSTS)}"
        yield Network(launcher, driver, _HOSTS)


def _remove() -> None:
    for host in _HOSTS:
        subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)
        # Its other end stays in a namespace that a process still holds.
        subprocess.run(["ip", "link", "del", f"{host}-o"], capture_output=True, check=False)
    subprocess.run(["ip", "link", "del", _BRIDGE], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
