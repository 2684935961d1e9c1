"""A server that is notified: webhooks, and the issues of GitHub and GitLab; it can be told to misbehave."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.helpers.comment_server import BOT
from tests.helpers.http_server import Answer, Handler

_ISSUES = re.compile(r"/(?:repos/[^/]+/[^/]+|projects/[^/]+)/issues(?:/(\d+))?(?:/(comments|notes))?")


class Server(ThreadingHTTPServer):
    """Takes what is posted to a webhook with 200 and "ok", as Slack does; keeps issues as GitHub and GitLab do.

    Attributes:
        posted: path and JSON of each message to a webhook.
        issues: those that there are, oldest first; "comments" has the texts of an issue's comments.
        asked: method, path and token of each request.
        may_label: whether the token may set labels, which GitHub drops in silence otherwise.
        misbehaves: gives what is answered instead, for a method and a path.
    """

    daemon_threads = True

    def __init__(self) -> None:
        ThreadingHTTPServer.__init__(self, ("127.0.0.1", 0), _Handler)
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.issues: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, str]] = []
        self.may_label = True
        self.misbehaves: Callable[[str, str], Answer | None] = lambda method, path: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON of each message to a webhook."""
        return [body for _, body in self.posted]

    def handle_error(self, *_: object) -> None:
        """A client that has gone is no news."""


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as made:
        Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


class _Handler(Handler):
    server: Server

    def usual(self, path: str, text: bytes) -> Answer:
        if path == "/user":
            return Answer(403, {})
        body = json.loads(text) if text else {}
        if (found := _ISSUES.fullmatch(path)) is None:
            self.server.posted.append((path, body))
            return Answer(200, b"ok")
        number, comments = found.groups()
        issues = self.server.issues
        if number and comments:
            issues[int(number) - 1]["comments"].append(body["body"])
            return Answer(201, {"id": 1})
        if number:
            self.edit(issues[int(number) - 1], body)
            return Answer(200, issues[int(number) - 1])
        if self.command == "GET":
            page = int(re.search(r"[?&]page=(\d+)", self.path)[1])  # type: ignore[index]
            assert "labels=tfperf&state=all" in self.path
            listed = [issue for issue in reversed(issues) if "tfperf" in issue["labels"]]
            return Answer(200, listed[(page - 1) * 100 : page * 100])
        labels = body.pop("labels", [])
        made = {"id": 1000 + len(issues), "number": len(issues) + 1, "iid": len(issues) + 1, "state": "open"}
        made |= {"user": BOT, "author": BOT, "comments": []}
        made["labels"] = ([labels] if isinstance(labels, str) else labels) if self.server.may_label else []
        issues.append(made | body)
        return Answer(201, issues[-1])

    def edit(self, issue: dict[str, Any], body: dict[str, Any]) -> None:
        """GitHub takes the state, GitLab an event of it."""
        event = body.pop("state_event", None)
        issue |= body | ({"state": "closed" if event == "close" else "open"} if event else {})
