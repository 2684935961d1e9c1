"""A user's project in a folder of its own, and pytest run in it as a process of its own.

pytester does the same for one test; here several tests read what one session gave, because each imports TensorFlow.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any, Self
from xml.etree import ElementTree

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.stores import baseline_file
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.patience import SESSION_SECONDS, wait_for

MACHINE = "box"
NETS = Path(__file__).parents[1] / "data" / "user_project" / "nets.py"
PLAYED_TRAINING = Path(__file__).parent / "played_training"
NOT_MEASURED = 6
"""The exit status where nothing regressed and something could not be measured."""

ANY_THROUGHPUT = {"value": 1000.0, "lower": -math.inf, "upper": math.inf}
"""A row that passes any throughput of this or the next century."""

_JUNIT = "--junitxml=.junit.xml"

# Too few windows to find out that a run never settles: the machine may be busy with anything, and may swap. Hypothesis'
# plugin would be imported at the end of each session.
_INI = f"""
[pytest]
filterwarnings = error
addopts = -p no:hypothesispytest
tfperf_machine = {MACHINE}
tfperf_steps = 15
tfperf_warmup_steps = 1
tfperf_busy = 1
"""

_PREAMBLE = """
import pytest
from pytest_tfperf import Command, Reads, Workload

pytestmark = pytest.mark.cpu

# Of programs that print "9 examples/s".
RATES = Reads(pattern="(?P<rate>[0-9.]+) examples/s")
RATES_TO_THE_END = Reads(pattern=RATES.pattern, until_end=True)

def tiny(batch_size=1, model="nets:tiny", **more):
    return Workload(model=model, batch_size=batch_size, **more)

@pytest.fixture
def on(gpu_topology):
    return gpu_topology.take(1)

"""

# Ours to say; and without bytecode on disk each session would compile the plugin anew.
_LEFT_OUT = ("TFPERF_", "PYTEST_", "COV_", "TF_", "GITHUB_", "PYTHONDONTWRITEBYTECODE", "COLUMNS")


_parse = lru_cache(maxsize=64)(baseline_file.parse)
"""For sessions in this process, all of which read the documents' tables: 0.05 s of CPU each time."""


@dataclass(frozen=True)
class Case:
    """One test as JUnit tells it: passed, skipped, failure or error, with the message and the longer text."""

    kind: str
    message: str
    text: str
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Finished:
    """A session that came to its end."""

    status: int
    text: str
    cases: dict[str, Case]

    @property
    def kinds(self) -> dict[str, str]:
        return {name: case.kind for name, case in self.cases.items()}


