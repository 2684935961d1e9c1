"""At which address ranks on other nodes call, and what the network is called in a machine's key."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.cluster.nodes import find_address, link_name
from pytest_tfperf.features.cluster.plugin import LISTEN, Listen

INTERFACES = {
    "lo": ["127.0.0.1"],
    "eth0": ["10.0.0.5", "10.0.0.6"],
    "ib0": ["192.168.7.5"],
    "tun0": [],  # it is down, or has IPv6 only
}
SPEEDS = {"lo": 0, "eth0": 10_000, "ib0": 100_000}

Named = Callable[[str], None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Named:
    """A machine with these interfaces; call it to say what its host name stands for."""
    addresses = {
        name: [SimpleNamespace(family=socket.AF_INET6, address="fe80::1")]
        + [SimpleNamespace(family=socket.AF_INET, address=address) for address in known]
        for name, known in INTERFACES.items()
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: addresses)
    monkeypatch.setattr(
        psutil, "net_if_stats", lambda: {name: SimpleNamespace(speed=speed) for name, speed in SPEEDS.items()}
    )
    names: dict[str, str] = {}

    def resolve(name: str) -> str:
        if name[0].isdigit():
            return name
        try:
            return names[name]
        except KeyError:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None

    monkeypatch.setattr(socket, "gethostbyname", resolve)

    def named(address: str) -> None:
        names[socket.gethostname()] = names["node5.example"] = address

    return named


@pytest.mark.parametrize(
    ("interface", "address"),
    [
        ("eth0", "10.0.0.5"),
        ("ib0", "192.168.7.5"),
        ("lo", "127.0.0.1"),
        ("192.168.7.5", "192.168.7.5"),
        ("10.0.0.6", "10.0.0.6"),
        ("node5.example", "10.0.0.5"),
    ],
)
def test_an_interface_is_given_by_name_address_or_host_name(machine: Named, interface: str, address: str) -> None:
    machine("10.0.0.5")
    assert find_address(interface) == address


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("interface", ["eth7", "tun0", "10.9.9.9", "no-such-host.example"])
def test_what_is_no_interface_of_this_machine_lists_those_that_are(interface: str) -> None:
    known = r"it has eth0 10\.0\.0\.5 10\.0\.0\.6, ib0 192\.168\.7\.5, lo 127\.0\.0\.1$"
    with pytest.raises(TfperfError, match=f"tfperf_listen: .* no network interface '{interface}'.*{known}"):
        find_address(interface)


def test_the_address_that_the_host_s_name_stands_for_is_found_without_a_setting(machine: Named) -> None:
    machine("192.168.7.5")
    assert find_address() == "192.168.7.5"


@pytest.mark.parametrize("named", ["127.0.1.1", "10.9.9.9", None], ids=["loopback", "another machine's", "unknown"])
def test_a_name_that_stands_for_no_address_here_leaves_it_to_the_route(machine: Named, named: str | None) -> None:
    if named is not None:
        machine(named)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind((find_address(), 0))  # the test's own machine decides; an address of another could not be bound


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("megabits", "name"),
    [
        (10_000, "10gbe"),
        (100_000, "100gbe"),
        (1000, "1gbe"),
        (2500, "2.5gbe"),
        (100, ""),
        (0, ""),
    ],
)
def test_a_link_is_named_by_its_speed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, megabits: int, name: str
) -> None:
    monkeypatch.setitem(SPEEDS, "eth0", megabits)
    assert link_name("10.0.0.6", tmp_path) == name


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("place", "files", "name"),
    [
        ("pci0000:00/net/eth0", {}, "10gbe"),
        ("virtual/net/eth0", {"uevent": "INTERFACE=eth0\n"}, ""),  # a container's veth
        ("virtual/net/eth0", {"uevent": "DEVTYPE=vlan\n"}, "10gbe"),
        ("virtual/net/eth0", {"bonding/mode": "802.3ad"}, "10gbe"),
    ],
    ids=["card", "veth", "vlan", "bond"],
)
def test_the_speed_that_a_container_s_interface_makes_up_is_no_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, files: dict[str, str], name: str
) -> None:
    monkeypatch.setitem(SPEEDS, "eth0", 10_000)
    device = tmp_path / "sys/devices" / place
    for file, text in files.items():
        (device / file).parent.mkdir(parents=True, exist_ok=True)
        (device / file).write_text(text)
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0").symlink_to(device)
    assert link_name("10.0.0.6", tmp_path) == name


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("address", ["10.9.9.9", ""])
def test_an_address_of_no_interface_has_a_link_without_a_name(address: str) -> None:
    assert link_name(address) == ""


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("eth0:7600 key=secrets/my key", Listen("eth0", 7600, Path("secrets/my key"))),
        (":65535", Listen(port=65535)),
        ("10.0.0.5", Listen("10.0.0.5")),
        ("key=/run/key", Listen(key_file=Path("/run/key"))),
    ],
)
def test_ranks_call_an_interface_a_port_and_have_a_key(text: str, listen: Listen) -> None:
    assert LISTEN.parse(text) == listen
