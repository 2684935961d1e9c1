"""The other nodes, as a session sees them: how many there are, and what starts jobs there."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.cluster.engine import Engine
from pytest_tfperf.features.cluster.launcher import ClusterLauncher, RankListener
from pytest_tfperf.features.cluster.network import find_address, link_name
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.wire import read_key


class ClusterNodes:
    """See `Nodes`.

    Args:
        engine: starts the ranks.
        named: the launcher as the user gave it.
        interface: at which ranks call; "" for the one that leads to other machines.
        port: at which they call; 0 for any that is free.
        key_file: the key of ranks that something else starts; None for a new key.
        folder: the session's, for logs and a new key.
        silence_seconds: how long a rank may take to call, and may send nothing.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        named: str,
        interface: str,
        port: int,
        key_file: Path | None,
        folder: Path,
        silence_seconds: float,
    ) -> None:
        self._engine = engine
        self._named = named
        self._interface = interface
        self._port = port
        self._key_file = key_file
        self._folder = folder
        self._silence_seconds = silence_seconds

    @property
    def most_nodes(self) -> int | None:
        """As the engine knows it."""
        return self._engine.most_nodes

    @property
    def link(self) -> str:
        """The network at which ranks call."""
        return link_name(self._address)

    def require(self) -> None:
        """See `Nodes.require`."""
        if not self._engine.starts_ranks and not (self._port and self._key_file):
            raise TfperfError(
                f"--tfperf-launcher={self._named}: ranks that something else starts must know before where to "
                "call, and the key: set the ini values tfperf_port and tfperf_key_file"
            )
        if self._key_file is not None:
            read_key(self._key_file)
        _ = self._address
        if not self._engine.starts_ranks:
            _ = self._entrance  # ranks that run already call from now on

    def launcher(self, local: Launcher, interpreter: Interpreter) -> Launcher:
        """See `Nodes.launcher`."""
        return ClusterLauncher(
            self._engine,
            local,
            lambda: self._entrance,
            logs=self._folder / "logs",
            silence_seconds=self._silence_seconds,
            interpreter=interpreter,
        )

    def close(self) -> None:
        """See `Nodes.close`."""
        if "_entrance" in self.__dict__:  # it was made
            self._entrance.close()

    @cached_property
    def _address(self) -> str:
        """At which ranks on other nodes call."""
        return find_address(self._interface)

    @cached_property
    def _entrance(self) -> RankListener:
        """Where ranks connect; made for the first job with ranks."""
        return RankListener(self._address, self._port, self._key_file, self._folder)
