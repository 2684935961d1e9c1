"""Which measurements are profiled, and what becomes of a profile that fails."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.bench.task import Profiler, Task
from pytest_tfperf.core import profile
from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.command import Command, Reads
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.profile import OpTime, Profile, Trace
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.features.profiles.plugin import profiled
from pytest_tfperf.judging.target import target_for
from tests.helpers.measurements import measurement, throughput
from tests.helpers.played import BUSY, Notes, PlayedGuard, PlayedLauncher, PlayedRun, steady
from tests.helpers.played_session import ROW, PlayedSession

MEASURED = measurement(throughput(100.0, examples_per_step=1), session="today")
BEFORE = OpTime(name="block/conv", type="Conv2D", seconds=0.001, count=1.0)


class PlayedWorkers(PlayedLauncher):
    """Workers whose profiler does this."""

    def __init__(self, trace: Callable[[int], tuple[Trace, ...]]) -> None:
        super().__init__((100.0,))
        self.trace = trace

    def start(self, job: Job, progress: Callable[[str], None]) -> PlayedRun:
        run = super().start(job, progress)
        run.trace = self.trace  # type: ignore[method-assign]
        return run


def task(launcher: PlayedLauncher, row: Baseline = ROW) -> Task:
    return PlayedSession(row=row).task(launcher)


def profiler(folder: Path, profile_of: Callable[[Baseline], Profile | None] = lambda _: None) -> Profiler:
    return partial(profiled, RunEngine(Notes(), PlayedGuard()), folder / "traces", folder, profile_of)


# Which


def test_a_confirmed_regression_is_profiled_in_one_more_worker(tmp_path: Path) -> None:
    launcher, session = steady(80.0), PlayedSession(profiler=profiler(tmp_path))
    found = session.decided(session.task(launcher))
    assert found.verdict is not None
    assert (found.verdict.outcome, launcher.started) == (Outcome.REGRESSED, len(found.runs) + 1)
    assert found.profile is not None
    assert [op.name for op in found.profile.ops] == ["block/conv"]


def test_a_test_that_passes_is_not_profiled(tmp_path: Path) -> None:
    session = PlayedSession(profiler=profiler(tmp_path))
    assert session.decided(session.task(steady(100.0))).profile is None


def test_of_a_baselines_runs_the_last_one_is_followed_by_a_profile(tmp_path: Path) -> None:
    launcher, session = steady(100.0), PlayedSession(profiler=profiler(tmp_path))
    taken = session.bench.record(session.task(launcher))
    while not taken.is_decided:
        assert taken.profile is None
        taken = session.bench.record(session.task(launcher), taken)
    assert (taken.profile is not None, launcher.started) == (True, 6)


def test_a_provisional_regression_is_not_profiled(tmp_path: Path) -> None:
    earlier = replace(ROW, provenance=Provenance.PROVISIONAL)
    target = target_for({}, (), "box", ROW.key, gpu_fp32_tflops=None, provisional={ROW.key: earlier})
    session = PlayedSession(profiler=profiler(tmp_path))
    found = session.decided(replace(session.task(steady(80.0)), target=target))
    assert found.verdict is not None
    assert (found.verdict.outcome, found.profile) == (Outcome.REGRESSED, None)


def test_without_the_option_nothing_is_profiled() -> None:
    session = PlayedSession(BUSY)
    assert session.decided(session.task(steady(80.0))).profile is None


# How


@pytest.mark.parametrize(("examples_per_sec", "steps"), [(1.0, 2), (5.0, 10), (1000.0, 20), (0.1, 1)])
def test_steps_of_two_seconds_are_traced_but_twenty_at_most(
    tmp_path: Path, examples_per_sec: float, steps: int
) -> None:
    measured = measurement(throughput(examples_per_sec, examples_per_step=1))
    assert profiler(tmp_path)(task(steady(100.0)), measured).steps == steps


def test_the_trace_is_named_from_the_rootdir(tmp_path: Path) -> None:
    found = profiler(tmp_path)(task(steady(100.0)), MEASURED)
    assert (tmp_path / found.folder).is_dir()
    assert (found.folder.split("/")[0], found.folder.split("/")[-1], found.logdir) == ("traces", "today", "traces")


def a_program(**how: Any) -> Task:
    wanted = task(steady(1.0))
    return replace(wanted, side=replace(wanted.side, workload=Command(["true"], name="program", **how)))


def test_a_program_that_is_read_is_not_profiled(tmp_path: Path) -> None:
    said = "not possible for a program that is read by its output: start a profiler in it"
    wanted = a_program(reads=Reads(format="tqdm"), unit="images/s", examples_per_step=1)
    assert profiler(tmp_path)(wanted, MEASURED) == Profile(fault=said)


def test_of_a_program_that_is_measured_by_its_steps_the_operations_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(host="", steps=20, ops=(replace(BEFORE, seconds=0.002),))
    monkeypatch.setattr(RunEngine, "trace", lambda *_: (trace,))
    found = profiler(tmp_path, lambda _: Profile(ops=(BEFORE,)))(a_program(), MEASURED)
    assert (found.folder, found.fault, found.ops) == ("", "", trace.ops)
    assert [growth.name for growth in found.grown] == ["block/conv"]


# What grew


def test_what_grew_since_the_baseline_is_known(tmp_path: Path) -> None:
    found = profiler(tmp_path, lambda _: Profile(ops=(BEFORE,)))(task(steady(100.0)), MEASURED)
    assert [(one.name, one.before_seconds, one.seconds) for one in found.grown] == [("block/conv", 0.001, 0.01)]


def test_a_published_figure_has_no_profile(tmp_path: Path) -> None:
    published = replace(ROW, provenance=Provenance.PUBLISHED)
    found = profiler(tmp_path, lambda _: Profile(ops=(BEFORE,)))(task(steady(100.0), published), MEASURED)
    assert found.grown == ()


def test_a_broken_history_costs_only_the_comparison(tmp_path: Path) -> None:
    def broken(row: Baseline) -> Profile | None:
        raise TfperfError("the history can't be used")

    found = profiler(tmp_path, broken)(task(steady(100.0)), MEASURED)
    assert (found.grown, found.fault) == ((), "")


# What fails


def test_a_profiler_that_fails_is_one_line_and_no_error(tmp_path: Path) -> None:
    def hang(steps: int) -> tuple[Trace, ...]:
        raise MeasurementError("the worker said nothing for 60 s in phase 'profile' and was killed", "its log")

    found = profiler(tmp_path)(task(PlayedWorkers(hang)), MEASURED)
    assert found == Profile(fault="the worker said nothing for 60 s in phase 'profile' and was killed")


def test_a_trace_that_is_too_large_leaves_the_operations(tmp_path: Path) -> None:
    def large(steps: int) -> tuple[Trace, ...]:
        return (Trace(host="vm", steps=steps, ops=(BEFORE,), fault="too large"),)

    found = profiler(tmp_path)(task(PlayedWorkers(large)), MEASURED)
    assert (found.folder, found.fault, found.ops) == ("", "too large", (BEFORE,))


@pytest.mark.parametrize(
    ("xspace", "why"),
    [
        (base64.b64encode(zlib.compress(bytes(2**20), 9)).decode(), "it decompresses to more than 0.5 MiB"),
        (base64.b64encode(b"xxxxxxxx").decode(), ".*incorrect header check"),
        ("x", ".*base64"),
    ],
    ids=["a bomb", "not compressed", "not base64"],
)
def test_what_is_no_trace_leaves_the_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xspace: str, why: str
) -> None:
    monkeypatch.setattr(profile, "MOST_XSPACE_BYTES", 2**19)
    launcher = PlayedWorkers(lambda steps: (Trace(host="vm", steps=steps, ops=(BEFORE,), xspace=xspace),))
    found = profiler(tmp_path)(task(launcher), MEASURED)
    assert re.fullmatch(f"what the worker sent is no trace: {why}.*", found.fault), found.fault
    assert (found.folder, len(found.ops), list((tmp_path / "traces").iterdir())) == ("", 1, [])


def test_a_trace_that_can_not_be_written_leaves_the_operations(tmp_path: Path) -> None:
    (tmp_path / "traces").touch()
    found = profiler(tmp_path)(task(steady(100.0)), MEASURED)
    assert (found.fault, len(found.ops)) == ("traces can't be written: Not a directory", 1)
