"""The comment on a pull request: what it says, and the requests that write it, against a server with their shapes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import FailsHereOnly, TfperfError
from pytest_tfperf.features.ci.outputs import comment
from tests.features.ci.conftest import summary
from tests.helpers.comment_server import BOT, PERSON, Server
from tests.helpers.measurements import interleaved, session_verdict

GREEN, USAGE = 0, 4
RERUN = RerunCommand(" --tfperf-base=origin/main")


# What it says


def test_it_has_a_line_a_table_of_what_moved_and_the_command() -> None:
    slower, same = interleaved(test="a.py::slower"), interleaved(Outcome.PASS, 1.0, test="a.py::same")
    assert comment(SessionResult(results=[slower, same]), RERUN).splitlines() == [
        "**1 of 2 throughput tests regressed; 1 passed.**",
        "",
        "| outcome | test | change | 95 % CI | by |",
        "| --- | --- | --- | --- | --- |",
        "| REGRESSED | a.py::slower | -10.0 % | -11.0 % to -9.0 % | 3 pairs |",
        "",
        "Again: `pytest a.py::slower --tfperf-base=origin/main`",
    ]


def test_where_nothing_moved_it_is_one_line() -> None:
    record = SessionResult(results=[interleaved(Outcome.PASS, 1.0)])
    assert comment(record, RERUN) == "**1 of 1 throughput test passed.**\n"


def test_a_ratio_that_falls_short_is_not_called_a_change() -> None:
    text = comment(SessionResult(results=[interleaved(ratio=1.99, a={"at_least": 2.5})]), RERUN)
    assert "ratio 1.990, 20.4 % below the required 2.500" in text
    assert "+99" not in text


def test_it_begins_with_what_all_tests_have_in_common() -> None:
    record = SessionResult(results=[interleaved(Outcome.PASS, 1.0)], verdicts=[session_verdict(kind="software")])
    assert comment(record, RERUN).startswith("**Software REGRESSED ")


def test_a_baseline_that_was_refused_is_said() -> None:
    record = SessionResult(refused={"a.py::test": TfperfError("too noisy")})
    assert "REFUSED: a.py::test" in comment(record, RERUN)


def test_what_was_not_compared_is_said() -> None:
    errors = {"a.py::test": TfperfError("it died"), "a.py::other": FailsHereOnly("the loss is NaN")}
    record = SessionResult(remarks=["test_new: measured, not compared: NEW"], not_measured=errors)
    text = comment(record, RERUN)
    assert "test\\_new: measured, not compared: NEW" in text
    assert "NOT MEASURED: a.py::test: it died" in text
    assert "\n\nFAILED: a.py::other: the loss is NaN" in text
    assert text.startswith("**1 of 2 throughput tests failed on one side only; 1 could not be measured.**")


def test_a_test_id_makes_no_table_link_or_html() -> None:
    text = comment(SessionResult(results=[interleaved(test="a.py::t[x|[y](z)<b>]")]), RERUN)
    (row,) = [line for line in text.splitlines() if line.startswith("| REGRESSED")]
    assert (row.count("|"), "<b>" in row) == (6, False)


@pytest.mark.parametrize("text", ["@ada", "#12", "!7"])
def test_nothing_in_a_test_id_notifies_a_person_or_refers_to_an_issue(text: str) -> None:
    one = interleaved(test=f"a.py::t[{text}]")
    refused = SessionResult(results=[one], refused={f"a.py::u[{text}]": TfperfError("too noisy")}, remarks=[text])
    prose = [line for line in comment(refused, RERUN).splitlines() if not line.startswith("Again: `")]
    assert [line for line in prose if text in line] == []
    assert text not in re.sub(r"```text\n.*?\n```", "", summary([one]), flags=re.DOTALL)


def test_the_command_is_one_line_of_code_whatever_the_test_id_holds() -> None:
    one = interleaved(test="a.py::t[\n\n@ada`]")
    assert comment(SessionResult(results=[one]), RERUN).splitlines()[-1].count("`") == 2


# Who gets it


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
    for _ in range(130):
        server.comment("by a person", PERSON)
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


@pytest.mark.parametrize("me", [None, BOT, PERSON], ids=["unknown", "a bot", "a person"])
def test_only_its_own_comment_is_edited(me: dict[str, str] | None, server: Server, job: str, tmp_path: Path) -> None:
    quoted = "<!-- tfperf: throughput -->\nquoted by a person"
    server.comment(quoted, PERSON | {"login": "eve", "username": "eve"})
    server.me = me if me or job == "github" else BOT  # every token of GitLab may ask whose it is
    post(tmp_path, "one")
    post(tmp_path, "two")
    assert [one["body"] for one in server.comments] == [quoted, "<!-- tfperf: throughput -->\ntwo"]


@pytest.mark.parametrize("name", ["a --> @ada", "<b>", "a\nb", "x" * 81])
def test_a_name_that_would_end_the_mark_is_refused(name: str, server: Server, job: str, tmp_path: Path) -> None:
    assert post(tmp_path, "one", f"--name={name}") == USAGE
    assert server.asked == []


def test_without_a_pull_request_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    monkeypatch.delenv("CI_MERGE_REQUEST_IID", raising=False)
    assert post(tmp_path, "one") == GREEN
    assert "no comment, because this job is not of a pull request" in capsys.readouterr().out
