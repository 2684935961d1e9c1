"""A real PostgreSQL server of Debian's, and a proxy before it that can fail at a chosen byte."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from tests.helpers.patience import PATIENCE_SECONDS, wait_for

PASSWORD = "s3cr%t/pass@word?"
"""Whose every sign a URL has to quote."""


def missing() -> str:
    """Why no server can be started here, "" where one can."""
    if _program("initdb") is None:
        return "PostgreSQL is not installed: apt install postgresql"
    if os.getuid() == 0 and _unprivileged() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return ""


class Server:
    """A server in a folder of its own, at a free port of this machine, which an unprivileged user runs.

    It does not wait for the disk: a killed process loses nothing of that, only a machine would.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._names = 0
        self._has_answered = False
        self._process: subprocess.Popen[bytes] | None = None
        self._as = _unprivileged() if os.getuid() == 0 else None
        if self._as is not None:
            os.chown(folder, self._as, -1)
        password = folder / "password"
        password.write_text(PASSWORD)
        if self._as is not None:
            os.chown(password, self._as, -1)
        self._run(
            "initdb",
            "--no-sync",
            "--auth=scram-sha-256",
            "--username=team",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            f"--pwfile={password}",
            "-D",
            "data",
        )

    def start(self) -> None:
        """Start it; at the port that it had before, where it has run."""
        for _ in range(10):  # another process may take the free port
            self.port = self.port or _free_port()
            self._process = self._start(
                "postgres", "-D", "data", "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder), "-F"
            )
            if wait_for(self._answers_or_ended) is True:
                return
            if not self._has_answered:
                self.port = 0
        raise AssertionError((self.folder / "log").read_text())

    def _answers_or_ended(self) -> bool | str:
        assert self._process is not None
        if self._process.poll() is not None:
            return "ended"
        command = [str(_program("pg_isready")), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        answers = subprocess.run(command, check=False).returncode == 0
        self._has_answered |= answers
        return answers

    def kill(self) -> None:
        """As `kill -9` of the server, and of what serves its connections."""
        process = self._process
        assert process is not None
        children = psutil.Process(process.pid).children()
        process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        process.wait(PATIENCE_SECONDS)
        wait_for(lambda: not any(map(_runs, children)))

    def new_database(self, options: str = "") -> str:
        """An empty database; its URL."""
        self._names += 1
        name = f"history{self._names}"
        self.execute(f"create database {name} {options}")
        return self.url(name)

    def url(self, database: str = "postgres", port: int = 0) -> str:
        return f"postgresql://team:{quote(PASSWORD, safe='')}@127.0.0.1:{port or self.port}/{database}"

    def execute(self, statement: str, url: str = "") -> None:
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def own(self, folder: Path) -> None:
        """Give a folder to the user that runs the server."""
        if self._as is not None:
            os.chown(folder, self._as, -1)

    def _run(self, *command: str) -> None:
        process = self._start(*command)
        assert process.wait(PATIENCE_SECONDS) == 0, (self.folder / "log").read_text()

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(_program(program)), *arguments],
                cwd=self.folder,
                user=self._as,
                extra_groups=None if self._as is None else [],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            )


@contextmanager
def server() -> Iterator[Server]:
    """A started server; its folder is not below pytest's, which only its user may enter."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="tfperf-postgres-"))
    try:
        made = Server(folder)
        made.start()
        try:
            yield made
        finally:
            made.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Proxy:
    """Forwards connections to a port of this machine; after some bytes it does something, and forwards no more.

    Args:
        port: where it forwards to.
        after_bytes: from clients, in all.
        then: what it does after them.
    """

    def __init__(self, port: int, after_bytes: int, then: Callable[[], object] = lambda: None) -> None:
        self._target = port
        self._left = after_bytes
        self._then = then
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.has_failed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                ahead = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, ahead]
                threading.Thread(target=self._pump, args=(client, ahead), daemon=True).start()
                threading.Thread(target=self._return, args=(ahead, client), daemon=True).start()

    def _pump(self, client: socket.socket, ahead: socket.socket) -> None:
        with suppress(OSError):
            while chunk := client.recv(4096):
                self._left -= len(chunk)
                if self._left <= 0:
                    if not self.has_failed.is_set():
                        self._then()
                        self.has_failed.set()
                    return  # both ends stay open, and neither hears anything
                ahead.sendall(chunk)

    def _return(self, ahead: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):  # a killed server resets its connections
            while chunk := ahead.recv(4096):
                client.sendall(chunk)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)


def _program(name: str) -> Path | None:
    """On PATH, or where Debian keeps those of the newest version."""
    if found := shutil.which(name):
        return Path(found)
    installed = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    return max(installed, key=lambda path: float(path.parents[1].name), default=None)


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _unprivileged() -> int | None:
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    return None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
