from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE_SECONDS

from pytest_tfperf.workers.wire import Address, Channel, ConnectionLost, Listener, Silence, connect

SOON = 0.01

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
messages = st.dictionaries(st.text(), values, max_size=5)


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


class Raw:
    """A driver's channel whose worker is a bare socket, and the frames that a true worker would send."""

    def __init__(self, listener: Listener) -> None:
        self._key = listener.address.key
        self.socket = socket.create_connection((listener.address.host, listener.address.port))
        self.driver = listener.accept(PATIENCE_SECONDS)

    def frames(self, *messages: dict[str, Any], key: str | None = None, ours: bytes = b"worker") -> list[bytes]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            sender = Channel(
                socket.create_connection(server.getsockname()), key or self._key, ours=ours, theirs=b"driver"
            )
            reader, _ = server.accept()
        sent = []
        with reader:
            for message in messages:
                sender.send(message)
                sent.append(_frame(reader))
        sender.close()
        return sent

    def close(self) -> None:
        self.socket.close()
        self.driver.close()


def _frame(reader: socket.socket) -> bytes:
    head = reader.recv(36, socket.MSG_WAITALL)
    return head + reader.recv(struct.unpack(">I", head[:4])[0], socket.MSG_WAITALL)


@pytest.fixture
def raw(listener: Listener) -> Iterator[Raw]:
    made = Raw(listener)
    yield made
    made.close()


@pytest.fixture(scope="module")
def ends(listener: Listener) -> Iterator[tuple[Channel, Channel]]:
    """Driver and worker."""
    worker = connect(listener.address)
    driver = listener.accept(PATIENCE_SECONDS)
    yield driver, worker
    worker.close()
    driver.close()


@given(message=messages)
def test_a_message_arrives_as_it_was_sent(ends: tuple[Channel, Channel], message: dict[str, Any]) -> None:
    driver, worker = ends
    worker.send(message)
    assert driver.receive(PATIENCE_SECONDS) == message


@given(sent=st.lists(messages, max_size=5))
def test_messages_arrive_in_their_order(ends: tuple[Channel, Channel], sent: list[dict[str, Any]]) -> None:
    driver, worker = ends
    for message in sent:
        driver.send(message)
    assert [worker.receive(PATIENCE_SECONDS) for _ in sent] == sent


def test_a_loss_that_is_no_number_arrives(ends: tuple[Channel, Channel]) -> None:
    driver, worker = ends
    worker.send({"loss": float("nan")})
    assert str(driver.receive(PATIENCE_SECONDS)["loss"]) == "nan"


def test_a_wrong_key_is_refused(listener: Listener) -> None:
    stranger = connect(replace(listener.address, key="00" * 32))
    driver = listener.accept(PATIENCE_SECONDS)
    stranger.send({"a": 1})
    with pytest.raises(ConnectionLost, match="not signed with this session's key"):
        driver.receive(PATIENCE_SECONDS)
    stranger.close()
    driver.close()


def test_a_true_frame_is_accepted(raw: Raw) -> None:
    raw.socket.sendall(raw.frames({"a": 1})[0])
    assert raw.driver.receive(PATIENCE_SECONDS) == {"a": 1}


def test_a_replayed_frame_is_refused(raw: Raw) -> None:
    (frame,) = raw.frames({"a": 1})
    raw.socket.sendall(frame * 2)
    raw.driver.receive(PATIENCE_SECONDS)
    with pytest.raises(ConnectionLost, match="not signed"):
        raw.driver.receive(PATIENCE_SECONDS)


def test_a_frame_out_of_its_order_is_refused(raw: Raw) -> None:
    raw.socket.sendall(raw.frames({"a": 1}, {"a": 2})[1])
    with pytest.raises(ConnectionLost, match="not signed"):
        raw.driver.receive(PATIENCE_SECONDS)


def test_our_own_frame_sent_back_is_refused(raw: Raw) -> None:
    raw.socket.sendall(raw.frames({"a": 1}, ours=b"driver")[0])
    with pytest.raises(ConnectionLost, match="not signed"):
        raw.driver.receive(PATIENCE_SECONDS)


