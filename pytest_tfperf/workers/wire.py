"""How driver and workers talk: JSON messages over TCP, each signed with the session's key.

Frame: 4 bytes of length, 32 bytes of HMAC-SHA256, then UTF-8 JSON. The signature covers the direction and a
running number, so a frame can be neither forged, reordered nor replayed, and nothing is ever unpickled.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any

_LENGTH = struct.Struct(">I")
_DIGEST_BYTES = 32
_MAX_BYTES = 64 * 1024 * 1024  # a frame longer than any message of ours is noise; no memory is allocated for it

_CONNECT_SECONDS = 30.0
_HELLO_SECONDS = 5.0  # a worker says who it is as soon as it is connected
_ACCEPT_SECONDS = 0.2  # how often to check that the awaited process still runs


class ConnectionLost(Exception):
    """The other end is gone, or sent a frame that is not signed with this session's key."""


class Silence(Exception):
    """Nothing arrived within the time-out."""


class Channel:
    """One end of a signed connection; not shared between threads."""

    def __init__(self, sock: socket.socket, key: str, *, ours: bytes, theirs: bytes) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a window's answer must not wait for a full packet
        self._socket = sock
        self._key = bytes.fromhex(key)
        self._sent = (ours + b" %d " % number for number in count())
        self._received = (theirs + b" %d " % number for number in count())
        self._buffer = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message of plain values.

        Raises:
            ConnectionLost: the other end closed.
        """
        body = json.dumps(message).encode()
        try:
            self._socket.settimeout(None)
            self._socket.sendall(_LENGTH.pack(len(body)) + self._signature(next(self._sent), body) + body)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def receive(self, timeout_seconds: float | None = None) -> dict[str, Any]:
        """The next message.

        Raises:
            Silence: not within `timeout_seconds`; what arrived so far is kept for the next call.
            ConnectionLost: the other end closed, or the frame is not signed with the key.
        """
        head = _LENGTH.size + _DIGEST_BYTES
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._fill(head, deadline)
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > _MAX_BYTES:
            raise ConnectionLost(f"a frame of {length} bytes is not one of ours")
        self._fill(head + length, deadline)
        signature, body = bytes(self._buffer[_LENGTH.size : head]), bytes(self._buffer[head : head + length])
        del self._buffer[: head + length]
        if not hmac.compare_digest(signature, self._signature(next(self._received), body)):
            raise ConnectionLost("a frame that is not signed with this session's key")
        message: dict[str, Any] = json.loads(body)
        return message

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end; the other one reads ConnectionLost."""
        self._socket.close()

    def _signature(self, prefix: bytes, body: bytes) -> bytes:
        return hmac.digest(self._key, prefix + body, "sha256")

    def _fill(self, size: int, deadline: float | None) -> None:
        while len(self._buffer) < size:
            try:
                self._socket.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))
                data = self._socket.recv(65536)
            except TimeoutError:
                raise Silence("no message in time") from None
            except OSError as error:
                raise ConnectionLost(str(error)) from error
            if not data:
                raise ConnectionLost("the other end closed the connection")
            self._buffer += data


class Listener:
    """The driver's end, which workers call; on this machine's loopback interface."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._key = secrets.token_hex(32)

    @property
    def address(self) -> str:
        """What a worker needs to call, "host:port:key"; travels in its environment."""
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}:{self._key}"

    def accept(self, timeout_seconds: float) -> Channel:
        """The next caller's channel; only its first message says who it is.

        Raises:
            Silence: nobody called within `timeout_seconds`.
        """
        self._socket.settimeout(timeout_seconds)
        try:
            sock, _ = self._socket.accept()
        except TimeoutError:
            raise Silence(f"nobody called within {timeout_seconds:g} s") from None
        return Channel(sock, self._key, ours=b"driver", theirs=b"worker")

    def wait_for(
        self, caller: Mapping[str, Any], timeout_seconds: float, gone: Callable[[], bool] = lambda: False
    ) -> Channel:
        """The channel of the caller whose first message holds these items.

        Other callers' connections are closed: a worker that was given up, or a caller that does not know the key or
        sends nothing.

        Raises:
            Silence: it did not call in time.
            ConnectionLost: `gone` says that it never will.
        """
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            try:
                channel = self.accept(min(timeout_seconds, _ACCEPT_SECONDS))
            except Silence:
                if gone():
                    raise ConnectionLost("it ended before it called") from None
                continue
            with ExitStack() as undo:
                undo.callback(channel.close)
                with suppress(Silence, ConnectionLost):
                    hello = channel.receive(min(timeout_seconds, _HELLO_SECONDS))
                    if all(hello.get(name) == value for name, value in caller.items()):
                        undo.pop_all()
                        return channel
        raise Silence(f"no call within {timeout_seconds:g} s")

    def close(self) -> None:
        """Stop listening; open channels stay."""
        self._socket.close()


def connect(address: str) -> Channel:
    """Call the driver, at a listener's address.

    Raises:
        ConnectionLost: nobody listens at the address.
    """
    host, port, key = address.rsplit(":", 2)
    try:
        sock = socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS)
    except OSError as error:
        raise ConnectionLost(f"{host}:{port}: {error}") from error
    return Channel(sock, key, ours=b"worker", theirs=b"driver")
