"""The messages of driver and workers: JSON over TCP, each signed with the session's key.

A frame is 4 bytes of length, 32 bytes of HMAC-SHA256, and UTF-8 JSON. The signature covers the direction and a running
number, so that within a connection a frame can't be forged, reordered or replayed. Nothing is ever unpickled. Each
session makes a new key, unless the user gives one. Ranks talk to each other by TensorFlow's own protocols, at ports
that `reserve_port` holds for them.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import re
import secrets
import select
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from pytest_tfperf.errors import TfperfError

_LENGTH = struct.Struct(">I")
_DIGEST_BYTES = 32
_MAX_BYTES = 64 * 1024 * 1024  # our messages are shorter; no memory is allocated for a longer frame

# After 30 s without a message TCP sends a probe every 10 s. Three unanswered probes mean that the connection is lost.
_KEEPALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}

_CONNECT_SECONDS = 30.0
_HELLO_SECONDS = 5.0  # a worker sends its first message as soon as it is connected
_GREET_SECONDS = 0.2  # between checks that the awaited process still runs
_HELLO_BYTES = 64 * 1024
_MOST_UNKNOWN = 1024  # connections without a first message; of more, the oldest are closed


class ConnectionLost(Exception):
    """The other end is gone, or it sent a frame that is not signed with this session's key."""


class Silence(Exception):
    """Nothing arrived within the time-out; `missing` has the indices of the callers that did not call."""

    missing: tuple[int, ...] = ()


class Channel:
    """An end of a signed connection; not shared between threads."""

    def __init__(self, sock: socket.socket, key: str, *, ours: bytes, theirs: bytes) -> None:
        # If the other machine loses power or its network, only keep-alive probes notice it.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a window's answer must not wait for a full packet
        self._socket = sock
        self._key = bytes.fromhex(key)
        self._sent = (ours + b" %d " % number for number in count())
        self._received = (theirs + b" %d " % number for number in count())
        self._buffer = bytearray()
        self.most_bytes = _MAX_BYTES

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
        if length > self.most_bytes:
            raise ConnectionLost(f"a frame of {length} bytes is not one of ours")
        self._fill(head + length, deadline)
        signature, body = bytes(self._buffer[_LENGTH.size : head]), bytes(self._buffer[head : head + length])
        del self._buffer[: head + length]
        if not hmac.compare_digest(signature, self._signature(next(self._received), body)):
            raise ConnectionLost("a frame that is not signed with this session's key")
        message: dict[str, Any] = json.loads(body)
        return message

    @property
    def has_message(self) -> bool:
        """Whether a whole message is buffered, which `select` does not show."""
        if len(self._buffer) < _LENGTH.size:
            return False
        (length,) = _LENGTH.unpack_from(self._buffer)
        return len(self._buffer) >= _LENGTH.size + _DIGEST_BYTES + int(length)

    @property
    def own_host(self) -> str:
        """The address of this end, at which other processes can reach this host too."""
        return str(self._socket.getsockname()[0])

    @property
    def is_closed(self) -> bool:
        """Whether the other end has closed the connection; what it sent before may still be read."""
        poll = select.poll()
        poll.register(self._socket, select.POLLRDHUP)
        return bool(poll.poll(0))

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end; the other end then raises ConnectionLost."""
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
    """The driver's end, which workers call.

    Callers are served at the same time: a caller without the key, or a silent one, does not delay the others.

    Args:
        host: the address to listen at; by default only this machine can call.
        port: 0 for any free port.
        key: 64 hexadecimal digits, if workers already know the key; None for a new key.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, key: str | None = None) -> None:
        self._socket = socket.create_server((host, port), backlog=512)
        self._key = key or secrets.token_hex(32)
        self._unknown: dict[Channel, float] = {}  # callers without a first message -> their deadline

    @property
    def address(self) -> str:
        """The address for workers, "host:port:key", which they get in their environment."""
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}:{self._key}"

    def greet(self, timeout_seconds: float) -> tuple[Channel, dict[str, Any]]:
        """The channel of the next caller that knows the key, and its first message.

        Raises:
            Silence: there was none within `timeout_seconds`.
        """
        deadline = time.monotonic() + timeout_seconds
        while (now := time.monotonic()) < deadline:
            for late in [caller for caller, until in self._unknown.items() if until < now]:
                self._forget(late)
            until = min([deadline, *self._unknown.values()])
            poll = select.poll()  # `select.select` takes no file beyond the 1,024th
            poll.register(self._socket, select.POLLIN)
            for caller in self._unknown:
                poll.register(caller, select.POLLIN)
            readable = {file for file, _ in poll.poll(max(1, (until - now) * 1000))}
            for caller in [caller for caller in self._unknown if caller.fileno() in readable]:
                if (hello := self._heard(caller)) is not None:
                    return caller, hello
            if self._socket.fileno() in readable:
                self._accept()  # last: it may close a readable connection
        raise Silence(f"no call within {timeout_seconds:g} s")

    def _accept(self) -> None:
        with suppress(ConnectionError):  # gone again
            sock, _ = self._socket.accept()
            caller = Channel(sock, self._key, ours=b"driver", theirs=b"worker")
            caller.most_bytes = _HELLO_BYTES
            self._unknown[caller] = time.monotonic() + _HELLO_SECONDS
        if len(self._unknown) > _MOST_UNKNOWN:
            self._forget(next(iter(self._unknown)))

    def _heard(self, caller: Channel) -> dict[str, Any] | None:
        """Its first message; None if that has not come yet, or is not signed with the key."""
        try:
            hello = caller.receive(0)
        except Silence:
            return None
        except ConnectionLost:
            self._forget(caller)
            return None
        del self._unknown[caller]
        caller.most_bytes = _MAX_BYTES
        return hello

    def _forget(self, caller: Channel) -> None:
        del self._unknown[caller]
        caller.close()

    def wait_for(
        self, caller: Mapping[str, Any], timeout_seconds: float, gone: Callable[[], bool] = lambda: False
    ) -> Channel:
        """The channel of the caller whose first message holds these items.

        Closes the connections of other callers, such as a worker that was given up.

        Raises:
            Silence: it did not call in time.
            ConnectionLost: `gone` returned True, so it never will.
        """
        return self.wait_for_all([caller], timeout_seconds, gone)[0]

    def wait_for_all(
        self, callers: Sequence[Mapping[str, Any]], timeout_seconds: float, gone: Callable[[], bool] = lambda: False
    ) -> list[Channel]:
        """The channels of several callers, in this order; as `wait_for`."""
        deadline = time.monotonic() + timeout_seconds
        with ExitStack() as undo:
            channels: dict[int, Channel] = {}
            while len(channels) < len(callers):
                if time.monotonic() >= deadline:
                    silence = Silence(f"no call within {timeout_seconds:g} s")
                    silence.missing = tuple(index for index in range(len(callers)) if index not in channels)
                    raise silence
                try:
                    channel, hello = self.greet(min(timeout_seconds, _GREET_SECONDS))
                except Silence:
                    if gone():
                        raise ConnectionLost("it ended before it called") from None
                    continue
                undo.callback(channel.close)
                for index, caller in enumerate(callers):
                    if index not in channels and caller.items() <= hello.items():
                        channels[index] = channel
                        break
                else:
                    channel.close()
            undo.pop_all()
            return [channels[index] for index in range(len(callers))]

    def close(self) -> None:
        """Stop listening; open channels stay."""
        for caller in list(self._unknown):
            self._forget(caller)
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


