"""An end for connections on which nothing is heard any more."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

if TYPE_CHECKING:
    from sqlalchemy import Connection


@contextmanager
def ended_by_silence(connection: Connection, seconds: float) -> Iterator[None]:
    """Shut a PostgreSQL connection down when a statement, and what follows it, takes longer than this.

    The driver itself waits without end for an answer that a stalled network keeps back. It raises its usual error when
    the socket is shut down.
    """
    driver: Any = connection.connection.driver_connection
    timers: list[threading.Timer] = []
    with socket.socket(fileno=os.dup(driver.pgconn.socket)) as own:

        def end() -> None:
            with suppress(OSError):  # it has ended by itself
                own.shutdown(socket.SHUT_RDWR)

        def restart(*_: object) -> None:
            while timers:
                timers.pop().cancel()
            timers.append(threading.Timer(seconds, end))
            timers[0].daemon = True
            timers[0].start()

        event.listen(connection, "before_cursor_execute", restart)
        restart()
        try:
            yield
        finally:
            timers.pop().cancel()
