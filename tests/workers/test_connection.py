"""The signed connection between driver and workers: what arrives, what is refused, and who is let in."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, Refused, Silence, connect, reserve_port
from tests.helpers.callers import Callers, joined
from tests.helpers.patience import PATIENCE_SECONDS, running, wait_for

SOON = 0.01
READ_SECONDS = 0.5
"""In which a listener has read what was sent before, on a busy machine, too."""

KEY = "5e" * 32
HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n...."

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
messages = st.dictionaries(st.text(), values, max_size=5)


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def place(listener: Listener) -> tuple[str, int]:
    """Host and port."""
    host, port, _ = listener.address.split(":")
    return host, int(port)


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        end = socket.create_connection(server.getsockname())
        return end, server.accept()[0]


GREETING_BYTES = 40


class Tapped:
    """A true worker's channel, of which a test holds what it sends in place of the driver."""

    def __init__(self, key: str = KEY, *, ours: bytes = b"worker", theirs: bytes = b"driver") -> None:
        sending, self._tap = connected()
        self._channel = Channel(sending, key, ours=ours, theirs=theirs)
        self.greeting = self._tap.recv(GREETING_BYTES, socket.MSG_WAITALL)

    def hear(self, greeting: bytes) -> None:
        """Take the driver's greeting."""
        self._tap.sendall(greeting)

    def frames(self, *messages: Any) -> list[bytes]:
        for message in messages:
            self._channel.send(message)
        return [_frame(self._tap) for _ in messages]

    def close(self) -> None:
        self._channel.close()
        self._tap.close()


class Raw:
    """A driver's channel whose worker is a bare socket that has greeted, and the frames that this worker would send."""

    def __init__(self) -> None:
        self.socket, driver = connected()
        self.driver = Channel(driver, KEY, ours=b"driver", theirs=b"worker")
        self._worker = Tapped()
        self.socket.sendall(self._worker.greeting)
        self._worker.hear(self.socket.recv(GREETING_BYTES, socket.MSG_WAITALL))

    def frames(self, *messages: Any) -> list[bytes]:
        return self._worker.frames(*messages)

    def frame_of_driver(self, message: Any) -> bytes:
        with suppress(Silence):
            self.driver.receive(0)  # it takes the greeting
        self.driver.send(message)
        return _frame(self.socket)

    def close(self) -> None:
        self.socket.close()
        self.driver.close()
        self._worker.close()


def _frame(reader: socket.socket) -> bytes:
    head = reader.recv(36, socket.MSG_WAITALL)
    return head + reader.recv(struct.unpack(">I", head[:4])[0], socket.MSG_WAITALL)


@pytest.fixture
def raw() -> Iterator[Raw]:
    made = Raw()
    yield made
    made.close()


@pytest.fixture(scope="module")
def ends(listener: Listener) -> Iterator[tuple[Channel, Channel]]:
    """Driver and worker."""
    driver, worker = joined(listener, {"hello": "worker"})
    yield driver, worker
    worker.close()
    driver.close()


# What arrives


@given(sent=st.lists(messages, max_size=5))
def test_messages_arrive_as_they_were_sent_and_in_order(ends: tuple[Channel, Channel], sent: list[Any]) -> None:
    for one, other in (ends, ends[::-1]):
        for message in sent:
            one.send(message)
        assert [other.receive(PATIENCE_SECONDS) for _ in sent] == sent


@pytest.mark.parametrize("cut", [1, 4, 20, 36, 40])
def test_a_part_of_a_frame_is_kept_until_the_rest_comes(raw: Raw, cut: int) -> None:
    frame = raw.frames({"a": 1})[0]
    raw.socket.sendall(frame[:cut])
    with pytest.raises(Silence):
        raw.driver.receive(SOON)
    raw.socket.sendall(frame[cut:])
    assert raw.driver.receive(PATIENCE_SECONDS) == {"a": 1}


