"""One issue for each test on GitHub and GitLab."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.features.notify.news import Event, EventKind
from tests.features.notify.test_sending import event, say
from tests.helpers.comment_server import PERSON
from tests.helpers.http_server import Answer
from tests.helpers.notified_server import Server


@pytest.fixture(params=["github ada/nets", "gitlab ada/group/nets"])
def to(request: pytest.FixtureRequest, secrets: str) -> str:
    return str(request.param)


def text(issue: dict[str, str]) -> str:
    return issue.get("body") or issue["description"]


def later(kind: EventKind, day: int = 28, **more: object) -> Event:
    return event(kind, time=f"2026-11-{day}T02:15:00+00:00", **more)


def test_a_loss_opens_an_issue_that_says_all(to: str, server: Server, tmp_path: Path) -> None:
    assert say(to, tmp_path) == [f"notified {to}: 1 new"]
    (issue,) = server.issues
    assert (issue["title"], issue["labels"]) == ("a.py::test_b[1] on box", ["tfperf"])
    mark, *lines = text(issue).splitlines()
    assert mark.startswith("<!-- tfperf: ")
    assert lines == [
        "```text",
        "NEW: a.py::test_b[1] on box",
        "resnet50 on 1 GPU (box): 870.0 images/s, 13.0 % slower than 1,000",
        "owner team-vision",
        "pytest 'a.py::test_b[1]'",
        "```",
        "",
        "pytest-tfperf edits this text, and closes the issue when nothing of it is left.",
    ]


def test_where_nothing_changed_nobody_is_asked(to: str, server: Server, tmp_path: Path) -> None:
    say(to, tmp_path)
    asked = len(server.asked)
    assert say(to, tmp_path) == []
    assert len(server.asked) == asked


def test_a_loss_that_grows_edits_the_issue_and_comments_on_it(to: str, server: Server, tmp_path: Path) -> None:
    say(to, tmp_path, event(interval=(-0.14, -0.12)))
    say(to, tmp_path, later(EventKind.NEW, change=-0.3, interval=(-0.31, -0.29), headline="30.0 % slower"))
    (issue,) = server.issues
    assert "WORSE: a.py::test_b[1] on box\n30.0 % slower" in text(issue)
    assert [comment.splitlines()[1] for comment in issue["comments"]] == ["WORSE: a.py::test_b[1] on box"]


def test_a_recovery_closes_the_issue_with_a_comment_and_a_new_loss_opens_it_again(
    to: str, server: Server, tmp_path: Path
) -> None:
    states = []
    for kind in (EventKind.NEW, EventKind.RECOVERED, EventKind.NEW):
        say(to, tmp_path, later(kind))
        states.append(server.issues[0]["state"])
    (issue,) = server.issues
    assert states == ["open", "closed", "open"]
    assert [comment.splitlines()[1].partition(":")[0] for comment in issue["comments"]] == ["RECOVERED", "NEW"]


def test_an_issue_is_closed_when_all_of_its_figures_have_recovered(to: str, server: Server, tmp_path: Path) -> None:
    say(to, tmp_path, event(), event(figure="peak_memory", headline="peak memory 2 GiB"))
    say(to, tmp_path, later(EventKind.RECOVERED))
    (issue,) = server.issues
    assert (issue["state"], "peak memory 2 GiB" in text(issue), "870.0 images/s" in text(issue)) == (
        "open",
        True,
        False,
    )
    say(to, tmp_path, later(EventKind.RECOVERED, figure="peak_memory"))
    assert issue["state"] == "closed"


def test_a_second_figure_that_is_lost_later_is_commented_on(to: str, server: Server, tmp_path: Path) -> None:
    say(to, tmp_path)
    say(to, tmp_path, later(EventKind.NEW, figure="peak_memory", headline="peak memory 2 GiB"))
    (issue,) = server.issues
    assert [comment.splitlines()[2] for comment in issue["comments"]] == ["peak memory 2 GiB"]
    assert ("870.0 images/s" in text(issue), "peak memory 2 GiB" in text(issue)) == (True, True)


def test_each_test_and_machine_has_its_own_issue(to: str, server: Server, tmp_path: Path) -> None:
    say(to, tmp_path, event(), event(test="b.py::b"), event(machine="other"), event(test="", figure="software"))
    titles = {issue["title"] for issue in server.issues}
    assert titles == {"a.py::test_b[1] on box", "b.py::b on box", "a.py::test_b[1] on other", "machine box"}


def test_a_job_without_its_file_opens_no_second_issue(to: str, server: Server, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        say(to, tmp_path / folder)
    (issue,) = server.issues
    assert issue["comments"] == []


def test_an_issue_is_found_behind_a_hundred_others(to: str, server: Server, tmp_path: Path) -> None:
    say(to, tmp_path)
    for number in range(130):
        server.issues.append(server.issues[0] | {"id": number, "body": "", "description": "by hand"})
    say(to, tmp_path, later(EventKind.RECOVERED))
    assert server.issues[0]["state"] == "closed"


def test_an_issue_in_which_a_person_quotes_the_mark_is_left_alone(to: str, server: Server, tmp_path: Path) -> None:
    say(to, tmp_path)
    server.issues.append(server.issues[0] | {"user": PERSON, "author": PERSON, "number": 2, "iid": 2})
    say(to, tmp_path, later(EventKind.RECOVERED))
    assert [issue["state"] for issue in server.issues] == ["closed", "open"]


def test_issues_that_were_written_before_a_fault_are_not_written_again(to: str, server: Server, tmp_path: Path) -> None:
    both = event(test="a.py::a"), event(test="b.py::b")
    server.misbehaves = lambda method, path: None if method == "GET" or not server.issues else Answer(500, b"")
    (line,) = say(to, tmp_path, *both)
    assert line.startswith(f"1 event not sent to {to}: ")
    server.misbehaves = lambda method, path: None
    assert say(to, tmp_path, *both) == [f"notified {to}: 1 new"]
    assert [issue["title"] for issue in server.issues] == ["a.py::a on box", "b.py::b on box"]


def test_a_token_that_may_not_label_is_said(to: str, server: Server, tmp_path: Path) -> None:
    server.may_label = False
    (line,) = say(to, tmp_path)
    assert line == (f"notified {to}: 1 new. the token may not set the label tfperf, by which an issue is found again")


def test_nothing_in_a_test_id_mentions_a_person_or_ends_the_block(to: str, server: Server, tmp_path: Path) -> None:
    say(to, tmp_path, event(test="a.py::t[```\n@ada --> <b>]"))
    block = text(server.issues[0])
    fence = block.splitlines()[1].removesuffix("text")
    assert (len(fence), block.count(fence), block.index("@ada") < block.rindex(fence)) == (4, 2, True)


def test_the_token_goes_with_each_request(
    server: Server, secrets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFPERF_GITHUB_TOKEN", "0WN")
    say("github ada/nets", tmp_path)
    assert {secret for _, _, secret in server.asked} == {"Bearer 0WN"}
