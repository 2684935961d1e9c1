"""The nodes of a session: their number, the network between them, and the launcher for them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import count
from pathlib import Path

import psutil

from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.features.cluster.plugin import Engine, Listen
from pytest_tfperf.features.cluster.rank_launcher import ClusterLauncher
from pytest_tfperf.hardware.host import ROOT, text_of
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.processes import Interpreter
from pytest_tfperf.workers.wire import Listener, new_key_file, read_key


class ClusterNodes:
    """See `Nodes`. `named` is the launcher as the user gave it; the folder, for logs and a new key, is the session's.

    A rank may take `silence_seconds` to call, and may send nothing for as long.
    """

    def __init__(self, engine: Engine, *, named: str, listen: Listen, folder: Path, silence_seconds: float) -> None:
        self.engine = engine
        self.folder = folder.absolute()
        self.silence_seconds = silence_seconds
        self.numbers = count(1)  # of the session's jobs and programs
        self._named = named
        self._listen = listen

    @property
    def most_nodes(self) -> int | None:
        """As the engine knows it."""
        return self.engine.most_nodes

    @property
    def link(self) -> str:
        """The network that ranks call by."""
        return link_name(self._address)

    def require(self) -> None:
        """See `Nodes.require`."""
        if not self.engine.starts_ranks and not (self._listen.port and self._listen.key_file):
            raise TfperfError(
                f"--tfperf-launcher={self._named}: ranks that something else starts must know the port and the key "
                "before: set the ini value tfperf_listen = INTERFACE:PORT key=FILE"
            )
        if self._listen.key_file is not None:
            read_key(self._listen.key_file)
        _ = self._address
        if not self.engine.starts_ranks:
            _ = self.listener  # ranks that run already call from now on

    def launcher(self, local: Launcher, interpreter: Interpreter) -> Launcher:
        """See `Nodes.launcher`."""
        return ClusterLauncher(self, local, interpreter)

    @property
    def refusals(self) -> Sequence[str]:
        """See `Nodes.refusals`."""
        return self.listener.refusals if "listener" in self.__dict__ else ()

    def close(self) -> None:
        """See `Nodes.close`."""
        if "listener" in self.__dict__:  # it has been made
            self.listener.close()

    @cached_property
    def _address(self) -> str:
        """This machine's address for ranks on other nodes."""
        return find_address(self._listen.interface)

    @cached_property
    def listener(self) -> Listener:
        """The listener for ranks, made for the first job with ranks; all launchers of the session share it.

        Raises:
            MeasurementError: nothing can listen there.
            TfperfError: as `read_key`.
        """
        host, port, key_file = self._address, self._listen.port, self._listen.key_file
        try:
            return Listener(host, port, None if key_file is None else read_key(key_file))
        except OSError as error:
            raise MeasurementError(
                f"ranks can't call {host}:{port or 'any port'} of this machine: {error}",
                next_step="Change the ini value tfperf_listen",
            ) from None

    def key_file(self) -> AbstractContextManager[Path]:
        """The file with the key, which ranks read before they call; a new key's file lasts as long as the block."""
        given, key = self._listen.key_file, self.listener.address.rpartition(":")[2]
        return nullcontext(given) if given else new_key_file(self.folder, key)


def find_address(interface: str = "") -> str:
    """The IPv4 address at which other machines reach this one.

    `interface` is its name, or an address or host name of this machine; "" for the address of the host's name, else
    that of the default route.

    Raises:
        TfperfError: there is no such interface or address here; lists this machine's.
    """
    own = {
        name: [each.address for each in addresses if each.family is socket.AF_INET]
        for name, addresses in psutil.net_if_addrs().items()
    }
    own_addresses = [address for addresses in own.values() for address in addresses]
    if interface:
        address = own[interface][0] if own.get(interface) else _resolved(interface)
        if address not in own_addresses:
            known = ", ".join(f"{name} {' '.join(addresses)}" for name, addresses in sorted(own.items()) if addresses)
            raise TfperfError(
                f"tfperf_listen: this machine has no network interface {interface!r} with an IPv4 address; it has "
                f"{known}"
            )
        return address
    named = _resolved(socket.gethostname())
    if named in own_addresses and not named.startswith("127."):
        return named
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # documentation's own network: only the route is looked up, nothing is sent
            return str(probe.getsockname()[0])
        except OSError:  # no default route: a network of its own, or none, and then all ranks are on this machine
            others = [address for address in own_addresses if not address.startswith("127.")]
            return others[0] if len(others) == 1 else "127.0.0.1"


def link_name(address: str, root: Path = ROOT) -> str:
    """Speed of the link that has this address, "10gbe"; "" where it is not known, as in virtual machines.

    `root` is the folder above sys.
    """
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == address for each in addresses):
            stats = psutil.net_if_stats().get(name)
            megabits = 0 if stats is None or _is_made_up(root / "sys/class/net" / name) else stats.speed
            return f"{megabits / 1000:g}gbe" if megabits >= 1000 else ""
    return ""


def _is_made_up(interface: Path) -> bool:
    """Whether an interface is virtual, as in a container, where veth always reports 10,000 Mb/s."""
    is_of_devices = (interface / "bonding").exists() or "DEVTYPE=vlan" in text_of(interface / "uevent")
    return "virtual" in interface.resolve().parts and not is_of_devices


def _resolved(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""