def test_frames_that_arrive_together_are_kept_apart_and_none_counts_twice(raw: Raw) -> None:
    one, other = raw.frames({"a": 1}, {"a": "x" * 60_000})
    raw.socket.sendall(one + other + other)
    assert [raw.driver.receive(PATIENCE_SECONDS) for _ in range(2)] == [{"a": 1}, {"a": "x" * 60_000}]
    with pytest.raises(Refused, match=OTHER_KEY):
        raw.driver.receive(PATIENCE_SECONDS)


# What is refused


def changed(frame: bytes, place: int) -> bytes:
    """The frame with one bit of this byte changed."""
    text = bytearray(frame)
    text[place] ^= 1
    return bytes(text)


def shortened(frame: bytes) -> bytes:
    return struct.pack(">I", len(frame) - 36 - 1) + frame[4:]


OTHER_KEY = "does not have this session's key, or replays an earlier connection"
FORGED: dict[str, tuple[Callable[[Raw], bytes], str]] = {
    "its length changed": (lambda raw: shortened(raw.frames({"a": 1})[0]), OTHER_KEY),
    "its signature changed": (lambda raw: changed(raw.frames({"a": 1})[0], 4), OTHER_KEY),
    "its text changed": (lambda raw: changed(raw.frames({"a": 1})[0], -1), OTHER_KEY),
    "out of order": (lambda raw: raw.frames({"a": 1}, {"a": 2})[1], OTHER_KEY),
    "the driver's own, sent back": (lambda raw: raw.frame_of_driver({"a": 1}), OTHER_KEY),
    "of another connection": (lambda raw: of_another_connection({"a": 1}), OTHER_KEY),
    "of an absurd length": (lambda raw: b"\xff\xff\xff\xff" + HTTP, "announces a longer message"),
    "a list": (lambda raw: raw.frames([1])[0], "is no message"),
    "a bomb": (lambda raw: raw.frames({"a": [[]] * 100_000})[0], "can't be read: .* are no measurements"),
}


def of_another_connection(message: Any) -> bytes:
    """The first frame of a true worker that had the same key."""
    with closing(Raw()) as earlier:
        return earlier.frames(message)[0]


@pytest.mark.parametrize("forged", FORGED)
def test_a_frame_that_the_worker_did_not_send_so_is_refused(raw: Raw, forged: str) -> None:
    make, message = FORGED[forged]
    raw.socket.sendall(make(raw))
    with pytest.raises(ConnectionLost, match=message):
        raw.driver.receive(PATIENCE_SECONDS)


# Silence, and lost connections


@pytest.mark.parametrize("sent", [0, 20, -1])
def test_a_closed_end_is_a_lost_connection(raw: Raw, sent: int) -> None:
    raw.socket.sendall(raw.frames({"a": 1})[0][:sent])
    raw.socket.close()
    with pytest.raises(ConnectionLost, match="closed the connection"):
        raw.driver.receive(PATIENCE_SECONDS)


def test_a_closed_end_is_known_before_its_last_message_is_read(raw: Raw) -> None:
    assert not raw.driver.is_closed
    raw.socket.sendall(raw.frames({"a": 1})[0])
    raw.socket.close()
    assert wait_for(lambda: raw.driver.is_closed)
    assert raw.driver.receive(PATIENCE_SECONDS) == {"a": 1}


def test_sending_on_a_closed_channel_is_a_lost_connection(raw: Raw) -> None:
    raw.driver.close()
    with pytest.raises(ConnectionLost):
        raw.driver.send({})


# A worker that says who it is, and a process that it forks, which outlives it.
FORKS = """
import os, sys, time
from pytest_tfperf.workers.wire import connect
channel = connect(sys.argv[1])
pid = os.fork()
if pid:
    channel.send({"child": pid})
time.sleep(600)
"""


