"""Ranks that Open MPI's mpirun starts."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_tfperf.errors import TfperfError, worded

_HOST_OPTIONS = ("-H", "-host", "--host")
_FILE_OPTIONS = ("-hostfile", "--hostfile", "-machinefile", "--machinefile")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SLOTS = re.compile(r"(?::(?:0*[1-9][0-9]{0,8}|\*|auto))?")  # behind a host of -H
_COMMENT = re.compile(r"#|//")
# The options of Open MPI 4.1 behind a host of a host file. It ignores other words without "=".
_FILE_OPTION = re.compile(
    r"(?P<name>slots|count|cpu|max[_-]slots|slots[_-]max)=(?P<number>0*[1-9][0-9]{0,8})|(?:username|user[_-]name|port)=\S+"
)


class Mpirun:
    """See `Engine`.

    Args:
        options: of mpirun, such as ["-H", "nodea:4,nodeb:4"] or ["--hostfile", "hosts"].

    Raises:
        TfperfError: mpirun is missing, or the hosts can't be read from the options or a host file.
    """

    starts_ranks = True
    runs_programs = True

    def __init__(self, options: Sequence[str]) -> None:
        if shutil.which("mpirun") is None:
            raise TfperfError(
                "there is no mpirun on PATH", next_step="Install Open MPI (Debian: apt install openmpi-bin)"
            )
        self._options = _with_absolute_files(options)
        hosts = hosts_named_by(self._options)
        self.most_nodes = len(hosts) if hosts else None

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        """See `Engine.command`."""
        exported = [word for name in variables for word in ("-x", name)]
        # mpirun would pin each of two ranks to one core, and TensorFlow's threads with it.
        placed = ["--map-by", f"ppr:{ranks_per_node}:node", "--bind-to", "none"]
        allow = "--allow-run-as-root"  # containers often run as root
        as_root = [allow] if os.geteuid() == 0 and allow not in self._options else []
        ranks = ["-np", str(nodes * ranks_per_node)]
        return ["mpirun", *as_root, *self._options, *ranks, *placed, *exported, *rank]

    def ended_ranks(self, output: str) -> Mapping[int, int]:
        """See `Engine.ended_ranks`; mpirun exits as the first of them did."""
        return {}

    def cancel(self) -> None:
        """Do nothing: ranks end with mpirun's own processes."""


def _with_absolute_files(options: Sequence[str]) -> list[str]:
    """The options with absolute paths, because mpirun runs in another folder than pytest."""
    absolute, before = [], ""
    for option in options:
        name, given, value = option.partition("=")
        if before in _FILE_OPTIONS:
            absolute.append(str(Path(option).absolute()))
        else:
            absolute.append(f"{name}={Path(value).absolute()}" if given and name in _FILE_OPTIONS else option)
        before = option
    return absolute


def hosts_named_by(options: Sequence[str]) -> list[str]:
    """The hosts that the options name, without their slots."""
    hosts: list[str] = []
    for index, option in enumerate(options):
        name, given, value = option.partition("=")
        if name not in (*_HOST_OPTIONS, *_FILE_OPTIONS):
            continue
        if not given:
            if index + 1 == len(options):
                raise TfperfError(f"mpirun's option {option} has no value")
            value = options[index + 1]
        if name in _HOST_OPTIONS:
            hosts += [_host(host, f"mpirun {name} {value}") for host in value.split(",")]
        else:
            hosts += _hosts_of_file(Path(value))
    return list(dict.fromkeys(hosts))


def _hosts_of_file(path: Path) -> list[str]:
    with worded(f"mpirun's host file {path}", "read"):
        lines = path.read_text(encoding="utf-8").splitlines()
    hosts = [
        _host_of_line(text, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
        if (text := _COMMENT.split(line)[0].strip())
    ]
    if not hosts:
        raise TfperfError(f"mpirun's host file {path} names no host; write one a line, as in: nodea slots=4")
    return hosts


def _host_of_line(text: str, where: str) -> str:
    """The host of a line such as "root@nodea slots = 4 max_slots=8", whose every word is checked."""
    host, *options = re.sub(r"\s*=\s*", "=", text).split()
    user, at, name = host.rpartition("@")
    if not _HOST.fullmatch(name) or bool(at) is not bool(user):
        raise TfperfError(f"{where}: {host!r} is no host; write a name, and its slots behind it, as in: nodea slots=4")
    slots: dict[bool, int] = {}
    for option in options:
        match = _FILE_OPTION.fullmatch(option)
        if match is None:
            raise TfperfError(f"{where}: {option!r} is nothing that mpirun takes there; write slots=N and max_slots=N")
        if match["name"]:
            is_most = "max" in match["name"]
            if is_most in slots:
                raise TfperfError(f"{where}: {option!r} is the second number of slots; leave one out")
            slots[is_most] = int(match["number"])
    if slots.get(False, 0) > slots.get(True, math.inf):
        raise TfperfError(f"{where}: slots={slots[False]} is more than max_slots={slots[True]}; correct one of them")
    return name


def _host(text: str, where: str) -> str:
    """The host of an entry of -H, such as "nodea:4"."""
    name = text.strip().partition(":")[0]
    if not _HOST.fullmatch(name) or not _SLOTS.fullmatch(text.strip().removeprefix(name)):
        raise TfperfError(f"{where}: {text!r} is no host; write a name with its slots, as in nodea:4")
    return name