@pytest.mark.parametrize("place", [4, 35, 36, -1])
def test_a_frame_with_a_changed_byte_is_refused(raw: Raw, place: int) -> None:
    frame = bytearray(raw.frames({"a": 1})[0])
    frame[place] ^= 1
    raw.socket.sendall(frame)
    with pytest.raises(ConnectionLost, match="not signed"):
        raw.driver.receive(PATIENCE_SECONDS)


def test_a_shortened_frame_is_refused(raw: Raw) -> None:
    frame = raw.frames({"a": 1})[0]
    raw.socket.sendall(struct.pack(">I", len(frame) - 36 - 1) + frame[4:])
    with pytest.raises(ConnectionLost, match="not signed"):
        raw.driver.receive(PATIENCE_SECONDS)


def test_a_frame_that_breaks_off_is_a_lost_connection(raw: Raw) -> None:
    raw.socket.sendall(raw.frames({"a": 1})[0][:-1])
    raw.socket.close()
    with pytest.raises(ConnectionLost, match="closed the connection"):
        raw.driver.receive(PATIENCE_SECONDS)


def test_an_absurd_length_is_refused_before_it_is_waited_for(raw: Raw) -> None:
    raw.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n....")
    with pytest.raises(ConnectionLost, match="is not one of ours"):
        raw.driver.receive(PATIENCE_SECONDS)


def test_a_signed_list_is_no_message(raw: Raw) -> None:
    raw.socket.sendall(raw.frames([1, 2])[0])  # type: ignore[arg-type]
    with pytest.raises(ConnectionLost, match="not a message"):
        raw.driver.receive(PATIENCE_SECONDS)


def test_silence_is_told_from_a_lost_connection(raw: Raw) -> None:
    with pytest.raises(Silence, match=r"nothing within 0\.01 s"):
        raw.driver.receive(SOON)


@pytest.mark.parametrize("cut", [1, 4, 20, 36, 40])
def test_a_part_of_a_frame_is_kept_over_silence(raw: Raw, cut: int) -> None:
    frame = raw.frames({"a": 1})[0]
    raw.socket.sendall(frame[:cut])
    with pytest.raises(Silence):
        raw.driver.receive(SOON)
    raw.socket.sendall(frame[cut:])
    assert raw.driver.receive(PATIENCE_SECONDS) == {"a": 1}


def test_frames_that_arrive_together_are_kept_apart(raw: Raw) -> None:
    raw.socket.sendall(b"".join(raw.frames({"a": 1}, {"a": 2})))
    assert [raw.driver.receive(PATIENCE_SECONDS), raw.driver.receive(PATIENCE_SECONDS)] == [{"a": 1}, {"a": 2}]


def test_a_message_larger_than_any_buffer_arrives(raw: Raw) -> None:
    (frame,) = raw.frames({"log": "x" * 60_000})
    raw.socket.sendall(frame)
    assert len(raw.driver.receive(PATIENCE_SECONDS)["log"]) == 60_000


def test_a_closed_end_is_a_lost_connection(listener: Listener) -> None:
    worker = connect(listener.address)
    driver = listener.accept(PATIENCE_SECONDS)
    worker.close()
    with pytest.raises(ConnectionLost):
        driver.receive(PATIENCE_SECONDS)
    driver.close()


def test_sending_on_a_closed_channel_is_a_lost_connection(raw: Raw) -> None:
    raw.driver.close()
    with pytest.raises(ConnectionLost):
        raw.driver.send({})


def test_nobody_calls_in_silence() -> None:
    listener = Listener()
    with pytest.raises(Silence, match=r"nobody called within 0\.01 s"):
        listener.accept(SOON)
    listener.close()


def test_nobody_listens_at_a_closed_address() -> None:
    listener = Listener()
    address = listener.address
    listener.close()
    with pytest.raises(ConnectionLost, match=f"127.0.0.1:{address.port}"):
        connect(address)


def test_only_this_machine_can_call() -> None:
    listener = Listener()
    assert listener.address.host == "127.0.0.1"
    listener.close()


def test_each_listener_has_a_key_of_its_own() -> None:
    one, two = Listener(), Listener()
    assert one.address.key != two.address.key
    one.close()
    two.close()


@given(st.builds(Address, st.sampled_from(["127.0.0.1", "node-3", "::1"]), st.integers(0, 65535), st.just("ab" * 32)))
def test_an_address_is_read_back_as_it_was_written(address: Address) -> None:
    assert Address.parse(str(address)) == address