def test_a_killed_worker_is_a_lost_connection_although_its_child_lives(listener: Listener) -> None:
    with running(FORKS, listener.address) as worker:
        channel, hello = listener.greet(PATIENCE_SECONDS)
        worker.send_signal(signal.SIGKILL)
        try:
            with closing(channel), pytest.raises(ConnectionLost):
                channel.receive(PATIENCE_SECONDS)
        finally:
            os.kill(hello["child"], signal.SIGKILL)


def test_calling_a_closed_address_is_a_lost_connection() -> None:
    listener = Listener()
    address = listener.address
    listener.close()
    with pytest.raises(ConnectionLost, match=address.rpartition(":")[0]):
        connect(address)


# Who is let in


@pytest.fixture
def callers() -> Iterator[Callers]:
    made = Callers()
    yield made
    made.close()


def test_the_awaited_worker_is_found_among_others_which_are_closed(callers: Callers, listener: Listener) -> None:
    late = callers.call(listener.address, {"number": 6})
    with pytest.raises(Silence):
        listener.wait_for_all([{"number": 7}], READ_SECONDS)
    awaited = callers.call(listener.address, {"number": 7})
    [channel] = listener.wait_for_all([{"number": 7}], PATIENCE_SECONDS)
    channel.send({"a": 1})
    assert awaited.result().receive(PATIENCE_SECONDS) == {"a": 1}
    with pytest.raises(ConnectionLost):
        late.result().receive(PATIENCE_SECONDS)
    channel.close()


def test_the_first_message_tells_the_caller_and_what_it_sends_at_once_is_kept(
    callers: Callers, listener: Listener
) -> None:
    callers.call(listener.address, {"hello": "rank", "rank": 1}, {"address": "a:1"})
    channel, hello = listener.greet(PATIENCE_SECONDS)
    with closing(channel):
        assert (hello, channel.receive(PATIENCE_SECONDS)) == ({"hello": "rank", "rank": 1}, {"address": "a:1"})


def is_closed(stranger: socket.socket) -> bool:
    stranger.settimeout(PATIENCE_SECONDS)
    with suppress(ConnectionResetError):  # closed before all was read
        while stranger.recv(100):  # the greeting
            pass
    return True


def test_a_caller_that_sends_noise_is_closed(listener: Listener) -> None:
    with socket.create_connection(place(listener)) as stranger:
        stranger.sendall(HTTP)
        with pytest.raises(Silence):
            listener.wait_for_all([{"number": 7}], READ_SECONDS)
        assert is_closed(stranger)


def test_a_caller_that_says_nothing_is_closed_with_the_listener() -> None:
    with closing(Listener()) as listener, socket.create_connection(place(listener)) as stranger:
        with pytest.raises(Silence):
            listener.greet(0.1)
        listener.close()
        assert is_closed(stranger)


def greeted(listener: Listener, end: ExitStack) -> int:
    """The number of the next caller."""
    channel, said = listener.greet(PATIENCE_SECONDS)
    end.callback(channel.close)
    return int(said["number"])


@pytest.mark.parametrize(
    "part", [0, 4, 40, 44, 80], ids=["nothing", "a word", "a greeting", "a length", "half a frame"]
)
def test_a_caller_that_stops_in_its_first_message_does_not_keep_others_waiting(callers: Callers, part: int) -> None:
    with ExitStack() as end:
        listener = end.enter_context(closing(Listener()))
        true = end.enter_context(closing(Tapped(listener.address.rsplit(":", 1)[1])))
        slow = end.enter_context(socket.create_connection(place(listener)))
        slow.sendall(true.greeting[:part])
        callers.call(listener.address, {"number": 2})
        assert greeted(listener, end) == 2
        true.hear(slow.recv(GREETING_BYTES, socket.MSG_WAITALL))
        (frame,) = true.frames({"hello": "worker", "number": 1})
        whole = true.greeting + frame
        slow.sendall(whole[min(part, GREETING_BYTES) : part])
        callers.call(listener.address, {"number": 3})
        assert greeted(listener, end) == 3
        slow.sendall(whole[part:])
        assert greeted(listener, end) == 1


