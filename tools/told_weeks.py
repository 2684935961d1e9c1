"""Three simulated weeks of nightly sessions, and what people are told of them.

    PYTHONPATH=. python -m tools.told_weeks       # prints each event, then the issues at the end

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
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.notified_server import Server, serving
from tools.simulated_weeks import (
    CPU_MACHINE,
    DAYS,
    FIRST_DAY,
    GPU_MACHINE,
    Change,
    SimulatedTest,
    baseline_rows,
    session_of,
    tests_of,
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

WANTED = [
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

CHANNELS = {"TFPERF_NOTIFY": "webhook $HOOK_URL\ngithub ada/nets", "GITHUB_TOKEN": "t0ken"}


def live_through(folder: Path, team: str = "") -> None:
    """Live through the weeks in a folder, which is the current one: sessions at night, silent machines in the morning.

    Whatever tells something is run again at once, as a job that is restarted: nothing may be told twice.

    Args:
        folder: gets baselines and histories.
        team: the URL to which each machine pushes a history of its own, and from which they are pulled to ask for
            silent machines; "" for one history of both machines.
    """
    store = BaselineStore(folder / "baselines", published=None)
    for machine in (GPU_MACHINE, CPU_MACHINE):
        store.update(machine, baseline_rows(machine, _tests(machine)))
    for day in range(DAYS):
        for machine in (GPU_MACHINE, CPU_MACHINE):
            if machine == CPU_MACHINE and day in AWAY:
                continue
            place = folder / (machine if team else ".tfperf")
            append(History(place / "history.sqlite"), measured(machine, day, folder))
            tell("notify", "--history", str(place))
            if team:
                run("history", "--history", str(place), "push", team)
        if team:
            run("history", "--history", str(folder / "all"), "pull", team)
        with standing_at(FIRST_DAY.replace(hour=9) + timedelta(days=day)):
            tell("notify", "--silent-for", "26h", *(["--history", str(folder / "all")] if team else []))
            if day == ACKNOWLEDGED_ON:
                history = ["--history", str(folder / GPU_MACHINE)] if team else []
                for test, until in UNTIL.items():
                    run("ack", test, "--until", until, "--why", "upstream bug 123", *history)


def _tests(machine: str) -> list[SimulatedTest]:
    """Some of the machine's tests, which are enough to show what all have in common."""
    return [test for test in tests_of(machine) if test.devices in (2, 4, 8)]


def measured(machine: str, day: int, folder: Path) -> list[Measurement]:
    """A machine's session; its verdicts know what is acknowledged, as in a real one."""
    entries = acknowledgements.read(folder / "baselines")
    known = {(entry.machine, entry.test, entry.figure): entry for entry in entries}
    return [
        replace(
            m,
            session=f"{m.session}-{machine}",
            runs=tuple(replace(run, polls=(), warmup=(), windows=run.windows[:1]) for run in m.runs),  # fewer to read
            verdicts=tuple(
                replace(verdict, acknowledged=known.get((machine, m.test, verdict.figure.name)))
                for verdict in m.verdicts
            ),
        )
        for m in session_of(machine, _tests(machine), day, Random(f"{day} {machine}"), STORY)
    ]


def append(history: History, session: Sequence[Measurement]) -> None:
    """Add a session to a history."""
    for measurement in session:
        history.append(measurement)


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


def shown(server: Server) -> list[str]:
    """What people see of the three weeks: each event, then the issues at the end."""
    events = [f"{day}  {kind:<9}  {subject.rpartition('/')[2]}" for day, kind, subject in told(server)]
    of_issues = [f"{state:<6}  {title.rpartition('/')[2]}" for state, title, _ in issues(server)]
    return [*events, "", *of_issues]


@contextmanager
def a_job_that_tells(folder: Path) -> Iterator[Server]:
    """A server, and the variables and the folder of a job that tells it."""
    with serving() as server, patch.dict(os.environ, CHANNELS, HOOK_URL=server.url, GITHUB_API_URL=server.url):
        before = Path.cwd()
        os.environ.pop("TFPERF_GITHUB_TOKEN", None)
        os.chdir(folder)
        try:
            yield server
        finally:
            os.chdir(before)


@contextmanager
def standing_at(time: datetime) -> Iterator[None]:
    """Let the commands see this time."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return time.astimezone(tz)

    with patch.object(ack, "datetime", Clock), patch.object(notify, "datetime", Clock):
        yield


def told(server: Server) -> list[tuple[str, str, str]]:
    """The day, the kind and the subject of each event that a webhook got."""
    events = [event for message in server.messages for event in message["events"]]
    return [(event["time"][:10], event["kind"], event["test"] or event["machine"]) for event in events]


def issues(server: Server) -> list[tuple[str, str, list[str]]]:
    """The state and the title of each issue, and the first words of its comments."""
    return [
        (issue["state"], issue["title"], [text.splitlines()[1].partition(":")[0] for text in issue["comments"]])
        for issue in server.issues
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, a_job_that_tells(Path(place)) as server:
        live_through(Path(place))
        print(*shown(server), sep="\n")