class Project:
    """A folder with an ini file, the module `nets` and what a test writes into it; leaving it ends its processes.

    Args:
        folder: is made where missing.
        trains: whether workers train with TensorFlow, or play it: see `played_training`.
    """

    def __init__(self, folder: Path, *, trains: bool = True) -> None:
        self.folder = folder
        self._trains = trains
        self._sessions: list[subprocess.Popen[str]] = []
        self.baselines = BaselineStore(folder / "baselines", published=None)
        self._mark = f"INNER_PROJECT={uuid.uuid4().hex}"
        folder.mkdir(exist_ok=True)
        shutil.copy(NETS, folder)
        self.write("pytest.ini", _INI)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    def tests(self, text: str, name: str = "test_it.py") -> None:
        """Write tests that are marked `cpu`, with a workload `tiny(batch_size)` and a fixture `on`, one device."""
        self.write(name, _PREAMBLE + dedent(text))

    def baseline(self, workload: str, topology: str = "1x1", **row: Any) -> None:
        key = Key(workload, topology)
        self.baselines.update(MACHINE, {key: Baseline(machine=MACHINE, key=key, **row)})

    def publish(self, source: str, figures: dict[Key, float], **row: Any) -> None:
        """A document's figures, of a machine that is not this one."""
        common = {"machine": "paper", "provenance": Provenance.PUBLISHED, "source": source} | row
        rows = {key: Baseline(key=key, value=value, **common) for key, value in figures.items()}
        self.baselines.update("paper", rows)

    def run(self, *arguments: str, **more: Any) -> Finished:
        """A whole session; the arguments are those of `start`.

        Where workers play and nothing goes to Popen, pytest runs in this process, as pytester does it: half of the
        processor time of so short a session is the import of what this process has imported already.
        """
        try:
            if not self._trains and all(map(str.isupper, more)):
                return self._finished(*_run_here(self.folder, [_JUNIT, *arguments], self._environment(more)))
            return self.end_of(self.start(*arguments, **more))
        finally:
            self.kill_all()

    def end_of(self, process: subprocess.Popen[str]) -> Finished:
        """The output of a session that was started, when it has ended, and its JUnit file."""
        text, _ = process.communicate(timeout=SESSION_SECONDS)
        return self._finished(process.returncode, text)

    def _finished(self, status: int, text: str) -> Finished:
        junit = self.folder / ".junit.xml"
        cases = _cases(junit) if junit.exists() else {}
        junit.unlink(missing_ok=True)
        return Finished(status, text, cases)

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """pytest with these arguments; `python` are Python's own options, names in capitals environment variables.

        All others go to Popen.
        """
        environment = self._environment({name: more.pop(name) for name in list(more) if name.isupper()})
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(
            [sys.executable, *more.pop("python", ()), "-m", "pytest", _JUNIT, *arguments],
            cwd=self.folder,
            env=environment,
            text=True,
            # Whoever runs these tests in the background has SIGINT ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **streams | more,
        )
        self._sessions.append(process)
        return process

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
        environment |= variables
        if not self._trains:
            environment["PYTHONPATH"] = os.pathsep.join([str(PLAYED_TRAINING), environment.get("PYTHONPATH", "")])
        name, _, value = self._mark.partition("=")
        return environment | {name: value}

    def terminal(self, *arguments: str, columns: int, **more: Any) -> str:
        """What a terminal of this width gets from a whole session, escape codes and all."""
        ours, theirs = pty.openpty()
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        process = self.start(*arguments, **streams, TERM="xterm", COLUMNS=str(columns), **more)
        os.close(theirs)
        text = b""
        while chunk := _read(ours):
            text += chunk
        os.close(ours)
        process.wait(SESSION_SECONDS)
        return text.decode()

    def wait_for_file(self, pattern: str, process: subprocess.Popen[str]) -> None:
        """Wait for a file that this session is about to write; show its output where it ends without."""

        def there() -> bool:
            return any(self.folder.glob(pattern))

        wait_for(lambda: there() or process.poll() is not None, SESSION_SECONDS)
        if not there():
            process.kill()
            pytest.fail(f"no {pattern}\n{self.end_of(process).text}")

    def processes(self) -> list[int]:
        """Whatever this project's sessions started and what still runs: it carries our mark in its environment."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return found

    def kill_all(self) -> None:
        wait_for(self._none_is_left)
        for session in self._sessions:
            with session:
                session.kill()
        self._sessions.clear()

    def _none_is_left(self) -> bool:
        """After a kill of those that are: a server may fork one more in the very moment."""
        found = self.processes()
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found

    @property
    def history(self) -> History:
        return History(self.folder / ".tfperf" / "history.sqlite")

    def measured(self, test: str) -> Measurement:
        """The one measurement that the history holds of this test."""
        (found,) = [one for one in self.history.measurements() if one.test.endswith(f"::{test}")]
        return found

    @property
    def started_workers(self) -> bool:
        return (self.folder / ".tfperf" / "logs").exists()


def _run_here(folder: Path, arguments: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit status and output of pytest in this process, which afterwards is as before, but for imported packages."""
    text = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(text), redirect_stderr(text):
        patch.chdir(folder)
        patch.setattr(baseline_file, "parse", _parse)
        for name in set(os.environ) - set(environment):
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.syspath_prepend(folder)  # as `python -m pytest` does
        # pytest ends with collections of garbage, and what was imported for other tests, TensorFlow's half a million
        # objects among it, is none. Only for this time: Hypothesis asks the collector who refers to a generator.
        gc.freeze()
        # A session that hangs ends this process, and xdist names the test.
        faulthandler.dump_traceback_later(SESSION_SECONDS, exit=True, file=sys.__stderr__)
        try:
            status = pytest.main(arguments)
        except SystemExit as end:
            status = end.code
        finally:
            faulthandler.cancel_dump_traceback_later()
            gc.unfreeze()
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]  # another session may have a module of this name
    return int(status), text.getvalue()


def _read(descriptor: int) -> bytes:
    ready, _, _ = select.select([descriptor], [], [], SESSION_SECONDS)
    assert ready, "the session hangs"
    try:
        return os.read(descriptor, 4096)
    except OSError:  # EIO: the last writer has closed the terminal
        return b""


def _cases(junit: Path) -> dict[str, Case]:
    return {case.get("name", ""): _case(case) for case in ElementTree.parse(junit).iter("testcase")}


def _case(case: ElementTree.Element) -> Case:
    outcomes = [part for part in case if part.tag in ("failure", "error", "skipped")]
    properties = tuple((one.get("name", ""), one.get("value", "")) for one in case.iter("property"))
    if not outcomes:
        return Case("passed", "", "", properties)
    assert len(outcomes) == 1, f"{case.get('name')}: more than one outcome"
    return Case(outcomes[0].tag, outcomes[0].attrib.get("message", ""), outcomes[0].text or "", properties)
