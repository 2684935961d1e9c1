"""`--tfperf-profile-on-regression`: a few more steps of a task under TensorFlow's profiler.

The traces are kept where TensorBoard and XProf find them:
FOLDER/<test>/<session>/plugins/profile/<call>/<host>.xplane.pb.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.errors import TfperfError, worded

if TYPE_CHECKING:
    from pytest_tfperf.bench.run_engine import RunEngine
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.bench.task import Profiler, Task
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.profile import Profile, Trace

FOLDER: Final[Setting[Path | None]] = Setting(
    name="profile_on_regression",
    default=None,
    parse=parse.folder,
    help="folder for traces of TensorFlow's profiler, taken of each regressed test and each new baseline",
    metavar="DIR",
    is_output=True,
)


def check_stores(session: Session) -> tuple[()]:
    """Make the folder and write into it once, so that a fault shows before the first measurement.

    Raises:
        TfperfError: it can't be written.
    """
    folder = session.settings.of(FOLDER)
    if folder is None or session.settings.smoke:
        return ()
    with worded(f"--tfperf-profile-on-regression={folder}", "written", "Name another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ()


def profiler(session: Session) -> Profiler | None:
    """Make the profiler where a folder for traces was given."""
    folder = session.settings.of(FOLDER)
    if folder is None:
        return None
    return partial(profiled, session.engine, folder, session.settings.root, session.history.earlier.profile_of)


def write_traces(folder: Path, test: str, session: str, call: str, traces: Sequence[Trace]) -> Path:
    """Write the traces of one call's processes, rank 0 first; returns the folder of the test in this session.

    Raises:
        OSError: they can't be written; what was written of them is removed.
        ValueError: one is no trace, or a longer one than workers send.
    """
    from pytest_tfperf.core.plain_json import unzipped
    from pytest_tfperf.core.profile import MOST_XSPACE_BYTES

    top = folder / file_name(test) / file_name(session)
    of_call = top / "plugins" / "profile" / file_name(call)
    try:
        of_call.mkdir(parents=True, exist_ok=True)
        for rank, trace in enumerate(traces):
            if rank and not trace.ops:  # it only lends its devices to rank 0
                continue
            host = trace.host if len(traces) == 1 else f"rank{rank}-{trace.host}"
            data = unzipped(base64.b64decode(trace.xspace), MOST_XSPACE_BYTES)
            (of_call / f"{file_name(host)}.xplane.pb").write_bytes(data)
    except (OSError, ValueError):
        shutil.rmtree(of_call, ignore_errors=True)
        with suppress(OSError):  # folders with other traces stay
            for empty in (of_call.parent, of_call.parent.parent, top, top.parent):
                empty.rmdir()
        raise
    return top


_MOST_CHARACTERS = 100  # file systems allow 255 bytes


def file_name(text: str) -> str:
    """A name that any file system takes, and that differs for any other text.

    >>> file_name("tests/test_a.py::test_b[8-é]")
    'tests-test_a.py-test_b-8-a2a2d6c7'
    """
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")[:_MOST_CHARACTERS]
    if name and name == text:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name}-{digest}".lstrip("-")


TRACED_SECONDS = 2.0
MOST_STEPS = 20  # a trace of more steps takes long to open, and tells nothing new

_OWN_PROGRAM = "not possible for a program that is read by its output: start a profiler in it"


def profiled(
    engine: RunEngine,
    folder: Path,
    root: Path,
    profile_of: Callable[[Baseline], Profile | None],
    task: Task,
    measured: Measurement,
) -> Profile:
    """Return the profile of a fresh worker, compared with that of the task's baseline.

    The verdict does not depend on the profile, so failures are only reported. `profile_of` returns the profile that was
    taken when a baseline was recorded; None if there is none.
    """
    from pytest_tfperf.core.command import Command
    from pytest_tfperf.core.profile import Profile, grown, largest

    def shown(path: Path) -> str:
        return str(path.relative_to(root) if path.is_relative_to(root) else path)

    if isinstance(task.workload, Command) and not task.workload.is_probed:
        return Profile(fault=_OWN_PROGRAM)
    throughput = measured.throughput
    seconds = throughput.examples_per_step / throughput.examples_per_sec
    steps = max(1, min(MOST_STEPS, round(TRACED_SECONDS / seconds)))
    traces = engine.trace(task.side, task.plan, steps)
    ops, written = largest(traces[0].ops), ""
    fault = next((trace.fault for trace in traces if trace.fault), "")
    if fault and not ops:
        return Profile(fault=fault)
    if not fault and traces[0].xspace:  # a program sends its operations alone
        try:
            call = f"{task.index + 1}-{task.workload.id}"
            written = shown(write_traces(folder, task.test, measured.session, call, traces))
        except OSError as error:
            fault = f"{shown(folder)} can't be written: {error.strerror}"
        except ValueError as error:
            fault = f"what the worker sent is no trace: {error}"
    before, row = None, task.target.baseline
    if row is not None and row.is_measured and task.target.is_own_row:  # a floor is of another machine
        with suppress(TfperfError):  # the history broke during the session
            before = profile_of(row)
    return Profile(
        folder=written,
        logdir=shown(folder),
        fault=fault,
        steps=steps,
        ops=ops,
        grown=grown(ops, before.ops) if before else (),
    )


FEATURE: Final = Feature(settings=(FOLDER,), check_stores=check_stores, profiler=profiler)
