"""Ranks that Open MPI's mpirun starts."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_tfperf.errors import TfperfError, worded

_HOST_OPTIONS = ("-H", "-host", "--host")
_FILE_OPTIONS = ("-hostfile", "--hostfile", "-machinefile", "--machinefile")
_HOST = r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*)"
_NUMBER = r"0*[1-9][0-9]{0,8}"
_OF_OPTION = re.compile(rf"{_HOST}(?::(?:{_NUMBER}|\*|auto))?")
# The options of Open MPI 4.1 behind a host of a host file. It ignores other words without "=".
_OF_FILE = re.compile(
    rf"(?:[^\s@]+@)?{_HOST}(?: (?:(?:slots|count|cpu|max[_-]slots|slots[_-]max)={_NUMBER}|"
    r"(?:username|user[_-]name|port)=\S+))*"
)
_COMMENT = re.compile(r"#|//")


class Mpirun:
    """See `Engine`; the options are mpirun's, such as ["-H", "nodea:4,nodeb:4"] or ["--hostfile", "hosts"].

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
            hosts += [_host(_OF_OPTION, host.strip(), f"mpirun {name} {value}") for host in value.split(",")]
        else:
            hosts += _hosts_of_file(Path(value))
    return list(dict.fromkeys(hosts))


def _hosts_of_file(path: Path) -> list[str]:
    with worded(path, "read", "Correct mpirun's option"):
        lines = path.read_text(encoding="utf-8").splitlines()
    hosts = [
        _host(_OF_FILE, " ".join(re.sub(r"\s*=\s*", "=", text).split()), f"{path}:{number}")
        for number, line in enumerate(lines, 1)
        if (text := _COMMENT.split(line)[0].strip())
    ]
    if not hosts:
        raise TfperfError(f"mpirun's host file {path} names no host; write one a line, as in: nodea slots=4")
    return hosts


def _host(form: re.Pattern[str], text: str, where: str) -> str:
    """The host of an entry of -H, such as "nodea:4", or of a line such as "root@nodea slots=4 max_slots=8"."""
    if (entry := form.fullmatch(text)) is None:
        raise TfperfError(
            f"{where}: mpirun takes no {text!r}",
            next_step="Write a host, and its slots behind it: nodea:4 in -H, and nodea slots=4 max_slots=8 in a file",
        )
    return entry["host"]
