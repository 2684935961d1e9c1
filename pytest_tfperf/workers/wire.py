"""The messages of driver and workers: JSON over TCP, each signed with the session's key.

Both ends begin with a greeting, `_GREETING` and a random number, and make the connection's own key of both numbers and
the session's key, which may live as long as a cluster. A frame is 4 bytes of length, 32 bytes of HMAC-SHA256 under the
connection's key, and UTF-8 JSON. The signature covers the direction and a running number, so that a frame can't be
forged, reordered or sent back, nor replayed in this connection or another. Nothing is ever unpickled. Each session
makes a new key, unless the user gives one. Ranks talk to each other by TensorFlow's own protocols, at ports that
`reserve_port` holds for them.
"""

from __future__ import annotations

import errno
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

from pytest_tfperf.core import plain_json
from pytest_tfperf.errors import TfperfError, worded

_NAME = b"tfperf "
_GREETING = _NAME + b"1"  # the version of these frames; what was signed under another version is valid in none
_NONCE_BYTES = 32

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
_PART_OF_FILES = 0.25  # that they may take of those that this process may open: shells often allow 1,024

_OTHER_VERSION = "it is of another version of pytest-tfperf"
_STRANGER = "it is no process of pytest-tfperf"


class ConnectionLost(Exception):
    """The other end is gone, or has sent something that is not a message of this connection."""


