"""A server or network that misbehaves: a sentence, no traceback, no token, and never a failed job."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from pytest_tfperf import cli
from pytest_tfperf.features.ci import pull_request
from pytest_tfperf.web import api
from tests.helpers.comment_server import Server
from tests.helpers.http_server import Answer, listening_at

GREEN = 0
ADDRESSES = ("GITHUB_API_URL", "CI_API_V4_URL")
HTML = b"<html><body>Sign in @ada</body></html>"
NO_JSON = "answers with something else than JSON"


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_request, "_PAUSES", (0.0, 0.0))


@pytest.fixture
def post(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Posts a comment, and gives what was said; no trouble fails the job or shows the token."""
    path = tmp_path / "comment.md"
    path.write_text("slower")

    def posted() -> str:
        assert cli.main(["comment", str(path)]) == GREEN
        out, err = capsys.readouterr()
        assert ("secret" in out + err, "Traceback" in out + err, err) == (False, False, "")
        return out

    return posted


def only(answer: Answer, *methods: str) -> Callable[[str, str], Answer | None]:
    return lambda method, path: answer if method in methods else None


READS, WRITES = ("GET",), ("POST", "PATCH", "PUT")


@pytest.mark.parametrize(
    ("answer", "methods", "says"),
    [
        (Answer(200, None), READS, "the server's answer is no list of comments"),
        (Answer(200, {"message": "hello"}), READS, "the server's answer is no list of comments"),
        (Answer(200, HTML), READS, NO_JSON),
        (Answer(200, b""), READS, NO_JSON),
        (Answer(200, b"[" * 100_000), READS, NO_JSON),
        (Answer(200, b"\xff\xfe"), READS, NO_JSON),
        (Answer(201, None), WRITES, "does not show the comment that was sent"),
        (Answer(200, [1]), WRITES, "does not show the comment that was sent"),
        (Answer(200, HTML), WRITES, NO_JSON),
        (Answer(204, b""), WRITES, NO_JSON),
        (Answer(400, HTML), READS, "refuses it (400 Bad Request)"),
        (Answer(422, {"message": "Validation Failed"}), WRITES, "refuses it (422 Unprocessable"),
        (Answer(401, {}), READS, "the token may not write comments here (401 Unauthorized)"),
        (Answer(404, {}), READS, "the token may not write comments here (404 Not Found)"),
        (Answer(500, HTML), READS, "fails (500 Internal Server Error)"),
        (Answer(503, b"", {"Retry-After": "soon"}), WRITES, "fails (503 Service Unavailable)"),
        (Answer(403, {}, {"Retry-After": "0"}), WRITES, "takes no more requests for now (403 Forbidden)"),
        (Answer(403, {}, {"X-RateLimit-Remaining": "0"}), READS, "takes no more requests for now (403 Forbidden)"),
        (Answer(429, {}, {"Retry-After": "0"}), READS, "takes no more requests for now (429 Too Many Requests)"),
        (Answer(303, {}, {"Location": "/user"}), READS, "refuses it (303 See Other)"),
        (Answer(302, {}, {"Location": "/again"}), READS, "redirects again and again"),
        (Answer(301, {}), READS, "redirects again and again"),
    ],
    ids=str,
)
def test_each_answer_has_a_sentence(
    answer: Answer, methods: tuple[str, ...], says: str, server: Server, job: str, post: Callable[[], str]
) -> None:
    server.misbehaves = only(answer, *methods)
    said = post()
    assert said.startswith("no comment, because ")
    assert says in said


@pytest.mark.parametrize(
    "strange",
    [[None, 3, "text", []], [{"id": "x", "body": "<!-- tfperf: throughput -->"}], [{"id": 1, "body": None}]],
    ids=["no objects", "an id that is none", "no body"],
)
def test_comments_of_another_shape_are_no_comments_of_ours(
    strange: object, server: Server, job: str, post: Callable[[], str]
) -> None:
    server.misbehaves = only(Answer(200, strange), "GET")
    assert post() == "wrote the comment\n"


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_a_server_that_recovers_gets_one_comment(
    status: int, server: Server, job: str, post: Callable[[], str]
) -> None:
    failures = iter([Answer(status, HTML, {"Retry-After": "0"})] * 2)
    server.misbehaves = lambda method, path: next(failures, None)
    assert post() == "wrote the comment\n"
    assert len(server.comments) == 1