@pytest.mark.usefixtures("many_files")
def test_more_than_a_thousand_callers_that_say_nothing_delay_nobody(callers: Callers) -> None:
    with ExitStack() as end:
        listener = end.enter_context(closing(Listener()))
        for number in range(3):
            for _ in range(400):  # fewer than the kernel keeps until they are accepted
                end.enter_context(socket.create_connection(place(listener)))
            callers.call(listener.address, {"number": number})
            assert greeted(listener, end) == number


@pytest.fixture
def many_files() -> Iterator[None]:
    """Lets this process open 4,000 files: shells often allow 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4000:
        pytest.skip(f"a process may open no more than {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_first_message_of_more_than_64_kib_is_refused_and_a_later_one_is_not(
    callers: Callers, listener: Listener
) -> None:
    long = {"text": "x" * 65_536}
    refused = callers.call(listener.address, {"number": 7, **long})
    with pytest.raises(Silence):
        listener.wait_for_all([{"number": 7}], READ_SECONDS)
    with pytest.raises(ConnectionLost):
        refused.result().receive(PATIENCE_SECONDS)
    callers.call(listener.address, {"number": 7}, long)
    with closing(listener.wait_for_all([{"number": 7}], PATIENCE_SECONDS)[0]) as channel:
        assert channel.receive(PATIENCE_SECONDS) == long


@given(st.permutations(range(4)))
def test_several_callers_are_given_in_the_order_in_which_they_were_asked_for(order: list[int]) -> None:
    with ExitStack() as end:
        callers = end.enter_context(closing(Callers()))
        listener = end.enter_context(closing(Listener()))
        for number in order:
            callers.call(listener.address, {"number": number}, {"said by": number})
        channels = listener.wait_for_all([{"number": number} for number in range(4)], PATIENCE_SECONDS)
        for channel in channels:
            end.callback(channel.close)
        assert [channel.receive(PATIENCE_SECONDS)["said by"] for channel in channels] == [0, 1, 2, 3]


def test_a_caller_with_another_key_is_not_let_in(callers: Callers, listener: Listener) -> None:
    callers.call("{}:{}:{}".format(*place(listener), "00" * 32), {"number": 7})
    with pytest.raises(Silence, match=r"no call within 0\.5 s"):
        listener.wait_for_all([{"number": 7}], READ_SECONDS)


def recorded(listener: Listener, *sent: dict[str, Any]) -> bytes:
    """All that a true worker sends to a listener with these messages."""
    with closing(Tapped(listener.address.rsplit(":", 1)[1])) as true, socket.create_connection(place(listener)) as line:
        line.sendall(true.greeting)
        with pytest.raises(Silence):
            listener.greet(SOON)
        true.hear(line.recv(GREETING_BYTES, socket.MSG_WAITALL))
        stream = true.greeting + b"".join(true.frames(*sent))
        line.sendall(stream[GREETING_BYTES:])
        listener.greet(PATIENCE_SECONDS)[0].close()
        return stream


NEWER = b"tfperf 3" + bytes(32)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (None, OTHER_KEY),
        (NEWER, "is of another version of pytest-tfperf"),
        (HTTP, "is no process of pytest-tfperf"),
    ],
    ids=["a recorded worker", "a newer version's", "HTTP"],
)
def test_a_refused_call_is_counted_and_said_and_a_true_worker_is_let_in(
    callers: Callers, sent: bytes | None, why: str
) -> None:
    with ExitStack() as end:
        earlier, listener = (end.enter_context(closing(Listener(key=KEY))) for _ in range(2))
        stream = recorded(earlier, {"hello": "worker", "number": 7}) if sent is None else sent
        for _ in range(2):
            stranger = end.enter_context(socket.create_connection(place(listener)))
            stranger.sendall(stream)
        with pytest.raises(Silence):
            listener.wait_for_all([{"number": 7}], READ_SECONDS)
        assert listener.refusals == [f"2 calls, the last from 127.0.0.1, refused: it {why}"]
        callers.call(listener.address, {"number": 7})
        assert greeted(listener, end) == 7


def test_a_driver_s_recorded_stream_is_refused_by_a_worker_under_the_same_key(raw: Raw) -> None:
    recording = raw.frame_of_driver({"job": "an old one"})
    with closing(Tapped(ours=b"driver", theirs=b"worker")) as old:
        end, line = connected()
        with closing(Channel(end, KEY, ours=b"worker", theirs=b"driver")) as worker, line:
            line.sendall(old.greeting + recording)
            with pytest.raises(Refused, match=OTHER_KEY):
                worker.receive(PATIENCE_SECONDS)


def test_bytes_that_come_one_by_one_hold_the_listener_no_longer_than_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dripping(socket.socket):
        """A connection in which the next byte is there as soon as one has been read."""

        def recv(self, size: int, flags: int = 0) -> bytes:
            read.append(size)
            return b"\0"

    read: list[int] = []
    end, line = connected()
    with line, closing(Channel(Dripping(fileno=end.detach()), KEY, ours=b"driver", theirs=b"worker")) as channel:
        with pytest.raises(Silence):
            channel.receive(0)
        assert len(read) < 3


@pytest.mark.usefixtures("few_files")
def test_callers_that_say_nothing_leave_files_for_the_session(callers: Callers) -> None:
    with ExitStack() as end:
        listener = end.enter_context(closing(Listener()))
        before = len(list(Path("/proc/self/fd").iterdir()))
        program = (
            "import socket, sys\n"
            "all = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(300)]\n"
            "print('called', flush=True)\nsys.stdin.read()"
        )
        with running(program, place(listener)[1], stdin=subprocess.PIPE) as strangers:
            assert strangers.stdout is not None
            strangers.stdout.readline()
            callers.call(listener.address, {"number": 7})
            assert greeted(listener, end) == 7
            assert len(list(Path("/proc/self/fd").iterdir())) - before < 100


@pytest.fixture
def few_files() -> Iterator[None]:
    """Lets this process open 256 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_waiting_ends_when_the_awaited_process_has_ended(listener: Listener) -> None:
    with pytest.raises(ConnectionLost, match="ended before it called"):
        listener.wait_for_all([{"number": 7}], PATIENCE_SECONDS, lambda: True)


