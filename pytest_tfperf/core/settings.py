"""The values of all settings, read once a session."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values of all settings in a session: those of the spine by their names, those of features with `of`."""

    root: Path = Path()  # pytest's rootdir
    collects_only: bool = False  # whether pytest runs no test
    rerun: RerunCommand = RerunCommand()
    update_baselines: Update | None = None  # the tests whose baselines are recorded; None for no tests
    slowed: tuple[str, ...] = ()  # the tests that `inject_slowdown` slows down; () for all
    bisect_step: Path | None = None  # the file of a step of `tfperf bisect`, in a session that it started
    # the values that were given, and all folders and files from rootdir, by the names of their settings
    values: Mapping[str, Any] = field(default_factory=dict)

    baselines: ClassVar[Setting[Path]] = Setting(
        default=Path("baselines"),
        parse=parse.folder,
        help="folder of the baselines, one CSV for each machine",
        metavar="DIR",
    )
    dir: ClassVar[Setting[Path]] = Setting(
        default=Path(".tfperf"),
        parse=parse.folder,
        help="folder of the history, the workers' logs and the reference environments",
        metavar="DIR",
    )
    machine: ClassVar[Setting[str]] = Setting(
        default="",
        parse=parse.machine,
        help="name of this machine's baselines, in place of the name made from its hardware",
        metavar="NAME",
    )
    tolerance: ClassVar[Setting[float]] = Setting(
        default=DEFAULT_TOLERANCE,
        parse=parse.tolerance,
        help="accepted change in throughput where neither test nor baseline gives one",
        metavar="FRACTION",
    )
    input_pipeline: ClassVar[Setting[str]] = Setting(
        default="device",
        parse=str,
        help="value of the input_pipeline fixture in tests that don't parametrise it",
        metavar="NAME",
    )
    data_dir: ClassVar[Setting[Path | None]] = Setting(
        default=None,
        parse=parse.folder,
        help="folder of the TFRecords that the pipelines imagenet and tokens read",
        metavar="DIR",
    )
    owner: ClassVar[Setting[str]] = Setting(
        default="", parse=str, help="run only the tests of this owner", metavar="NAME", of_one_session=True
    )
    require_baseline: ClassVar[Setting[bool]] = Setting(
        default=False,
        parse=parse.flag,
        help="the nightly gate: fail a test without a baseline, exit with 6 if nothing was measured",
        of_one_session=True,
    )
    strict: ClassVar[Setting[bool]] = Setting(
        default=False,
        parse=parse.flag,
        help="fail INCONCLUSIVE tests too; TOO_NOISY ones are errors",
        of_one_session=True,
    )
    smoke: ClassVar[Setting[bool]] = Setting(
        default=False,
        parse=parse.flag,
        help="run one window of each test and judge nothing, to see whether all tests start",
        of_one_session=True,
        excludes={"update_baselines": "one window is no baseline", "require_baseline": "a smoke run judges nothing"},
    )
    worker: ClassVar[Setting[WorkerStart]] = Setting(
        default=WorkerStart.FORK,
        parse=_worker,
        help="start workers from a fork server, or as fresh interpreters",
        metavar="fork|fresh",
    )
    split_gpu: ClassVar[Setting[bool]] = Setting(
        default=False,
        parse=parse.flag,
        help="split one GPU into as many logical GPUs as a test takes, to try multi-GPU code",
        is_option=False,
    )
    inject_slowdown: ClassVar[Setting[float]] = Setting(
        default=0.0,
        parse=parse.fraction,
        help="make workers lose this part of their throughput on purpose, to see the gate fail",
        metavar="FRACTION",
        of_one_session=True,
        excludes={"update_baselines": "the slowdown would become the baseline"},
    )

    owners: ClassVar[Setting[tuple[tuple[str, str], ...]]] = Setting(
        default=(),
        parse=parse.owners,
        help="owners of tests: a pattern of node ids and an owner in each line, the last that matches; else CODEOWNERS "
        "says",
        is_option=False,
    )
    steps: ClassVar[Setting[int]] = Setting(
        default=100,
        parse=parse.count(1),
        help="the most steps that a run times, in tests that set no steps",
        is_option=False,
    )
    warmup_steps: ClassVar[Setting[int]] = Setting(
        default=10,
        parse=parse.count(0),
        help="the least steps that run untimed first, in tests that set no warmup_steps",
        is_option=False,
    )
    max_time: ClassVar[Setting[float | None]] = Setting(
        default=None,
        parse=parse.seconds_or_inf,
        help="the most seconds that a run is timed; by default 30 in tests that set no steps; inf for no limit",
        of_one_session=True,
        is_option=False,
    )
    timeout: ClassVar[Setting[float]] = Setting(
        default=600.0,
        parse=parse.seconds,
        help="seconds of silence after which a worker is killed as hung",
        is_option=False,
    )
    busy: ClassVar[Setting[float]] = Setting(
        default=0.25,
        parse=parse.share,
        help="CPU share of other processes, or of other virtual machines, above which a run is disturbed; 1 accepts "
        "any share, and swapping",
        is_option=False,
    )
    gpu_warmup: ClassVar[Setting[int]] = Setting(
        default=90,
        parse=parse.count(0),
        help="the longest that GPUs are warmed up before their first timed run, in seconds; 0 not at all",
        is_option=False,
    )

    def plan(self, steps: int | None = None, warmup_steps: int | None = None, also: tuple[Figure, ...] = ()) -> Plan:
        """Return the extent of a run; None where a test gives no steps of its own.

        A slow model is timed for half a minute and not for all steps, unless a test asks for its steps, or for a figure
        that compares only runs of equal length.
        """
        from pytest_tfperf.core.run import Plan

        bound = MAX_SECONDS if self.max_time is None else self.max_time
        grow = any(figure.definition.grows for figure in also)
        is_bounded = self.max_time is not None or (steps is None and not grow)
        return Plan(
            steps=self.steps if steps is None else steps,
            warmup_steps=self.warmup_steps if warmup_steps is None else warmup_steps,
            max_seconds=bound if is_bounded else math.inf,
            max_warmup_seconds=MAX_SECONDS if warmup_steps is None else math.inf,
            also=also,
        )

    def of(self, setting: Setting[T]) -> T:
        """Return the value of a setting."""
        value: T = self.values.get(setting.name, setting.default)
        return value

    def slowdown_of(self, test: str) -> float:
        """Return the part of its throughput that a test loses on purpose."""
        return self.inject_slowdown if not self.slowed or test in self.slowed else 0.0

    @property
    def disturbance_limits(self) -> DisturbanceLimits:
        """The limits from which other work on the machine, or heat, disturbs a run."""
        from pytest_tfperf.core.disturbance import DisturbanceLimits

        # A machine that other processes may keep busy may also swap for them.
        swap = math.inf if self.busy == 1 else DisturbanceLimits().swap_bytes_per_sec
        return DisturbanceLimits(other_cpu_fraction=self.busy, steal_fraction=self.busy, swap_bytes_per_sec=swap)

    @property
    def shown_baselines(self) -> str:
        """The folder of the baselines as messages show it."""
        is_inside = self.baselines.is_relative_to(self.root)
        return f"{self.baselines.relative_to(self.root) if is_inside else self.baselines}/"


OF_THE_SPINE: Final[tuple[Setting[Any], ...]] = tuple(
    setting for setting in vars(Settings).values() if isinstance(setting, Setting)
)
"""The settings that belong to no feature."""
