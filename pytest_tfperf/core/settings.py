"""The values of all settings, read once a session."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.setting import Setting, T

# Each pytest imports this file, also in environments that measure nothing.
if TYPE_CHECKING:
    from pytest_tfperf.core.disturbance import DisturbanceLimits
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.run import Plan

DEFAULT_TOLERANCE: Final = 0.02

TOLD: Final = "_TFPERF_TOLD"
"""The variable by which `tfperf trial` and `tfperf bisect` tell the sessions that they start `Settings.slowed` and
`Settings.bisect_step`, as JSON."""

MAX_SECONDS: Final = 30.0
"""The most seconds that a run is warmed up, and that it is timed, in tests that set no steps."""


class Update(StrEnum):
    """The tests that `--update-baselines` records."""

    ALL = "all"
    FAILED = "failed"


class WorkerStart(StrEnum):
    """The way in which worker processes start."""

    FORK = "fork"
    FRESH = "fresh"


NOT_WITH_ANOTHER_SIDE: Final[Mapping[str, str]] = {
    "update_baselines": "a comparison has no baseline",
    "reference": "a comparison has no reference environment",
    "smoke": "one window compares nothing",
}
"""`Setting.excludes` of a setting that gives each check another side in place of a baseline."""


def _worker(text: str) -> WorkerStart:
    if text not in list(WorkerStart):
        raise ValueError(f"must be {' or '.join(WorkerStart)}")
    return WorkerStart(text)


def _option(default: Any, parser: Any, help: str, metavar: str | None = None, **more: Any) -> Any:
    """Declare a setting that is an option, an ini value and an environment variable."""
    return field(default=default, metadata={"parse": parser, "help": help, "metavar": metavar, **more})


def _ini(default: Any, parser: Any, help: str, **more: Any) -> Any:
    """Declare a setting that few people change: an ini value and an environment variable."""
    return _option(default, parser, help, is_option=False, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values of all settings, each of which has a help text. A feature's own settings are read with `of`.

    Attributes:
        root: pytest's rootdir.
        collects_only: whether pytest runs no test.
        writes_junit: whether pytest writes JUnit XML.
        rerun: the command that runs a test again.
        update_baselines: the tests whose baselines are recorded; None for no tests.
        slowed: the tests that `inject_slowdown` slows down; () for all.
        bisect_step: the file of a step of `tfperf bisect`, in a session that it started.
        of_features: the given values of features' settings, by name.
    """

    root: Path = Path()
    collects_only: bool = False
    writes_junit: bool = False
    rerun: RerunCommand = RerunCommand()
    update_baselines: Update | None = None
    slowed: tuple[str, ...] = ()
    bisect_step: Path | None = None
    of_features: Mapping[str, Any] = field(default_factory=dict)

    baselines: Path = _option(
        Path("baselines"), parse.folder, "folder of the baselines, one CSV for each machine", "DIR"
    )
    dir: Path = _option(
        Path(".tfperf"), parse.folder, "folder of the history, the workers' logs and the reference environments", "DIR"
    )
    machine: str = _option(
        "", parse.machine, "name of this machine's baselines, in place of the name made from its hardware", "NAME"
    )
    tolerance: float = _option(
        DEFAULT_TOLERANCE,
        parse.tolerance,
        "accepted change in throughput where neither test nor baseline gives one",
        "FRACTION",
    )
    input_pipeline: str = _option(
        "device", str, "value of the input_pipeline fixture in tests that don't parametrise it", "NAME"
    )
    data_dir: Path | None = _option(
        None, parse.folder, "folder of the TFRecords that the pipelines imagenet and tokens read", "DIR"
    )
    owner: str = _option("", str, "run only the tests of this owner", "NAME", of_one_session=True)
    require_baseline: bool = _option(
        False,
        parse.flag,
        "the nightly gate: fail a test without a baseline, exit with 6 if nothing was measured",
        of_one_session=True,
    )
    strict: bool = _option(
        False, parse.flag, "fail INCONCLUSIVE tests too; TOO_NOISY ones are errors", of_one_session=True
    )
    smoke: bool = _option(
        False,
        parse.flag,
        "run one window of each test and judge nothing, to see whether all tests start",
        of_one_session=True,
        excludes={
            "update_baselines": "one window is no baseline",
            "require_baseline": "a smoke run judges nothing",
        },
    )
    worker: WorkerStart = _option(
        WorkerStart.FORK, _worker, "start workers from a fork server, or as fresh interpreters", "fork|fresh"
    )
    split_gpu: bool = _ini(
        False, parse.flag, "split one GPU into as many logical GPUs as a test takes, to try multi-GPU code"
    )
    inject_slowdown: float = _option(
        0.0,
        parse.fraction,
        "make workers lose this part of their throughput on purpose, to see the gate fail",
        "FRACTION",
        of_one_session=True,
        excludes={"update_baselines": "the slowdown would become the baseline"},
    )

    owners: tuple[tuple[str, str], ...] = _ini(
        (),
        parse.owners,
        "owners of tests: a pattern of node ids and an owner in each line, the last that matches; else CODEOWNERS says",
    )
    steps: int = _ini(100, parse.count(1), "the most steps that a run times, in tests that set no steps")
    warmup_steps: int = _ini(
        10, parse.count(0), "the least steps that run untimed first, in tests that set no warmup_steps"
    )
    max_time: float | None = _ini(
        None,
        parse.seconds_or_inf,
        "the most seconds that a run is timed; by default 30 in tests that set no steps; inf for no limit",
        of_one_session=True,
    )
    timeout: float = _ini(600.0, parse.seconds, "seconds of silence after which a worker is killed as hung")
    busy: float = _ini(
        0.25,
        parse.share,
        "CPU share of other processes, or of other virtual machines, above which a run is disturbed; 1 accepts any "
        "share, and swapping",
    )
    gpu_warmup: int = _ini(
        90, parse.count(0), "the longest that GPUs are warmed up before their first timed run, in seconds; 0 not at all"
    )

    def plan(
        self,
        steps: int | None = None,
        warmup_steps: int | None = None,
        also: tuple[Figure, ...] = (),
    ) -> Plan:
        """Return the extent of a run; None where a test gives no steps of its own.

        A slow model is timed for half a minute and not for all steps, unless a test asks for its steps, or for a figure
        that compares only runs of equal length.
        """
        from pytest_tfperf.core.run import Plan

        bound = MAX_SECONDS if self.max_time is None else self.max_time
        is_bounded = self.max_time is not None or (steps is None and not any(figure.grows for figure in also))
        return Plan(
            steps=self.steps if steps is None else steps,
            warmup_steps=self.warmup_steps if warmup_steps is None else warmup_steps,
            max_seconds=bound if is_bounded else math.inf,
            max_warmup_seconds=MAX_SECONDS if warmup_steps is None else math.inf,
            also=also,
        )

    def of(self, setting: Setting[T]) -> T:
        """Return the value of a feature's setting."""
        value: T = self.of_features.get(setting.name, setting.default)
        return value

    def slowdown_of(self, test: str) -> float:
        """Return the part of its throughput that a test loses on purpose."""
        return self.inject_slowdown if not self.slowed or test in self.slowed else 0.0

    @property
    def disturbance_limits(self) -> DisturbanceLimits:
        """The limits from which other work on the machine, or heat, disturbs a run."""
        from pytest_tfperf.core.disturbance import DisturbanceLimits

        return DisturbanceLimits.accepting(self.busy)

    @property
    def shown_baselines(self) -> str:
        """The folder of the baselines as messages show it."""
        is_inside = self.baselines.is_relative_to(self.root)
        return f"{self.baselines.relative_to(self.root) if is_inside else self.baselines}/"


OF_THE_SPINE: Final[tuple[Setting[Any], ...]] = tuple(
    Setting(name=each.name, default=each.default, **each.metadata) for each in fields(Settings) if each.metadata
)
"""The settings that belong to no feature."""