class Refused(ConnectionLost):
    """The other end has sent something that is not a message of this connection; the text is a clause that says why."""


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
        self._session_key = bytes.fromhex(key)
        self._key = b""  # of this connection; known when the other end has greeted
        self._ours, self._theirs = ours, theirs
        self._sent, self._received = count(), count()
        self._buffer = bytearray()
        self.most_bytes = _MAX_BYTES
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        with suppress(OSError):  # it is gone again, as the first message will say
            sock.sendall(_GREETING + self._nonce)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message of plain values; the first one waits until the other end has greeted.

        Raises:
            ConnectionLost: the other end closed, or is not of this version.
        """
        self._agree_on_key(None)
        body = json.dumps(message).encode()
        try:
            self._socket.settimeout(None)
            self._socket.sendall(_LENGTH.pack(len(body)) + self._signature(self._ours, next(self._sent), body) + body)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def receive(self, timeout_seconds: float | None = None) -> dict[str, Any]:
        """The next message.

        Raises:
            Silence: not within `timeout_seconds`; what arrived so far is kept for the next call.
            ConnectionLost: the other end closed.
            Refused: it is of another version, or the frame is not signed for this connection, or holds no message.
        """
        head = _LENGTH.size + _DIGEST_BYTES
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._agree_on_key(deadline)
        self._fill(head, deadline)
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self.most_bytes:
            raise Refused("it announces a longer message than pytest-tfperf sends")
        self._fill(head + length, deadline)
        signature, body = bytes(self._buffer[_LENGTH.size : head]), bytes(self._buffer[head : head + length])
        del self._buffer[: head + length]
        if not hmac.compare_digest(signature, self._signature(self._theirs, next(self._received), body)):
            raise Refused("it does not have this session's key, or replays an earlier connection")
        try:
            message = plain_json.from_json(body)
        except ValueError as error:
            raise Refused(f"it has sent what can't be read: {error}") from None
        if not isinstance(message, dict):
            raise Refused("it has sent what is no message")
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

    def _agree_on_key(self, deadline: float | None) -> None:
        """Take the other end's greeting, and make the connection's key of both numbers."""
        if self._key:
            return
        size = len(_GREETING) + _NONCE_BYTES
        self._fill(len(_GREETING), deadline)
        if not self._buffer.startswith(_GREETING):
            raise Refused(_OTHER_VERSION if self._buffer.startswith(_NAME) else _STRANGER)
        self._fill(size, deadline)
        nonces = {self._ours: self._nonce, self._theirs: bytes(self._buffer[len(_GREETING) : size])}
        del self._buffer[:size]
        both = b"".join(end + nonces[end] for end in sorted(nonces))
        self._key = hmac.digest(self._session_key, _GREETING + both, "sha256")

    def _signature(self, sender: bytes, number: int, body: bytes) -> bytes:
        return hmac.digest(self._key, b"%s %d " % (sender, number) + body, "sha256")

    def _fill(self, size: int, deadline: float | None) -> None:
        """Read until so many bytes are buffered; what has arrived is read once, even after the deadline."""
        while len(self._buffer) < size:
            try:
                self._socket.settimeout(None if deadline is None else max(0.0, deadline - time.monotonic()))
                data = self._socket.recv(65536)
            except (TimeoutError, BlockingIOError):
                raise Silence("no message in time") from None
            except OSError as error:
                raise ConnectionLost(str(error)) from error
            if not data:
                raise ConnectionLost("the other end closed the connection")
            self._buffer += data
            # Bytes that come one by one must not hold the reader beyond its time.
            if deadline is not None and len(self._buffer) < size and time.monotonic() >= deadline:
                raise Silence("no whole message in time")


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
        self._unknown: dict[Channel, tuple[float, str]] = {}  # without a first message: given up when, and its host
        self._refusals: dict[str, tuple[int, str]] = {}  # why -> how many callers, and the last one's host

    @property
    def address(self) -> str:
        """The address for workers, "host:port:key", which they get in their environment."""
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}:{self._key}"

    @property
    def refusals(self) -> list[str]:
        """Each reason for which calls were refused, with their number; a caller that says nothing has none."""
        return [
            f"a call from {host} refused: {why}"
            if number == 1
            else f"{number:,} calls, the last from {host}, refused: {why}"
            for why, (number, host) in self._refusals.items()
        ]

    def greet(self, timeout_seconds: float) -> tuple[Channel, dict[str, Any]]:
        """The channel of the next caller that knows the key, and its first message.

        Raises:
            Silence: there was none within `timeout_seconds`.
        """
        deadline = time.monotonic() + timeout_seconds
        while (now := time.monotonic()) < deadline:
            until = min([deadline, *(until for until, _ in self._unknown.values())])
            poll = select.poll()  # `select.select` takes no file beyond the 1,024th
            poll.register(self._socket, select.POLLIN)
            for channel in self._unknown:
                poll.register(channel, select.POLLIN)
            readable = dict(poll.poll(max(1, (until - now) * 1000)))
            for channel in [channel for channel in self._unknown if channel.fileno() in readable]:
                if (hello := self._heard(channel)) is not None:
                    return channel, hello
            for late in [channel for channel, (given_up, _) in self._unknown.items() if given_up < now]:
                self._forget(late)
            if self._socket.fileno() in readable:
                self._accept()  # last: it may close a readable connection
        raise Silence(f"no call within {timeout_seconds:g} s")

    def _accept(self) -> None:
        try:
            sock, (host, _) = self._socket.accept()
            channel = Channel(sock, self._key, ours=b"driver", theirs=b"worker")
        except ConnectionError:  # gone again
            return
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._unknown:
                raise
            self._forget(next(iter(self._unknown)))
            return
        channel.most_bytes = _HELLO_BYTES
        self._unknown[channel] = time.monotonic() + _HELLO_SECONDS, host
        import resource  # not at the top: Windows has none, and tests there import our types

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST_UNKNOWN if files == resource.RLIM_INFINITY else min(_MOST_UNKNOWN, int(files * _PART_OF_FILES))
        if len(self._unknown) > most:
            self._forget(next(iter(self._unknown)))

    def _heard(self, caller: Channel) -> dict[str, Any] | None:
        """Its first message; None if that has not come yet, or is none of this session."""
        try:
            hello = caller.receive(0)
        except Silence:
            return None
        except ConnectionLost as error:
            if isinstance(error, Refused):
                number, _ = self._refusals.get(str(error), (0, ""))
                self._refusals[str(error)] = number + 1, self._unknown[caller][1]
            self._forget(caller)
            return None
        del self._unknown[caller]
        caller.most_bytes = _MAX_BYTES
        return hello

    def _forget(self, caller: Channel) -> None:
        del self._unknown[caller]
        caller.close()

    def wait_for_all(
        self, callers: Sequence[Mapping[str, Any]], timeout_seconds: float, gone: Callable[[], bool] = lambda: False
    ) -> list[Channel]:
        """The channels of the callers whose first messages hold these items, in this order.

        Closes the connections of other callers, such as a worker that was given up.

        Raises:
            Silence: one did not call in time.
            ConnectionLost: `gone` returned True, so one never will.
        """
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
    # A child that outlives a killed worker, as a loader's process may, would keep the connection open.
    os.register_at_fork(after_in_child=sock.close)
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


# The file with a session's key: read by the ranks that call, and made for those that the session starts.


def read_key(path: Path) -> str:
    """The key in a file, 64 hexadecimal digits.

    Raises:
        TfperfError: the file is missing, others may read it, or it holds something else; says how to make one.
    """
    made_by = f"Make one: (umask 077; openssl rand -hex 32 > {path})"
    with worded(f"the key file {path}", "read", made_by):
        key, mode = path.read_text(encoding="utf-8").strip(), path.stat().st_mode
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
    import fcntl  # not at the top: Windows has none, and tests there import our types

    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("key-" + 12 * "[0-9a-f]"):
        # It is in use, another user's, just removed, or on a file system without locks.
        with suppress(OSError), left.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()
    path = folder / f"key-{secrets.token_hex(6)}"
    unlocked = path.with_name(f".{path.name}")  # hidden from other sessions until it is locked
    try:
        unlocked.touch(0o600, exist_ok=False)
        with unlocked.open("r+", encoding="ascii") as file:
            with suppress(OSError):  # without locks, no other session can remove the file either
                fcntl.flock(file, fcntl.LOCK_EX)
            unlocked.rename(path)
            file.write(f"{key}\n")
            file.flush()
            os.fsync(file.fileno())  # on NFS another node would see an open file empty
            yield path
    finally:
        for left in (unlocked, path):
            left.unlink(missing_ok=True)
