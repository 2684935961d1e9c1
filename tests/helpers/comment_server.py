"""A server with the shapes of GitHub's and GitLab's comments, which can be told to misbehave."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

from tests.helpers.http_server import Answer, Handler

BOT = {"login": "github-actions[bot]", "username": "project_42_bot", "type": "Bot"}
PERSON = {"login": "ada", "username": "ada", "type": "User"}


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


class _Handler(Handler):
    server: Server

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
