"""Workers' ends of connections: each waits for the driver's greeting, so it calls from a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, connect
from tests.helpers.patience import PATIENCE_SECONDS

_THREADS = ThreadPoolExecutor(max_workers=64)


class Callers:
    """The workers that a test has call; `close` ends them all, once the listener has."""

    def __init__(self) -> None:
        self._calls: list[Future[Channel]] = []

    def call(self, address: str, *sent: Mapping[str, Any]) -> Future[Channel]:
        """Have a worker call a listener, and send this as soon as it is greeted."""
        self._calls.append(_THREADS.submit(_called, address, sent))
        return self._calls[-1]

    def close(self) -> None:
        for call in self._calls:
            with suppress(ConnectionLost):
                call.result(PATIENCE_SECONDS).close()


def joined(listener: Listener, *sent: Mapping[str, Any]) -> tuple[Channel, Channel]:
    """Both ends of the connection of a worker that has called with these messages: the driver's, and the worker's."""
    call = _THREADS.submit(_called, listener.address, sent)
    driver, _ = listener.greet(PATIENCE_SECONDS)
    return driver, call.result(PATIENCE_SECONDS)


def _called(address: str, sent: tuple[Mapping[str, Any], ...]) -> Channel:
    channel = connect(address)
    try:
        for message in sent:
            channel.send(message)
    except ConnectionLost:
        channel.close()
        raise
    return channel
