"""A program's end of a signed connection to the driver, as `workers/wire.py` has it, for any Python from 3.8."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

GREETING = b"tfperf 1"
_LENGTH = struct.Struct(">I")
_NONCE = 32
_HEAD = 36  # length and signature
_NOTED = ("source", "batches", "steps", "paused_seconds", "examples", "others")
_CALL_SECONDS = 10.0  # a driver that does not greet by then wants nothing of this process


class Gone(Exception):
    """The driver has closed the connection, does not want this process, or can't be reached."""


class Link:
    """The connection; used by one thread."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._sent = self._received = 0
        self._file: tuple[int, int] | None = None  # its socket
        try:
            self._socket = socket.create_connection((host, port), timeout=_CALL_SECONDS)
            self._file = _file(self._socket)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ours = os.urandom(_NONCE)
            self._socket.sendall(GREETING + ours)
            theirs = self._read(len(GREETING) + _NONCE)
        except OSError as error:
            raise Gone(str(error)) from None
        if not theirs.startswith(GREETING):
            raise Gone("it is of another version")
        both = GREETING + b"driver" + theirs[len(GREETING) :] + b"worker" + ours
        self._key = hmac.digest(bytes.fromhex(key), both, "sha256")

    def send(self, message: Any) -> None:
        """Send a message of plain values; raises Gone."""
        body = json.dumps(message).encode()
        signature = self._signature(b"worker", self._sent, body)
        self._sent += 1
        self._require_own_file()
        try:
            self._socket.sendall(_LENGTH.pack(len(body)) + signature + body)
        except OSError as error:
            raise Gone(str(error)) from None

    def receive(self, seconds: float) -> Any:
        """The next message; raises Gone, also if none comes for so long."""
        self._require_own_file()
        try:
            self._socket.settimeout(seconds)
            head = self._read(_HEAD)
            body = self._read(_LENGTH.unpack(head[:4])[0])
        except OSError as error:
            raise Gone(str(error)) from None
        if not hmac.compare_digest(self._signature(b"driver", self._received, body), head[4:]):
            raise Gone("it does not have this run's key")
        self._received += 1
        return json.loads(body.decode())

    def has_message(self) -> bool:
        """Whether something has arrived."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close this end."""
        if _file(self._socket) == self._file:
            self._socket.close()
        else:
            self._socket.detach()

    def _require_own_file(self) -> None:
        """Never write into a file of the program's: it may have closed all descriptors, and opened others."""
        if _file(self._socket) != self._file:
            raise Gone("the program has closed its probe's connection")

    def _signature(self, sender: bytes, number: int, body: bytes) -> bytes:
        return hmac.new(self._key, b"%s %d " % (sender, number) + body, hashlib.sha256).digest()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise Gone("it has closed the connection")
            data += piece
        return data


_NOTED_SECONDS = 0.1  # of a window


class Notes:
    """In a link's place where no driver asks: notes windows, and never waits."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._steps = 1
        self._ready: Any = {}

    def send(self, message: Any) -> None:
        """Note what `programs/beside.py` compares; raises Gone for one of several ranks."""
        if message.get("ranks", 1) > 1:
            raise Gone("it is one of several ranks")
        self._ready = message.get("ready", self._ready)
        if "window" in message:
            values = {name: value for name, value in {**self._ready, **message["window"]}.items() if name in _NOTED}
            self._say("window " + json.dumps({**values, "at": time.perf_counter()}))
            times = _NOTED_SECONDS / max(message["window"]["seconds"], 1e-9)
            self._steps = max(1, min(int(self._steps * times), 2 * self._steps))

    def receive(self, seconds: float) -> Any:  # noqa: ARG002  nothing is waited for
        """Ask for the next window."""
        return {"slowdown": 0, "hold_seconds": 0, "steps": self._steps}

    def has_message(self) -> bool:
        """Always: so the program is never held."""
        return True

    def close(self) -> None:
        """Do nothing."""


def _file(of: socket.socket) -> tuple[int, int] | None:
    try:
        status = os.fstat(of.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino
