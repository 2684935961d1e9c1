"""Three simulated weeks of nightly sessions, and what people are told of them.

    PYTHONPATH=. python -m tools.told_weeks       # prints each message, as docs/notifications.md quotes them

What happens: one test becomes slower and recovers, another becomes slower and stays so. Two known losses are
acknowledged on the second day: one gets worse, the other's acknowledgement ends. One machine is away for three nights.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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


def live_through(folder: Path, days: int = DAYS) -> Iterator[datetime]:
    """Live through the weeks in a folder, which is the current one: sessions at night, a heartbeat in the morning.

    Each command is run twice, as a job that is started again: nothing may be told twice.
    """
    store = BaselineStore(folder / "baselines", published=None)
    for machine, tests in ((GPU_MACHINE, gpu_tests()), (CPU_MACHINE, cpu_tests())):
        store.update(machine, baseline_rows(machine, tests))
    for day in range(days):
        morning = FIRST_DAY.replace(hour=9) + timedelta(days=day)
        for machine in nightly_machines(day):
            append(History(folder / ".tfperf" / "history.sqlite"), measured(machine, day, folder))
            for _ in range(2):
                run("notify")
        with standing_at(morning):
            for _ in range(2):
                run("heartbeat")
            for test, until in UNTIL.items() if day == ACKNOWLEDGED_ON else ():
                run("ack", test, "--until", until, "--why", "upstream bug 123")
        yield morning


def nightly_machines(day: int) -> Sequence[str]:
    """The machines that have a session on a day."""
    return [GPU_MACHINE] if day in AWAY else [GPU_MACHINE, CPU_MACHINE]


def measured(machine: str, day: int, folder: Path) -> list[Measurement]:
    """A machine's session; its verdicts know what is acknowledged, as in a real one."""
    known = {(one.machine, one.test, one.figure): one for one in acknowledgements.read(folder / "baselines")}
    return [
        replace(
            m,
            session=f"{m.session}-{machine}",
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
    """What `tfperf` with these arguments prints."""
    with redirect_stdout(StringIO()) as text:
        cli.main(list(arguments))
    return text.getvalue()


@contextmanager
def standing_at(time: datetime) -> Iterator[None]:
    """Let the commands see this time."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return time.astimezone(tz)

    with patch.object(ack, "datetime", Clock), patch.object(notify, "datetime", Clock):
        yield


def lines(message: Mapping[str, Any]) -> list[str]:
    """The events of a webhook's message, one a line."""
    return [
        f"{event['time'][:10]}  {event['kind']:<9}  {event['test'] or event['machine']}: {event['headline']}"
        for event in message["events"]
    ]


def _print(server: Server) -> None:
    for message in server.messages:
        print(*lines(message), sep="\n")
    print("\nissues:")
    for issue in server.issues:
        comments = [comment.splitlines()[1].partition(":")[0] for comment in issue["comments"]]
        print(f"  {issue['state']:<6}  {issue['title']}{': ' if comments else ''}{', '.join(comments)}")


if __name__ == "__main__":
    with serving() as server, tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.environ.update(CHANNELS, HOOK_URL=server.url, GITHUB_API_URL=server.url)
        for _ in live_through(Path(place)):
            pass
        _print(server)
