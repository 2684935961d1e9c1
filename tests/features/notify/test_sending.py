"""Each kind of channel against a real server: what it is sent, and what is said where it does not take it."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.features.notify import telling
from pytest_tfperf.features.notify.channels import channels
from pytest_tfperf.features.notify.news import Event, EventKind
from pytest_tfperf.features.notify.telling import deliveries, tell
from tests.helpers.http_server import Answer, listening_at
from tests.helpers.notified_server import Server

HTML = b"<html><body>Sign in @ada</body></html>"


def event(kind: EventKind = EventKind.NEW, **more: Any) -> Event:
    given = {
        "machine": "box",
        "test": "a.py::test_b[1]",
        "figure": "throughput",
        "headline": "resnet50 on 1 GPU (box): 870.0 images/s, 13.0 % slower than 1,000",
        "change": -0.13,
        "owner": "team-vision",
        "rerun": "pytest 'a.py::test_b[1]'",
        "time": "2026-11-27T02:15:00+00:00",
    }
    return Event(kind=kind, **given | more)


def say(to: str, folder: Path, *events: Event) -> list[str]:
    found, lines = deliveries(channels(to), events or [event()], folder, session="s-1")
    return [*lines, *tell(found, folder, folder)]


TROUBLES = [
    (Answer(400, b"no_text"), "refuses it (400 Bad Request)"),
    (Answer(401, {}), "401 Unauthorized"),
    (Answer(403, {}), "403 Forbidden"),
    (Answer(404, HTML), "404 Not Found"),
    (Answer(422, {}), "refuses it (422 Unprocessable"),
    (Answer(429, {}), "takes no more requests for now (429 Too Many Requests)"),
    (Answer(500, HTML), "fails (500 Internal Server Error)"),
    (Answer(302, {}, {"Location": "https://elsewhere.example/x"}), "redirects to https://elsewhere.example, and the"),
    (Answer(302, {}, {"Location": "/again"}), "redirects again and again"),
]


@pytest.mark.parametrize(
    "to", ["webhook $HOOK_URL", "slack $HOOK_URL", "teams $HOOK_URL", "github ada/nets", "gitlab 42"]
)
@pytest.mark.parametrize(
    ("answer", "says"), TROUBLES, ids=[str(answer.status) + says[-5:] for answer, says in TROUBLES]
)
def test_a_server_that_does_not_take_it_has_one_line(
    to: str, answer: Answer, says: str, server: Server, secrets: str, tmp_path: Path
) -> None:
    server.misbehaves = lambda method, path: answer
    (line,) = say(to, tmp_path)
    assert line.startswith(f"1 event not sent to {to}: ")
    assert says in line
    assert line.endswith(". The next session sends what is not over")
    assert secrets not in line


@pytest.mark.parametrize("body", [b"ok", b"", b"{}", b"1"])
def test_a_webhook_may_answer_with_any_text(body: bytes, server: Server, secrets: str, tmp_path: Path) -> None:
    server.misbehaves = lambda method, path: Answer(202, body)
    assert say("teams $HOOK_URL", tmp_path) == ["notified teams $HOOK_URL: 1 new"]


def test_a_web_page_is_no_webhook(server: Server, secrets: str, tmp_path: Path) -> None:
    server.misbehaves = lambda method, path: Answer(200, b"\n " + HTML)
    (line,) = say("webhook $HOOK_URL", tmp_path)
    assert f"{server.url} answers with a web page, as it does where one has to sign in" in line


@pytest.mark.parametrize("to", ["webhook $HOOK_URL", "github ada/nets", "gitlab 42"])
@pytest.mark.parametrize("sent", [b"", b"SSH-2.0-OpenSSH_9.2\r\n"], ids=["closed", "another protocol"])
def test_what_is_no_http_is_said(
    to: str, sent: bytes, secrets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening_at(lambda connection: connection.sendall(sent)) as url:
        for variable in ("HOOK_URL", "GITHUB_API_URL", "CI_API_V4_URL"):
            monkeypatch.setenv(variable, f"{url}/{secrets}")
        (line,) = say(to, tmp_path)
    assert f"not sent to {to}: {url} does not answer: " in line
    assert secrets not in line


def test_a_server_that_is_not_there_is_said(secrets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:1/{secrets}")
    (line,) = say("webhook $HOOK_URL", tmp_path)
    assert "http://127.0.0.1:1 does not answer: Connection refused" in line


def test_an_answer_that_drips_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "SECONDS", 0.3)

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b" ")

    with listening_at(drip) as url:
        (line,) = say(f"webhook {url}/x", tmp_path)
    assert "not sent to webhook 127.0.0.1" in line


@pytest.mark.parametrize("value", [None, "", " ", "T0KENS3CRET", "https://x y/T0KENS3CRET", "file:///T0KENS3CRET"])
def test_a_variable_without_a_url_is_said(
    value: str | None, secrets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_URL") if value is None else monkeypatch.setenv("HOOK_URL", value)
    (line,) = say("webhook $HOOK_URL", tmp_path)
    assert f"the variable HOOK_URL {'holds no URL of a server' if (value or '').strip() else 'is not set'}" in line
    assert secrets not in line


@pytest.mark.parametrize(("to", "name"), [("github a/b", "GITHUB_TOKEN"), ("gitlab 42", "GITLAB_TOKEN")])
def test_a_token_that_is_not_set_is_said(
    to: str, name: str, secrets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name)
    assert f"not sent to {to}: the variable {name} is not set" in say(to, tmp_path)[0]


# What they are sent


def test_slack_gets_blocks_of_plain_text(server: Server, secrets: str, tmp_path: Path) -> None:
    say("slack $HOOK_URL", tmp_path, event(test="a.py::t[<!channel> & *x*]", machine="<b>"))
    (message,) = server.messages
    assert message["text"] == "performance: 1 new on &lt;b&gt;"
    header, section = message["blocks"]
    assert (header["type"], header["text"]["text"]) == ("header", "performance: 1 new on <b>")
    assert section["text"]["type"] == "plain_text"
    assert section["text"]["text"].splitlines() == [
        "NEW: a.py::t[<!channel> & *x*] on <b>",
        "resnet50 on 1 GPU (box): 870.0 images/s, 13.0 % slower than 1,000",
        "owner team-vision",
        "pytest 'a.py::test_b[1]'",
    ]


def test_slack_gets_no_more_blocks_than_it_takes(server: Server, secrets: str, tmp_path: Path) -> None:
    say("slack $HOOK_URL", tmp_path, *(event(test=f"a.py::test_{number}") for number in range(200)))
    (message,) = server.messages
    assert len(message["blocks"]) <= 50
    assert message["blocks"][-1]["text"]["text"] == "and 160 more, which the session's summary has"


def test_teams_gets_a_card_that_is_not_too_long(server: Server, secrets: str, tmp_path: Path) -> None:
    say("teams $HOOK_URL", tmp_path, *(event(test=f"a.py::test[{'x' * 5000}{number}]") for number in range(200)))
    (message,) = server.messages
    (attachment,) = message["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attachment["content"]["body"][0]["inlines"][0]["text"] == "performance: 200 new on box"
    assert len(json.dumps(message)) < 28_000


def program(folder: Path, text: str) -> Path:
    path = folder / "tell.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_command_gets_the_json(tmp_path: Path) -> None:
    program(tmp_path, 'cat > "$1"')
    assert say("command ./tell.sh 'two words.json'", tmp_path) == ["notified command ./tell.sh: 1 new"]
    message = json.loads((tmp_path / "two words.json").read_text())
    assert (message["schema"], message["session"]) == (1, "s-1")
    assert message["events"][0]["kind"] == "new"


def test_a_command_need_not_read(tmp_path: Path) -> None:
    program(tmp_path, "exit 0")
    many = [event(test=f"a.py::test_{number}") for number in range(500)]
    assert say("command ./tell.sh", tmp_path, *many) == ["notified command ./tell.sh: 500 new"]


@pytest.mark.parametrize(
    ("text", "says"),
    [("exit 3", "it ended with exit status 3"), ("sleep 3600", "it took more than 0.2 s, and was killed")],
)
def test_a_command_that_fails_is_said(text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "_COMMAND_SECONDS", 0.2 if "sleep" in text else 60.0)
    program(tmp_path, text)
    assert says in say("command ./tell.sh", tmp_path)[0]


def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert "not sent to command ./tell.sh: it can't be started: No such file" in say("command ./tell.sh", tmp_path)[0]


def test_a_command_of_an_owner_gets_that_owners_events(tmp_path: Path) -> None:
    program(tmp_path, 'cat > "$1"')
    to = "owner=team-vision command ./tell.sh vision\ncommand ./tell.sh rest"
    say(to, tmp_path, event(), event(test="b.py::b", owner="team-text"), event(test="c.py::c", owner=""))
    told = {name: json.loads((tmp_path / name).read_text())["events"] for name in ("vision", "rest")}
    assert {name: [one["test"] for one in events] for name, events in told.items()} == {
        "vision": ["a.py::test_b[1]"],
        "rest": ["b.py::b", "c.py::c"],
    }


def test_an_event_of_several_owners_goes_to_each_of_them(tmp_path: Path) -> None:
    program(tmp_path, 'cat > "$1"')
    to = "owner=@ada command ./tell.sh ada\nowner=@org/text command ./tell.sh text\ncommand ./tell.sh rest"
    say(to, tmp_path, event(owner="@ada @org/text"))
    assert [(tmp_path / name).exists() for name in ("ada", "text", "rest")] == [True, True, False]


def test_where_the_file_cannot_be_written_the_next_session_tells_again(tmp_path: Path) -> None:
    program(tmp_path, "exit 0")
    found, _ = deliveries(channels("command ./tell.sh"), [event()], tmp_path)
    (tmp_path / telling.NAME).mkdir()
    done, again = tell(found, tmp_path, tmp_path)
    assert done == "notified command ./tell.sh: 1 new"
    assert again.startswith("the next session will notify again of the same, because this one could not note it: ")


@pytest.mark.parametrize("to", ["webhook $HOOK_URL", "slack $HOOK_URL", "teams $HOOK_URL", "github ada/nets"])
def test_no_channel_gets_the_password_of_a_test_s_name(to: str, server: Server, secrets: str, tmp_path: Path) -> None:
    say(to, tmp_path, event(test="a.py::b[https://PASSWORD@host]", headline="password: PASSWORD", rerun="x"))
    assert "PASSWORD" not in repr(server.posted) + repr(server.issues)
    assert len(server.posted) + len(server.issues) == 1


def test_a_url_with_a_login_is_refused_with_what_can_send_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_URL", server.url.replace("//", "//ann:PASSWORD@"))
    (line,) = say("webhook $HOOK_URL", tmp_path)
    assert "the variable HOOK_URL holds a URL with a user or a password, which no request sends" in line
    assert ("PASSWORD" in line, server.asked) == (False, [])


def test_an_api_is_not_asked_by_a_url_with_a_login(
    server: Server, secrets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", server.url.replace("//", "//ann:PASSWORD@"))
    (line,) = say("github ada/nets", tmp_path)
    assert f"the URL of {server.url} has a user or a password, which no request sends" in line
    assert ("PASSWORD" in line, server.asked) == (False, [])


def test_what_one_channel_takes_later_lets_the_others_forget_nothing(tmp_path: Path) -> None:
    both = "command ./tell.sh\ncommand ./tell.sh late"
    program(tmp_path, 'test -z "$1"')
    assert say(both, tmp_path)[0] == "notified command ./tell.sh: 1 new"
    program(tmp_path, "exit 0")
    assert say(both, tmp_path) == ["notified command ./tell.sh: 1 new"]
    assert say(both, tmp_path) == []
