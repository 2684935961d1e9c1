"""Three simulated weeks: two regressions, a recovery, a machine that is away, and two acknowledged losses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.notified_server import Server, serving
from tools.simulated_weeks import CPU_MACHINE, GPU_MACHINE
from tools.told_weeks import CHANNELS, ENDS, GETS_WORSE, MENDED, SLOWER, live_through

EVENTS = [
    ("2026-11-03", "new", GETS_WORSE),
    ("2026-11-03", "new", ENDS),
    ("2026-11-05", "new", MENDED),
    ("2026-11-06", "ends", ENDS),
    ("2026-11-10", "recovered", MENDED),
    ("2026-11-12", "worse", GETS_WORSE),
    ("2026-11-14", "new", SLOWER),
    *((f"2026-11-{day}", "silent", CPU_MACHINE) for day in (15, 16, 17)),
    ("2026-11-18", "recovered", CPU_MACHINE),
    ("2026-11-21", "ended", ENDS),
]
"""The day, the kind and the subject of all that a person wants to hear of."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving() as made, pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("weeks")
        patch.chdir(folder)
        patch.delenv("TFPERF_GITHUB_TOKEN", raising=False)
        for name, value in {**CHANNELS, "HOOK_URL": made.url, "GITHUB_API_URL": made.url}.items():
            patch.setenv(name, value)
        live_through(folder)
        yield made


def test_a_webhook_gets_each_change_once_and_nothing_else(server: Server) -> None:
    told = [
        (event["time"][:10], event["kind"], event["test"] or event["machine"])
        for message in server.messages
        for event in message["events"]
    ]
    assert told == EVENTS


def test_losses_of_the_same_night_are_one_message(server: Server) -> None:
    assert [len(message["events"]) for message in server.messages] == [2, *[1] * (len(EVENTS) - 2)]


@pytest.mark.parametrize(
    ("title", "state", "comments"),
    [
        (f"{GETS_WORSE} on {GPU_MACHINE}", "open", ["WORSE"]),
        (f"{ENDS} on {GPU_MACHINE}", "open", ["ACKNOWLEDGEMENT ENDS", "ACKNOWLEDGEMENT ENDED"]),
        (f"{MENDED} on {GPU_MACHINE}", "closed", ["RECOVERED"]),
        (f"{SLOWER} on {GPU_MACHINE}", "open", []),
        (f"machine {CPU_MACHINE}", "closed", ["RECOVERED"]),
    ],
)
def test_each_test_has_one_issue(title: str, state: str, comments: list[str], server: Server) -> None:
    (issue,) = [issue for issue in server.issues if issue["title"] == title]
    assert issue["state"] == state
    assert [comment.splitlines()[1].partition(":")[0] for comment in issue["comments"]] == comments


def test_there_are_no_other_issues(server: Server) -> None:
    assert len(server.issues) == 5


def test_the_worse_loss_is_told_with_what_is_known_of_it(server: Server) -> None:
    (worse,) = [e for message in server.messages for e in message["events"] if e["kind"] == "worse"]
    assert worse["headline"].endswith("acknowledged: upstream bug 123")
    assert (worse["since"][:10], worse["acknowledged_until"]) == ("2026-11-03", "2026-12-20")
    assert worse["change"] == pytest.approx(-0.093, abs=0.01)
