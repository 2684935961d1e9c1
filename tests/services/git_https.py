"""A code host: `git http-backend` over https, with tokens that may read or write."""

from __future__ import annotations

import os
import ssl
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

WRITER, READER = "ghs_writer/token@1", "ghs_reader:token%2"
"""The passwords of a user who may push, and of one who may not; each has signs that a URL has to quote."""


class CodeHost(ThreadingHTTPServer):
    """Serves the repositories of a folder.

    Attributes:
        authorizations: the headers of each request, a list each; git first asks without one where it has a helper only.
        in_arguments: command lines on this machine that a token was in while a request was answered.
        bytes_per_second: of the answers; None for no limit.
        cuts_after: bytes of an answer after which the connection ends.
    """

    daemon_threads = True

    def __init__(self, folder: Path, certificate: Path) -> None:
        ThreadingHTTPServer.__init__(self, ("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.folder = folder
        self.address = f"127.0.0.1:{self.server_port}"
        self.authorizations: list[list[str]] = []
        self.in_arguments: set[str] = set()
        self.bytes_per_second: int | None = None
        self.cuts_after: int | None = None

    def handle_error(self, *_: object) -> None:
        """A client was killed, or does not trust the certificate."""


class _Handler(BaseHTTPRequestHandler):
    server: CodeHost

    def do_GET(self) -> None:
        body = self._body()
        given = self.headers.get_all("Authorization") or []
        self.server.authorizations.append(given)
        self.server.in_arguments |= _command_lines_with_a_token(self.server.address)
        token = {_basic(token): token for token in (WRITER, READER)}.get(" ".join(given).replace("basic ", "Basic "))
        if len(given) > 1:
            self._answer(400, b"duplicate header")
        elif token is None:
            self._answer(401, b"", ("WWW-Authenticate", 'Basic realm="code"'))
        elif token == READER and "git-receive-pack" in self.path:
            self._answer(403, b"Write access to repository not granted.", ("Content-Type", "text/plain"))
        else:
            self._answer(*self._of_git(body))

    do_POST = do_GET  # noqa: N815

    def _of_git(self, body: bytes) -> tuple[Any, ...]:
        path, _, query = self.path.partition("?")
        variables = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": "ada",
            "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        backend = subprocess.run(["git", "http-backend"], input=body, env=variables, stdout=subprocess.PIPE, check=True)
        head, _, answer = backend.stdout.partition(b"\r\n\r\n")
        headers = [line.decode().split(": ", 1) for line in head.split(b"\r\n")]
        status = next((int(value[:3]) for name, value in headers if name == "Status"), 200)
        return status, answer, *((name, value) for name, value in headers if name != "Status")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        if self.server.cuts_after is not None and self.server.cuts_after < len(body):
            self.wfile.write(body[: self.server.cuts_after])
            self.close_connection = True
            return
        rate = self.server.bytes_per_second
        step = len(body) if rate is None else max(1, rate // 50)
        for begin in range(0, len(body), step or 1):
            self.wfile.write(body[begin : begin + step])
            if rate is not None:
                time.sleep(step / rate)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def code_host(folder: Path) -> Iterator[CodeHost]:
    """A started one; its certificate is `certificate.pem` in the folder above its repositories."""
    certificate = folder.parent / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(certificate), "-out", str(certificate.with_suffix(".part"))),
        ],
        capture_output=True,
        check=True,
    )
    with certificate.open("ab") as file:
        file.write(certificate.with_suffix(".part").read_bytes())
    with CodeHost(folder, certificate) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _basic(password: str) -> str:
    return f"Basic {b64encode(f'x-access-token:{password}'.encode()).decode()}"


def header(password: str) -> str:
    """The setting with which a CI system gives git a token."""
    return f"AUTHORIZATION: {_basic(password).replace('Basic', 'basic')}"


def _command_lines_with_a_token(address: str) -> set[str]:
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            text = file.read_bytes().decode(errors="replace")
            if address in text and any(form in text for form in ("ghs_", *map(_basic, (WRITER, READER)))):
                found.add(text)
    return found