def test_a_comment_that_was_written_before_the_server_failed_is_not_written_again(
    server: Server, job: str, post: Callable[[], str]
) -> None:
    bad = iter([True])

    def written_and_lost(method: str, path: str) -> Answer | None:
        if method == "POST" and next(bad, False):
            server.comment("<!-- tfperf: throughput -->\nslower", {"login": "x", "type": "Bot"})
            return Answer(502, HTML)
        return None

    server.misbehaves = written_and_lost
    assert post() == "edited the comment\n"
    assert len(server.comments) == 1


def test_a_server_that_wants_a_long_pause_is_not_waited_for(
    server: Server, job: str, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.misbehaves = only(Answer(429, {}, {"Retry-After": "3600"}), "GET")
    assert "takes no more requests for now (429" in post()
    assert len(server.asked) == 1


# Redirects


@pytest.fixture
def other() -> Iterator[Server]:
    with Server() as made:
        Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("methods", [READS, WRITES], ids=["reads", "writes"])
def test_the_token_goes_to_no_other_host(
    status: int, methods: tuple[str, ...], server: Server, other: Server, job: str, post: Callable[[], str]
) -> None:
    server.misbehaves = only(Answer(status, {}, {"Location": f"{other.url}/x"}), *methods)
    assert post().startswith("no comment, because ")
    assert other.asked == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_on_the_same_host_loses_no_comment(
    status: int, server: Server, job: str, post: Callable[[], str]
) -> None:
    server.misbehaves = lambda method, path: (
        Answer(status, {}, {"Location": "/moved/comments"}) if method == "POST" and path != "/moved/comments" else None
    )
    assert post() == "wrote the comment\n"
    assert len(server.comments) == 1


# The network


def test_a_server_that_is_not_there_is_said(
    server: Server, job: str, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ADDRESSES:
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    assert "http://127.0.0.1:1 does not answer: Connection refused" in post()


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", "does not answer: "),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n[", NO_JSON),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "does not answer: "),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "does not answer: "),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "does not answer: "),
    ],
    ids=["nothing", "another protocol", "cut off", "a broken chunk", "too many headers", "a long header"],
)
def test_what_is_no_http_is_said(
    sent: bytes, says: str, job: str, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening_at(lambda connection: connection.sendall(sent)) as url:
        for variable in ADDRESSES:
            monkeypatch.setenv(variable, url)
        assert says in post()


def test_an_answer_that_does_not_end_is_not_waited_for(
    job: str, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            connection.sendall(b" " * 1000)

    monkeypatch.setattr(api, "_MOST_BYTES", 10_000)
    with listening_at(drip) as url:
        for variable in ADDRESSES:
            monkeypatch.setenv(variable, url)
        assert "the answer of http://127.0.0.1" in post()


# The variables of the job


@pytest.mark.parametrize("token", ["secret\n", " secret", "secret\r\n"])
def test_the_line_end_of_a_token_is_no_part_of_it(
    token: str, server: Server, job: str, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{job.upper()}_TOKEN", token)
    assert post() == "wrote the comment\n"
    assert {asked[2].removeprefix("Bearer ") for asked in server.asked} == {"secret"}


@pytest.mark.parametrize("token", ["secret\nsecret", "secret secret", "secr\u00e9t-secret", "secret\x00"])
def test_what_can_be_no_token_is_neither_sent_nor_shown(
    token: str, server: Server, job: str, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"{job.upper()}_TOKEN"
    monkeypatch.setattr(os, "environ", os.environ | {variable: token})  # no process can have some of them
    assert f"the variable {variable} holds a blank or another character that no token has" in post()
    assert server.asked == []


@pytest.mark.parametrize("token", ["", " ", "\n"])
def test_a_token_that_is_empty_is_not_set(
    token: str, job: str, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{job.upper()}_TOKEN", token)
    assert post().startswith(f"no comment, because the variable {job.upper()}_TOKEN is not set")


@pytest.mark.parametrize(
    "event", [[], None, 3, {"pull_request": None}, {"pull_request": 7}, {"pull_request": {"number": "7/../8"}}], ids=str
)
def test_an_event_of_another_shape_is_of_no_pull_request(
    event: object, tmp_path: Path, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_REPOSITORY", "ada/nets")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))
    assert post().startswith("no comment, because ")


def test_an_address_that_is_no_server_gets_no_token(
    job: str, post: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ADDRESSES:
        monkeypatch.setenv(variable, "file:///etc")
    assert "file:// is no address of a server" in post()
