"""This machine's address on the network of the other nodes, and the speed of that link."""

from __future__ import annotations

import socket

import psutil

from pytest_tfperf.errors import TfperfError


def find_address(interface: str = "") -> str:
    """The IPv4 address at which other machines reach this one.

    Args:
        interface: its name, or an address or host name of this machine; "": the one that the host's name stands for,
            else the one that leads to the default route.

    Raises:
        TfperfError: there is no such interface or address here; lists those that there are.
    """
    own = {
        name: [one.address for one in addresses if one.family is socket.AF_INET]
        for name, addresses in psutil.net_if_addrs().items()
    }
    own_addresses = [address for addresses in own.values() for address in addresses]
    if interface:
        found = own[interface][0] if own.get(interface) else _resolved(interface)
        if found not in own_addresses:
            known = ", ".join(f"{name} {' '.join(addresses)}" for name, addresses in sorted(own.items()) if addresses)
            raise TfperfError(
                f"tfperf_interface: this machine has no network interface {interface!r} with an IPv4 address; it has "
                f"{known}"
            )
        return found
    named = _resolved(socket.gethostname())
    if named in own_addresses and not named.startswith("127."):
        return named
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # documentation's own network: only the route is looked up, nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"  # no network: all ranks are on this machine


def link_name(address: str) -> str:
    """Speed of the link that has this address, "10gbe"; "" where it is not known, as in virtual machines."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == address for one in addresses):
            stats = psutil.net_if_stats().get(name)
            megabits = 0 if stats is None else stats.speed
            return f"{megabits / 1000:g}gbe" if megabits >= 1000 else ""
    return ""


def _resolved(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""
