"""`tfperf notify`, from a history."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.notify import telling
from pytest_tfperf.features.notify.news import Event, EventKind
from pytest_tfperf.stores.history import History
from tests.helpers.http_server import Answer
from tests.helpers.measurements import interleaved, measurement, session_verdict, verdict
from tests.helpers.notified_server import Server

GREEN, STALE, USAGE, NOT_SENT = 0, 1, 4, 6
SILENT = ("notify", "--silent-for", "26h")
NOW = datetime.now(UTC)


@pytest.fixture
def history(tmp_path: Path, secrets: str, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TFPERF_NOTIFY", "webhook $HOOK_URL")
    return History(tmp_path / ".tfperf" / "history.sqlite")


def add(history: History, session: str = "s-1", *, hours_ago: float = 1, **more: object) -> None:
    time = (NOW - timedelta(hours=hours_ago)).isoformat()
    history.append(measurement(session=session, time=time, **more))  # type: ignore[arg-type]


LOSS = verdict(Outcome.REGRESSED, -0.13)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = GREEN) -> str:
    assert cli.main([*arguments]) == status
    out, err = capsys.readouterr()
    return out + err


def test_a_session_of_the_history_is_told_once(
    history: History, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, verdict=LOSS, commit="abc")
    assert said(capsys, "notify") == "notified webhook $HOOK_URL: 1 new\n"
    assert said(capsys, "notify", "--session", "s-1") == "the channels know all of it\n"
    (message,) = server.messages
    assert (message["session"], [one["commit"] for one in message["events"]]) == ("s-1", ["abc"])


def test_a_dry_run_prints_what_would_be_sent_to_whom(
    history: History, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, verdict=LOSS)
    first, _, rest = said(capsys, "notify", "--dry-run").partition("\n")
    assert (first, json.loads(rest)["events"][0]["kind"]) == ("to webhook $HOOK_URL:", "new")
    assert server.asked == []
    assert said(capsys, "notify") == "notified webhook $HOOK_URL: 1 new\n"


def test_the_verdict_on_the_machine_is_told(
    history: History, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, verdict=verdict())
    history.append_verdict(session_verdict(), session="s-1", time=NOW.isoformat())
    said(capsys, "notify")
    assert [(one["test"], one["figure"]) for one in server.messages[0]["events"]] == [("", "machine")]


def test_the_latest_session_is_not_one_that_only_compared(
    history: History, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, verdict=LOSS)
    history.append(interleaved(session="s-2", time=NOW.isoformat()))
    said(capsys, "notify")
    assert server.messages[0]["session"] == "s-1"


@pytest.mark.parametrize(
    ("arguments", "to", "says"),
    [
        ((), "none", "tfperf_notify names no channel. Name one: "),
        (("--session", "s-9"), "webhook $HOOK_URL", "--session=s-9: the history has no such session"),
        (("--silent-for", "26h", "--session", "s-1"), "webhook $HOOK_URL", "in any session. Leave out --session"),
        ((), "slak x", "TFPERF_NOTIFY: line 1: unknown channel 'slak'. Did you mean 'slack'?"),
    ],
)
def test_what_cannot_be_told_is_said(
    arguments: tuple[str, ...],
    to: str,
    says: str,
    history: History,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add(history, verdict=LOSS)
    monkeypatch.setenv("TFPERF_NOTIFY", to)
    assert says in said(capsys, "notify", *arguments, status=USAGE)


@pytest.mark.parametrize("more", [(), ("--silent-for", "26h")])
def test_without_a_history_it_says_so(
    more: tuple[str, ...], history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no history yet" in said(capsys, "notify", *more, status=USAGE)


@pytest.mark.parametrize("to", ["webhook $HOOK_URL", "webhook $UNSET", "owner=ann webhook $HOOK_URL", "command false"])
def test_what_is_not_sent_is_no_success(
    to: str, history: History, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, verdict=LOSS)
    monkeypatch.setenv("TFPERF_NOTIFY", to)
    server.misbehaves = lambda method, path: Answer(503, b"")
    assert "1 event not sent" in said(capsys, "notify", status=NOT_SENT)


def test_one_of_two_channels_that_takes_nothing_is_no_success(
    history: History, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, verdict=LOSS)
    monkeypatch.setenv("TFPERF_NOTIFY", "webhook $HOOK_URL\nwebhook $UNSET")
    assert "notified webhook $HOOK_URL: 1 new" in said(capsys, "notify", status=NOT_SENT)


# Silent machines


def test_machines_that_nobody_measured_lately_are_named(
    history: History, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, hours_ago=30, machine="old")
    add(history, hours_ago=2, machine="fresh")
    lines = said(capsys, *SILENT, status=STALE).splitlines()
    assert [line.partition(": last measured ")[0] for line in lines[:2]] == ["measured  fresh", "SILENT    old"]
    assert re.search(r", 30 h \d+ min ago$", lines[1])
    assert [(one["kind"], one["machine"]) for one in server.messages[0]["events"]] == [("silent", "old")]


def test_a_silent_machine_is_told_once_a_day_and_when_it_is_back(
    history: History, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, hours_ago=30)
    for _ in range(2):
        said(capsys, *SILENT, status=STALE)
    add(history, "s-2", hours_ago=0)
    for _ in range(2):
        said(capsys, *SILENT)
    assert [one["kind"] for message in server.messages for one in message["events"]] == ["silent", "recovered"]


def test_a_machine_on_which_nothing_could_be_measured_does_not_recover_by_being_asked_for(
    history: History, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history)
    missing = Event(kind=EventKind.MISSING, machine="box", headline="none of 3 tests could be measured")
    telling.write(tmp_path / ".tfperf", {"webhook $HOOK_URL": {missing.topic: missing}})
    said(capsys, *SILENT)
    assert server.posted == []


def test_a_retired_machine_is_ignored(history: History, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    add(history, hours_ago=30, machine="old")
    add(history, machine="fresh")
    assert "old" not in said(capsys, *SILENT, "--ignore", "old")
    assert "old" not in said(capsys, *SILENT, "--machine", "fresh")
    assert server.posted == []


def test_what_was_told_of_a_retired_machine_is_over(
    history: History, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history, machine="old", hours_ago=30, verdict=LOSS)
    said(capsys, "notify")
    add(history, machine="fresh")
    for _ in range(2):
        said(capsys, *SILENT, "--ignore", "old")
    assert [one["kind"] for message in server.messages for one in message["events"]] == ["new", "gone"]
    assert telling.read(tmp_path / ".tfperf")[0] == {}


def test_the_age_is_given(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    add(history, hours_ago=30)
    assert "measured  box" in said(capsys, "notify", "--silent-for", "31h")
    assert "SILENT    box" in said(capsys, "notify", "--silent-for", "29h", status=STALE)


def test_no_channel_is_needed(
    history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TFPERF_NOTIFY")
    add(history, hours_ago=30)
    assert said(capsys, *SILENT, status=STALE).startswith("SILENT    box: last measured ")


def test_machines_are_named_for_silence_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Add --silent-for 26h" in said(capsys, "notify", "--ignore", "old", status=USAGE)


@pytest.mark.parametrize("option", ["--machine", "--ignore"])
def test_a_machine_that_is_unknown_is_refused(
    option: str, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    add(history)
    assert "unknown machine 'boxx'. Did you mean 'box'?" in said(capsys, *SILENT, option, "boxx", status=USAGE)


AHEAD = "a measurement of "


@pytest.mark.parametrize(
    ("hours", "status", "says"),
    [
        (
            (-9600, 240),
            STALE,
            f"SILENT    box: last measured .* 240 h.* ago; {AHEAD}.* does not count: the clock",
        ),
        ((-9600, 1), GREEN, f"measured  box: last measured .*, 1 h.* ago; {AHEAD}"),
        ((-9600,), STALE, f"SILENT    box: never measured at a time before now; {AHEAD}"),
        ((-0.5,), GREEN, "measured  box: last measured .* ago$"),
    ],
    ids=["silent since", "measured since", "never", "clocks of two hosts"],
)
def test_a_measurement_from_ahead_of_the_clock_does_not_count_as_the_last(
    hours: tuple[float, ...],
    status: int,
    says: str,
    history: History,
    server: Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number, ago in enumerate(hours):
        add(history, f"s-{number}", hours_ago=ago)
    assert re.match(says, said(capsys, *SILENT, status=status).splitlines()[0])