def reserve_port(host: str) -> tuple[socket.socket, str]:
    """A port of this machine that no other process gets while the socket lives, and its address "host:port".

    The socket is bound and does not listen: with SO_REUSEADDR, TensorFlow's server can then bind the same port. It
    listens on all addresses of the machine, so the port must be free on all of them.
    """
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("", 0))
    return reserved, f"{host}:{reserved.getsockname()[1]}"


def read_key(path: Path) -> str:
    """The key in a file, 64 hexadecimal digits.

    Raises:
        TfperfError: the file is missing, others may read it, or it holds something else; says how to make one.
    """
    made_by = f"Make one: (umask 077; openssl rand -hex 32 > {path})"
    try:
        key, mode = path.read_text(encoding="ascii").strip(), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise TfperfError(f"the key file {path} can't be read: {error}", next_step=made_by) from None
    if re.fullmatch("[0-9a-f]{64}", key) is None:
        raise TfperfError(f"the key file {path} must hold 64 hexadecimal digits", next_step=made_by)
    if stat.S_IMODE(mode) & 0o077:
        raise TfperfError(f"the key file {path} can be read by others (mode {stat.S_IMODE(mode):o}): chmod 600 {path}")
    return key


@contextmanager
def new_key_file(folder: Path, key: str) -> Iterator[Path]:
    """A new file of mode 600 with this key, for as long as the block lasts.

    Files that killed sessions left in the folder are removed: a file's owner holds a lock on it, and loses the lock in
    whatever way it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _remove_left_files(folder)
    path = folder / f"key-{secrets.token_hex(6)}"
    unlocked = path.with_name(f".{path.name}")  # hidden from other sessions until it is locked
    try:
        unlocked.touch(0o600, exist_ok=False)
        with unlocked.open("r+", encoding="ascii") as file:
            _lock(file.fileno())
            unlocked.rename(path)
            file.write(f"{key}\n")
            file.flush()
            os.fsync(file.fileno())  # on NFS another node would see an open file empty
            yield path
    finally:
        for left in (unlocked, path):
            left.unlink(missing_ok=True)


def _remove_left_files(folder: Path) -> None:
    for path in folder.glob("key-" + 12 * "[0-9a-f]"):
        # It is in use, another user's, just removed, or on a file system without locks.
        with suppress(OSError), path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _lock(file: int) -> None:
    with suppress(OSError):  # without locks, no other session can remove the file either
        fcntl.flock(file, fcntl.LOCK_EX)
