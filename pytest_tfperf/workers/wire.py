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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

_LENGTH = struct.Struct(">I")
_DIGEST_BYTES = 32
_MAX_BYTES = 64 * 1024 * 1024  # a frame longer than any message of ours is noise, not a reason to allocate

_HELLO_SECONDS = 5.0  # who calls says so at once


class ConnectionLost(Exception):
    """The other side is gone, or what arrived was not from someone who has the key."""


class Silence(Exception):
    """Nothing arrived within the time that was given."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the driver listens, and the key that a worker must know; travels in the environment."""

    host: str
    port: int
    key: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}:{self.key}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The address that `str` wrote."""
        host, port, key = text.rsplit(":", 2)
        return cls(host, int(port), key)


class Channel:
    """One end of a signed connection; not shared between threads."""

    def __init__(self, sock: socket.socket, key: str, *, ours: bytes, theirs: bytes) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a window's answer must not wait for a full packet
        self._socket = sock
        self._key = bytes.fromhex(key)
        self._sent = _Counter(ours)
        self._received = _Counter(theirs)
        self._buffer = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message of plain values.

        Raises:
            ConnectionLost: nobody listens any more.
        """
        body = json.dumps(message).encode()
        try:
            self._socket.settimeout(None)
            self._socket.sendall(_LENGTH.pack(len(body)) + self._sent.sign(self._key, body) + body)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def receive(self, timeout_seconds: float | None = None) -> dict[str, Any]:
        """The next message.

        Raises:
            Silence: not within `timeout_seconds`; what arrived so far is kept for the next call.
            ConnectionLost: the other end closed, or the frame is not signed with the key.
        """
        head = _LENGTH.size + _DIGEST_BYTES
        self._fill(head, timeout_seconds)
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > _MAX_BYTES:
            raise ConnectionLost(f"a frame of {length} bytes is not one of ours")
        self._fill(head + length, timeout_seconds)
        signature, body = bytes(self._buffer[_LENGTH.size : head]), bytes(self._buffer[head : head + length])
        del self._buffer[: head + length]
        if not hmac.compare_digest(signature, self._received.sign(self._key, body)):
            raise ConnectionLost("a frame that is not signed with this session's key")
        message = json.loads(body)
        if not isinstance(message, dict):
            raise ConnectionLost("a frame that is not a message")
        return message

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end; the other one reads ConnectionLost."""
        self._socket.close()

    def _fill(self, size: int, timeout_seconds: float | None) -> None:
        while len(self._buffer) < size:
            try:
                self._socket.settimeout(timeout_seconds)
                data = self._socket.recv(65536)
            except OSError as error:
                if isinstance(error, TimeoutError) and timeout_seconds is not None:
                    raise Silence(f"nothing within {timeout_seconds:g} s") from None
                raise ConnectionLost(str(error)) from error
            if not data:
                raise ConnectionLost("the other end closed the connection")
            self._buffer += data


class Listener:
    """The driver's end: workers call here. Loopback unless told otherwise."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_server((host, 0))
        self._key = secrets.token_hex(32)

    @property
    def address(self) -> Address:
        """What a worker needs to call."""
        host, port = self._socket.getsockname()[:2]
        return Address(host, port, self._key)

    def accept(self, timeout_seconds: float) -> Channel:
        """The next caller's channel; who called shows only in its first message.

        Raises:
            Silence: nobody called within `timeout_seconds`.
        """
        self._socket.settimeout(timeout_seconds)
        try:
            sock, _ = self._socket.accept()
        except TimeoutError:
            raise Silence(f"nobody called within {timeout_seconds:g} s") from None
        return Channel(sock, self._key, ours=b"driver", theirs=b"worker")

    def greet(self, timeout_seconds: float) -> tuple[Channel, dict[str, Any]]:
        """The next caller's channel, and the message that says who called.

        Raises:
            Silence: nobody called within `timeout_seconds`; or somebody who has not the key, or says nothing, and was
                hung up on.
        """
        channel = self.accept(timeout_seconds)
        try:
            return channel, channel.receive(_HELLO_SECONDS)
        except ConnectionLost as error:
            channel.close()
            raise Silence(f"a stranger called: {error}") from None
        except BaseException:
            channel.close()
            raise

    def close(self) -> None:
        """Stop listening; open channels stay."""
        self._socket.close()


def connect(address: Address, timeout_seconds: float = 30) -> Channel:
    """Call the driver.

    Raises:
        ConnectionLost: nobody listens at the address.
    """
    try:
        sock = socket.create_connection((address.host, address.port), timeout=timeout_seconds)
    except OSError as error:
        raise ConnectionLost(f"{address.host}:{address.port}: {error}") from error
    return Channel(sock, address.key, ours=b"worker", theirs=b"driver")


class _Counter:
    """Signs frames of one direction with a running number."""

    def __init__(self, direction: bytes) -> None:
        self._direction = direction
        self._number = 0

    def sign(self, key: bytes, body: bytes) -> bytes:
        text = b"%s %d " % (self._direction, self._number)
        self._number += 1
        return hmac.digest(key, text + body, "sha256")
