"""A server with the shapes of GitHub's and GitLab's comments, which can be told to misbehave."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BOT = {"login": "github-actions[bot]", "username": "project_42_bot", "type": "Bot"}
PERSON = {"login": "ada", "username": "ada", "type": "User"}


@dataclass
class Answer:
    """What the server answers in place of its own: JSON, or bytes as they are."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """Answers as GitHub and GitLab do: pages of comments, 201 for new ones, 403 for a token that may not write.

    Attributes:
        comments: those that there are.
        asked: method, path and token of each request.
        me: the user of the token; None for one that may not ask.
        misbehaves: gives what is answered instead, for a method and a path.
    """

    def __init__(self) -> None:
        ThreadingHTTPServer.__init__(self, ("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, str]] = []
        self.may_write = True
        self.me: dict[str, str] | None = None
        self.misbehaves: Callable[[str, str], Answer | None] = lambda method, path: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def comment(self, body: str, author: dict[str, str]) -> dict[str, Any]:
        """Add one."""
        self.comments.append({"id": len(self.comments) + 1, "body": body, "user": author, "author": author})
        return self.comments[-1]


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def answer(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        secret = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
        path = self.path.partition("?")[0]
        self.server.asked.append((self.command, path, secret))
        self.send(self.server.misbehaves(self.command, path) or self.usual(path, text))

    def usual(self, path: str, text: bytes) -> Answer:
        me = self.server.me
        if (path == "/user" and me is None) or not (self.command == "GET" or self.server.may_write):
            return Answer(403, {"message": "Resource not accessible by integration"})
        if path == "/user":
            return Answer(200, me)
        if self.command == "GET":
            page = int(re.search(r"[?&]page=(\d+)", self.path)[1])  # type: ignore[index]
            return Answer(200, self.server.comments[(page - 1) * 100 : page * 100])
        body = json.loads(text)["body"]
        if self.command == "POST":
            return Answer(201, self.server.comment(body, me or BOT))
        number = int(path.rpartition("/")[2])
        self.server.comments[number - 1]["body"] = body
        return Answer(200, self.server.comments[number - 1])

    do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815  # their names in the standard library

    def send(self, answer: Answer) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
