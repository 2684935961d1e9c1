"""Three simulated weeks of nightly sessions, and what people are told of them.

    PYTHONPATH=. python -m tools.told_weeks       # prints each message, as docs/notifications.md quotes them

What happens: one test becomes slower and recovers, another becomes slower and stays so. Two known losses are
acknowledged on the second day: one gets worse, the other's acknowledgement ends. One machine is away for three nights.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from pytest_tfperf import cli
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.features.ack import command as ack
from pytest_tfperf.features.notify import command as notify
from pytest_tfperf.stores import acknowledgements
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.notified_server import Server, serving
from tools.simulated_weeks import (
    CPU_MACHINE,
    DAYS,
    FIRST_DAY,
    GPU_MACHINE,
    Change,
    baseline_rows,
    cpu_tests,
    gpu_tests,
    session_of,
)

MENDED = "perf_tests/test_models.py::test_inception3_device[8]"
SLOWER = "perf_tests/test_models.py::test_vgg16_device[8]"
GETS_WORSE = "perf_tests/test_multigpu.py::test_resnet50_device[4-replicated]"
ENDS = "perf_tests/test_multigpu.py::test_resnet50_device[8-parameter_server]"

STORY = (
    Change(GETS_WORSE, -0.06, since=1),
    Change(GETS_WORSE, -0.035, since=10),
    Change(ENDS, -0.06, since=1),
    Change(MENDED, -0.07, since=3, until=8),
    Change(SLOWER, -0.08, since=12),
)
ACKNOWLEDGED_ON = 1
UNTIL = {GETS_WORSE: "2026-12-20", ENDS: "2026-11-20"}
AWAY = range(13, 16)  # nights without a session of the machine without GPUs

CHANNELS = {"TFPERF_NOTIFY": "webhook $HOOK_URL\ngithub ada/nets", "GITHUB_TOKEN": "t0ken"}


def live_through(folder: Path, team: str = "") -> None:
    """Live through the weeks in a folder, which is the current one: sessions at night, a heartbeat in the morning.

    Whatever tells something is run again at once, as a job that is restarted: nothing may be told twice.

    Args:
        folder: gets baselines and histories.
        team: the URL of a server, to which each machine pushes a history of its own, and which the heartbeat asks; ""
            for one history of both machines.
    """
    store = BaselineStore(folder / "baselines", published=None)
    for machine, tests in ((GPU_MACHINE, gpu_tests()), (CPU_MACHINE, cpu_tests())):
        store.update(machine, baseline_rows(machine, tests))
    for day in range(DAYS):
        for machine in [GPU_MACHINE] if day in AWAY else [GPU_MACHINE, CPU_MACHINE]:
            place = folder / (machine if team else ".tfperf")
            append(History(place / "history.sqlite"), measured(machine, day, folder))
            tell("notify", "--history", str(place))
            if team:
                run("history", "--history", str(place), "push", team)
        with standing_at(FIRST_DAY.replace(hour=9) + timedelta(days=day)):
            tell("heartbeat", *(["--history", team] if team else []))
            for test, until in UNTIL.items() if day == ACKNOWLEDGED_ON else ():
                history = ["--history", str(folder / GPU_MACHINE)] if team else []
                run("ack", test, "--until", until, "--why", "upstream bug 123", *history)


def measured(machine: str, day: int, folder: Path) -> list[Measurement]:
    """A machine's session; its verdicts know what is acknowledged, as in a real one."""
    known = {(one.machine, one.test, one.figure): one for one in acknowledgements.read(folder / "baselines")}
    return [
        replace(
            m,
            session=f"{m.session}-{machine}",
            runs=tuple(replace(run, polls=()) for run in m.runs),  # which make it large
            verdicts=tuple(
                replace(verdict, acknowledged=known.get((machine, m.test, verdict.figure.name)))
                for verdict in m.verdicts
            ),
        )
        for m in session_of(machine, day, Random(f"{day} {machine}"), STORY)
    ]


def append(history: History, session: Sequence[Measurement]) -> None:
    """Add a session to a history."""
    for one in session:
        history.append(one)


def run(*arguments: str) -> str:
    """What `tfperf` with these arguments prints; a status of 1 says that a machine is silent."""
    with redirect_stdout(StringIO()) as text:
        status = cli.main(list(arguments))
    assert status in (0, 1), text.getvalue()
    return text.getvalue()


def tell(*arguments: str) -> None:
    """Run a command, and again if it told something."""
    if "notified" in run(*arguments):
        run(*arguments)


@contextmanager
def standing_at(time: datetime) -> Iterator[None]:
    """Let the commands see this time."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return time.astimezone(tz)

    with patch.object(ack, "datetime", Clock), patch.object(notify, "datetime", Clock):
        yield


def told(server: Server) -> list[str]:
    """The events that a webhook got, then the issues and the first words of their comments, one a line."""
    events = [
        f"{event['time'][:10]}  {event['kind']:<9}  {event['test'] or event['machine']}"
        for message in server.messages
        for event in message["events"]
    ]
    issues = []
    for issue in server.issues:
        words = [comment.splitlines()[1].partition(":")[0] for comment in issue["comments"]]
        issues.append(f"{issue['state']:<6}  {issue['title']}{': ' if words else ''}{', '.join(words)}")
    return [*events, "", *issues]


if __name__ == "__main__":
    with serving() as server, tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.environ.update(CHANNELS, HOOK_URL=server.url, GITHUB_API_URL=server.url)
        live_through(Path(place))
        print(*told(server), sep="\n")
