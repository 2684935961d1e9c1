"""Three simulated weeks: two regressions, a recovery, a machine that is away, and two acknowledged losses."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.helpers.notified_server import Server
from tools.simulated_weeks import CPU_MACHINE, GPU_MACHINE
from tools.told_weeks import (
    ENDS,
    GETS_WORSE,
    MENDED,
    SLOWER,
    WANTED,
    a_job_that_tells,
    issues,
    live_through,
    told,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("weeks")
    with a_job_that_tells(folder) as made:
        live_through(folder)
        yield made


def test_a_webhook_gets_each_change_once_and_nothing_else(server: Server) -> None:
    assert told(server) == WANTED


def test_losses_of_the_same_night_are_one_message(server: Server) -> None:
    assert [len(message["events"]) for message in server.messages] == [2, *[1] * (len(WANTED) - 2)]


def test_each_test_and_machine_has_one_issue(server: Server) -> None:
    assert issues(server) == [
        ("open", f"{GETS_WORSE} on {GPU_MACHINE}", ["WORSE"]),
        ("open", f"{ENDS} on {GPU_MACHINE}", ["ACKNOWLEDGEMENT ENDS", "ACKNOWLEDGEMENT ENDED"]),
        ("closed", f"{MENDED} on {GPU_MACHINE}", ["RECOVERED"]),
        ("open", f"{SLOWER} on {GPU_MACHINE}", []),
        ("closed", f"machine {CPU_MACHINE}", ["RECOVERED"]),
    ]


def test_a_worse_loss_is_told_with_what_is_known_of_it(server: Server) -> None:
    (worse,) = [event for message in server.messages for event in message["events"] if event["kind"] == "worse"]
    known = "WORSE than acknowledged, which was .* slower until 2026-12-20: upstream bug 123"
    assert re.search(rf"; {known}$", worse["headline"])
    assert (worse["since"][:10], worse["acknowledged_until"]) == ("2026-11-03", "2026-12-20")
    assert worse["change"] == pytest.approx(-0.093, abs=0.01)
