"""A code host or a webhook's server that a test runs, and one that answers with bytes of any kind."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Thread
from typing import Any


@dataclass
class Answer:
    """What the server answers in place of its own: JSON, or bytes as they are."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Handler(BaseHTTPRequestHandler):
    """Notes each request in the server's `asked`, and answers as `misbehaves` wants it, else as `usual`."""

    server: Any

    def usual(self, path: str, text: bytes) -> Answer:
        raise NotImplementedError

    def answer(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        secret = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
        path = self.path.partition("?")[0]
        self.server.asked.append((self.command, path, secret))
        self.send(self.server.misbehaves(self.command, path) or self.usual(path, text))

    do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815  # their names in the standard library

    def send(self, answer: Answer) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        with suppress(OSError):  # the client may have gone
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening_at(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that is none."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:  # the test is over
                    return
                with connection, suppress(OSError):
                    connection.recv(65536)
                    answer(connection)

        Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)  # else accept() would wait on
