"""Whole sessions that notify: each change once, whatever the server does, and never a secret."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pytest_tfperf.features.notify import telling
from tests.features.notify.conftest import SECRET
from tests.helpers.http_server import Answer
from tests.helpers.inner import Finished, Project
from tests.helpers.notified_server import Server
from tests.helpers.patience import PATIENCE_SECONDS
from tests.helpers.repositories import git

EVEN = "nets:even-b4-replicated-device"
TESTS = """
    from pathlib import Path

    def test_even(throughput, on):
        model = "nets:raising" if Path("broken").exists() else "nets:even"
        throughput.check(tiny(4, model), on=on)

    def test_uneven(throughput, on):
        throughput.check(tiny(4, "nets:uneven"), on=on)
"""
EVEN_ID, UNEVEN_ID = "test_it.py::test_even", "test_it.py::test_uneven"
WELL, SLOW, SLOWER = "20.0", "25.0", "40.0"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that wait for their channels as long as the machine needs."""
    monkeypatch.setattr(telling, "SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def project(played_project: Project) -> Project:
    played_project.tests(TESTS)
    played_project.write("even", WELL)
    played_project.write("uneven", WELL)
    for workload in (EVEN, EVEN.replace("even", "uneven")):
        played_project.baseline(workload, value=4 / 20, runs=5, between_runs=0.002)
    return played_project


def run(project: Project, server: Server, *arguments: str, to: str = "webhook $HOOK", **more: Any) -> Finished:
    url = f"{server.url}/services/{SECRET}?key={SECRET}"
    return project.run("-m", "cpu", *arguments, **{"TFPERF_NOTIFY": to, "HOOK": url} | more)


def events(server: Server) -> list[tuple[str, str, str]]:
    """Kind, test and figure of each event, message by message; forgets them."""
    posted, server.posted = server.messages, []
    return [(one["kind"], one["test"], one["figure"]) for body in posted for one in body["events"]]


def test_each_change_is_told_once(project: Project, server: Server) -> None:
    told = []
    for pace in (SLOW, SLOW, SLOWER, WELL, WELL):
        project.write("even", pace)
        run(project, server)
        told.append(events(server))
    loss = EVEN_ID, "throughput"
    assert told == [[("new", *loss)], [], [("worse", *loss)], [("recovered", *loss)], []]


def test_the_message_has_what_a_reader_needs(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    said = run(project, server).text
    (message,) = server.messages
    (loss,) = message["events"]
    assert (message["schema"], message["session"]) == (1, next(iter(project.history.newest_sessions()))[0])
    assert (loss["machine"], round(loss["change"], 2), loss["rerun"]) == ("box", -0.2, f"pytest {EVEN_ID}")
    assert "20.0 % slower than 0.2" in loss["headline"]
    assert "notified webhook $HOOK: 1 new" in said


def test_what_was_not_sent_is_sent_with_the_next_session(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    server.misbehaves = lambda method, path: Answer(503, b"")
    failed = run(project, server)
    assert f"1 event not sent to webhook $HOOK: {server.url} fails (503 Service Unavailable). The next" in failed.text
    assert failed.status == 1  # of the regression
    server.misbehaves = lambda method, path: None
    run(project, server)
    assert events(server) == [("new", EVEN_ID, "throughput")]


def test_what_is_over_before_it_could_be_sent_is_not_told(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    server.misbehaves = lambda method, path: Answer(503, b"")
    run(project, server)
    server.misbehaves = lambda method, path: None
    project.write("even", WELL)
    run(project, server)
    assert events(server) == []


def test_a_test_that_can_no_longer_be_measured_is_missing_until_it_is(project: Project, server: Server) -> None:
    run(project, server)
    project.write("broken", "")
    run(project, server)
    (message,) = server.messages
    assert "the layers do not fit" in message["events"][0]["headline"]
    assert events(server) == [("missing", EVEN_ID, "")]
    (project.folder / "broken").unlink()
    run(project, server)
    assert events(server) == [("recovered", EVEN_ID, "")]


def test_a_test_that_was_never_measured_is_not_missing(project: Project, server: Server) -> None:
    project.write("broken", "")
    run(project, server)
    assert events(server) == []


def test_tests_that_are_not_selected_are_neither_missing_nor_recovered(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    run(project, server)
    events(server)
    run(project, server, "-k", "uneven")
    assert events(server) == []


PARAMETERS = """
    @pytest.mark.parametrize("net", ["even"])
    def test_even(throughput, on, net):
        throughput.check(tiny(4, f"nets:{net}"), on=on)
"""


def rename(project: Project) -> None:
    """The test that channels were told of has another name, and is well."""
    project.write("even", WELL)
    project.tests(TESTS.replace("def test_even(", "def test_steady("))


def test_a_red_test_that_was_renamed_is_told_once_as_no_longer_measured(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    run(project, server)
    rename(project)
    said = run(project, server).text
    run(project, server)
    assert events(server) == [("new", EVEN_ID, "throughput"), ("gone", EVEN_ID, "throughput")]
    assert "notified webhook $HOOK: 1 no longer measured" in said
    assert json.loads((project.folder / ".tfperf/told.json").read_text())["channels"] == {}


def test_what_was_measured_before_a_repositorys_first_commit_can_be_gone(project: Project, server: Server) -> None:
    git(project.folder, "init", "--quiet")
    project.write("even", SLOW)
    run(project, server)
    rename(project)
    assert "notified webhook $HOOK: 1 no longer measured" in run(project, server).text


def test_the_issue_of_a_test_whose_file_was_deleted_is_closed(project: Project, server: Server) -> None:
    project.tests(TESTS, name="test_old.py")
    project.write("even", SLOW)
    github = {"to": "github ada/nets", "GITHUB_TOKEN": SECRET, "GITHUB_API_URL": server.url}
    run(project, server, **github)
    (project.folder / "test_old.py").unlink()
    run(project, server, **github)
    states = {issue["title"]: issue["state"] for issue in server.issues}
    assert states == {"test_it.py::test_even on box": "open", "test_old.py::test_even on box": "closed"}
    (comment,) = [comment for issue in server.issues for comment in issue["comments"]]
    assert "test_old.py no longer has this test, so it is no longer measured: renamed, or deleted" in comment


def collected_in_part(project: Project) -> tuple[str, ...]:
    project.tests(TESTS.replace("def test_even(", "def test_steady("))
    return ("test_it.py::test_uneven",)


def faulty(project: Project) -> tuple[str, ...]:
    project.write("test_it.py", "import missing")
    project.tests("def test_a(throughput, on): throughput.check(tiny(4, 'nets:uneven'), on=on)", name="test_other.py")
    return ("--continue-on-collection-errors",)


def skipped(project: Project) -> tuple[str, ...]:
    project.write("test_it.py", "import pytest\npytest.skip('no network', allow_module_level=True)")
    project.tests("def test_a(throughput, on): throughput.check(tiny(4, 'nets:uneven'), on=on)", name="test_other.py")
    return ()


def last_failed(project: Project) -> tuple[str, ...]:
    return ("--lf",)


def with_other_parameters(project: Project) -> tuple[str, ...]:
    """An option or a variable may choose them for a session."""
    project.write("even", WELL)
    project.tests(PARAMETERS.replace('["even"]', '["uneven"]'))
    return ()


def of_another_machine(project: Project) -> tuple[str, ...]:
    rename(project)
    return ("--tfperf-machine=other",)


def commit_all(folder: Path) -> None:
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "--message", folder.name)


def of_another_project(project: Project) -> tuple[str, ...]:
    """Its commits are others, and its folder of results is the same."""
    shutil.rmtree(project.folder / ".git")
    commit_all(project.folder)
    rename(project)
    return ()


@pytest.mark.parametrize(
    "change",
    [with_other_parameters, collected_in_part, faulty, skipped, last_failed, of_another_machine, of_another_project],
)
def test_a_red_test_that_may_still_exist_stays_as_it_is(
    change: Callable[[Project], tuple[str, ...]], project: Project, server: Server
) -> None:
    test = EVEN_ID
    if change is with_other_parameters:
        project.tests(PARAMETERS)
        test = f"{EVEN_ID}[even]"
    if change is of_another_project:
        commit_all(project.folder)
    project.write("even", SLOW)
    run(project, server)
    told = (project.folder / ".tfperf/told.json").read_text()
    events(server)
    run(project, server, *change(project))
    assert "gone" not in [kind for kind, _, _ in events(server)]
    assert test in told
    assert test in (project.folder / ".tfperf/told.json").read_text()


@pytest.mark.parametrize("option", ["--tfperf-smoke", "--update-baselines", "--tfperf-inject-slowdown=0.5"])
def test_smoke_runs_recordings_and_slowdowns_on_purpose_tell_nothing(
    option: str, project: Project, server: Server
) -> None:
    project.write("even", SLOW)
    run(project, server, option)
    assert server.posted == []


def test_a_recording_tells_no_recovery(project: Project, server: Server) -> None:
    """Its runs are judged against nothing, so the session after it tells."""
    run(project, server)
    project.write("broken", "")
    run(project, server)
    assert events(server) == [("missing", EVEN_ID, "")]
    (project.folder / "broken").unlink()
    run(project, server, "--update-baselines")
    assert events(server) == []


def test_a_comparison_tells_nothing_of_tests_that_it_could_not_run(project: Project, server: Server) -> None:
    run(project, server)
    project.write("broken", "")
    compared = run(project, server, f"--tfperf-against={sys.executable}")
    assert ("the layers do not fit" in compared.text, server.posted) == (True, [])


def test_each_owner_and_each_channel_is_told_apart(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    said = run(
        project, server, to="slack $HOOK\nwebhook $OTHER\nowner=vision webhook $HOOK", OTHER=f"{server.url}/other"
    )
    assert sorted(path for path, _ in server.posted) == ["/other", f"/services/{SECRET}"]
    assert "notified slack $HOOK: 1 new" in said.text


def test_news_without_a_channel_are_said(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    said = run(project, server, to="owner=vision webhook $HOOK").text
    assert "1 event not sent, of no owner: tfperf_notify has no channel for it. Add a line without owner=" in said


def test_an_empty_variable_is_said_and_is_no_error(project: Project, server: Server) -> None:
    assert (
        "nobody was notified: TFPERF_NOTIFY is empty, as a secret is in jobs that" in run(project, server, to="").text
    )


def test_a_line_that_names_no_channel_is_a_usage_error(project: Project, server: Server) -> None:
    refused = run(project, server, to=f"slack ftp://x/{SECRET}")
    assert "TFPERF_NOTIFY: line 1: slack must be followed by" in refused.text
    assert (refused.status, SECRET in refused.text) == (4, False)


@pytest.mark.parametrize("fault", [None, 404, 500])
def test_no_secret_is_shown_or_kept(fault: int | None, project: Project, server: Server) -> None:
    project.write("even", SLOW)
    server.misbehaves = lambda method, path: Answer(fault, path.encode()) if fault else None
    url = f"{server.url}/services/{SECRET}?key={SECRET}"
    to = f"webhook {url}\nslack $HOOK\ngithub ada/nets\ncommand ./tell.sh --key={SECRET}"
    said = run(project, server, "-v", to=to, GITHUB_TOKEN=SECRET, GITHUB_API_URL=server.url).text
    kept = [path for path in project.folder.rglob("*") if path.is_file()]
    assert SECRET not in said
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []


def test_a_server_that_never_answers_holds_nothing_up(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "SECONDS", 0.5)
    project.write("even", SLOW)
    over = Event()

    def waits(method: str, path: str) -> None:
        over.wait()

    server.misbehaves = waits
    try:
        said = run(project, server)
    finally:
        over.set()
    assert "1 event not sent to webhook $HOOK: " in said.text  # by the limit of the request, or of all channels
    assert said.status == 1  # of the regression


def test_a_slow_server_does_not_hold_up_the_others(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    other_is_told = Event()

    def waits_for_the_other(method: str, path: str) -> None:
        other_is_told.set() if path == "/other" else other_is_told.wait()

    server.misbehaves = waits_for_the_other
    said = run(project, server, to="webhook $HOOK\nwebhook $OTHER", OTHER=f"{server.url}/other").text
    assert "notified webhook $HOOK: 1 new\nnotified webhook $OTHER: 1 new" in said


def test_a_damaged_file_is_moved_aside_and_all_is_told_again(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    run(project, server)
    events(server)
    project.write(".tfperf/told.json", "{")
    said = run(project, server).text
    assert "told.json was damaged. It is now told.json.damaged-" in said
    assert events(server) == [("new", EVEN_ID, "throughput")]


def test_a_file_of_a_newer_version_is_left_alone(project: Project, server: Server) -> None:
    project.write("even", SLOW)
    newer = project.write(".tfperf/told.json", json.dumps({"version": 99, "channels": 7}))
    said = run(project, server).text
    assert f"nobody was notified: {newer} has version 99 of its format" in said
    assert (events(server), json.loads(newer.read_text())["version"]) == ([], 99)