def test_only_this_machine_can_call_and_each_listener_has_a_key_of_its_own(listener: Listener) -> None:
    other = Listener()
    assert place(listener)[0] == place(other)[0] == "127.0.0.1"
    assert listener.address.split(":")[2] != other.address.split(":")[2]
    other.close()


# The ports of ranks


def bound(port: int, *, reuse: bool, host: str = "127.0.0.1") -> socket.socket:
    other = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
    try:
        other.bind((host, port))
    except OSError:
        other.close()
        raise
    return other


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])  # TensorFlow's server needs it on all addresses
def test_a_reserved_port_is_no_other_process_s(host: str) -> None:
    reserved, address = reserve_port("127.0.0.1")
    with reserved:
        with pytest.raises(OSError) as refused:  # noqa: PT011  # its number says which
            bound(int(address.split(":")[1]), reuse=False, host=host)
        assert refused.value.errno == errno.EADDRINUSE


def test_the_owner_of_a_reserved_port_can_listen_there() -> None:
    reserved, address = reserve_port("127.0.0.1")
    host, port = address.split(":")
    assert host == "127.0.0.1"
    with reserved, bound(int(port), reuse=True) as server:  # as TensorFlow and Horovod's rendezvous do
        server.listen()
        socket.create_connection((host, int(port))).close()


def test_ranks_of_one_host_reserve_different_ports() -> None:
    with ExitStack() as end:
        addresses = []
        for _ in range(100):
            reserved, address = reserve_port("127.0.0.1")
            end.enter_context(reserved)
            addresses.append(address)
    assert len(set(addresses)) == 100
