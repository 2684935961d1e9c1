"""The comment on a pull request: what it says, and the requests that write it, against a server with their shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from measurements import comparison, session_verdict

from pytest_tfperf import cli
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.session_verdicts import SessionRecord
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.ci.markdown import comment

GREEN, USAGE = 0, 4
RERUN = RerunCommand(" --tfperf-base=origin/main")


# What it says


def test_it_has_a_line_a_table_of_what_moved_and_the_command() -> None:
    slower, same = comparison(test="a.py::slower"), comparison(test="a.py::same", outcome=Outcome.PASS, ratio=1.0)
    assert comment(SessionRecord(results=[slower, same]), RERUN).splitlines() == [
        "**1 of 2 throughput tests regressed; 1 passed.**",
        "",
        "| outcome | test | change | 95 % CI | by |",
        "| --- | --- | --- | --- | --- |",
        "| REGRESSED | a.py::slower | -10.0 % | -11.0 % to -9.0 % | 3 pairs |",
        "",
        "Again: `pytest a.py::slower --tfperf-base=origin/main`",
    ]


def test_where_nothing_moved_it_is_one_line() -> None:
    record = SessionRecord(results=[comparison(outcome=Outcome.PASS, ratio=1.0)])
    assert comment(record, RERUN) == "**1 of 1 throughput test passed.**\n"


def test_it_begins_with_what_all_tests_have_in_common() -> None:
    record = SessionRecord(
        results=[comparison(outcome=Outcome.PASS, ratio=1.0)], verdicts=[session_verdict(kind="software")]
    )
    assert comment(record, RERUN).startswith("**Software REGRESSED ")


def test_a_baseline_that_was_refused_is_said() -> None:
    record = SessionRecord(refused={"a.py::test": TfperfError("too noisy")})
    assert "baseline refused: a.py::test" in comment(record, RERUN)


def test_what_was_not_compared_is_said() -> None:
    record = SessionRecord(remarks=["test_new: measured, not compared: NEW"], not_measured={"a.py::test": "it died"})
    text = comment(record, RERUN)
    assert "test\\_new: measured, not compared: NEW" in text
    assert "could not be measured: a.py::test" in text


def test_a_test_id_makes_no_table_link_or_html() -> None:
    text = comment(SessionRecord(results=[comparison(test="a.py::t[x|[y](z)<b>]")]), RERUN)
    (row,) = [line for line in text.splitlines() if line.startswith("| REGRESSED")]
    assert (row.count("|"), "<b>" in row) == (6, False)


# Who gets it


class Server(ThreadingHTTPServer):
    """Answers as GitHub and GitLab do: pages of comments, 201 for new ones, 403 for a token that may not write."""

    def __init__(self) -> None:
        ThreadingHTTPServer.__init__(self, ("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, str]] = []
        self.may_write = True
        self.status = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def answer(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        secret = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
        self.server.asked.append((self.command, self.path.partition("?")[0], secret))
        if self.server.status or not (self.command == "GET" or self.server.may_write):
            return self.send(self.server.status or 403, {"message": "Resource not accessible by integration"})
        if self.command == "GET":
            page = int(re.search(r"[?&]page=(\d+)", self.path)[1])  # type: ignore[index]
            return self.send(200, self.server.comments[(page - 1) * 100 : page * 100])
        body = json.loads(text)["body"]
        if self.command == "POST":
            self.server.comments.append({"id": len(self.server.comments) + 1, "body": body})
            return self.send(201, self.server.comments[-1])
        number = int(self.path.rpartition("/")[2])
        self.server.comments[number - 1]["body"] = body
        return self.send(200, self.server.comments[number - 1])

    do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815  # their names in the standard library

    def send(self, status: int, found: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture(params=["github", "gitlab"])
def job(request: pytest.FixtureRequest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The variables of a job of pull request 7."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", "GITLAB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    event = tmp_path / "event.json"
    event.write_text('{"pull_request": {"number": 7}}')
    variables = {
        "github": {
            "GITHUB_REPOSITORY": "ada/nets",
            "GITHUB_API_URL": server.url,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_TOKEN": "secret",
        },
        "gitlab": {
            "CI_API_V4_URL": server.url,
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": "7",
            "GITLAB_TOKEN": "secret",
        },
    }
    for name, value in variables[request.param].items():
        monkeypatch.setenv(name, value)
    return str(request.param)


def post(tmp_path: Path, text: str, *arguments: str) -> int:
    path = tmp_path / "comment.md"
    path.write_text(text)
    return cli.main(["comment", str(path), *arguments])


WRITTEN = {
    "github": ("POST", "/repos/ada/nets/issues/7/comments", "Bearer secret"),
    "gitlab": ("POST", "/projects/42/merge_requests/7/notes", "secret"),
}
EDITED = {
    "github": ("PATCH", "/repos/ada/nets/issues/comments/1", "Bearer secret"),
    "gitlab": ("PUT", "/projects/42/merge_requests/7/notes/1", "secret"),
}


def test_the_first_comment_is_written_and_the_next_one_edits_it(server: Server, job: str, tmp_path: Path) -> None:
    assert [post(tmp_path, "one"), post(tmp_path, "two")] == [GREEN, GREEN]
    assert [one["body"] for one in server.comments] == ["<!-- tfperf: throughput -->\ntwo"]
    assert [asked for asked in server.asked if asked[0] != "GET"] == [WRITTEN[job], EDITED[job]]


def test_comments_of_people_and_of_other_jobs_are_left_alone(server: Server, job: str, tmp_path: Path) -> None:
    server.comments += [{"id": number + 1, "body": "by a person"} for number in range(130)]
    post(tmp_path, "one", "--name=cpu")
    post(tmp_path, "two", "--name=gpu")
    post(tmp_path, "three", "--name=cpu")
    bodies = [one["body"] for one in server.comments]
    assert bodies[130:] == ["<!-- tfperf: cpu -->\nthree", "<!-- tfperf: gpu -->\ntwo"]
    assert set(bodies[:130]) == {"by a person"}


def test_a_token_that_may_not_write_is_no_failure(
    server: Server, job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.may_write = False
    assert post(tmp_path, "one") == GREEN
    assert "no comment, because the token may not write comments here (403 " in capsys.readouterr().out


def test_a_server_that_fails_is_an_error_without_the_token(
    server: Server, job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status = 500
    assert post(tmp_path, "one") == USAGE
    said = capsys.readouterr().err
    assert "500 Internal Server Error. Run the job again" in said
    assert "secret" not in said


def test_without_a_pull_request_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    monkeypatch.delenv("CI_MERGE_REQUEST_IID", raising=False)
    assert post(tmp_path, "one") == GREEN
    assert "no comment, because this job is not of a pull request" in capsys.readouterr().out
