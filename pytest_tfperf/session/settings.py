"""Every option, environment variable and ini value, read once into one frozen `Settings`.

Each setting NAME can be given as the environment variable `TFPERF_NAME` or as the ini value `tfperf_NAME`; those that
people change from one session to the next also as the option `--tfperf-NAME`. The option wins over the variable, and
the variable over the ini value.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.safe_text import shortened
from pytest_tfperf.session import setting_values as parse
from pytest_tfperf.session.rerun_options import Given, rerun_command
from pytest_tfperf.session.setting_values import WorkerStart

if TYPE_CHECKING:
    import pytest

    from pytest_tfperf.features.references.environment import ReferenceEnvironment


class Update(StrEnum):
    """Which tests `--update-baselines` records."""

    ALL = "all"
    FAILED = "failed"


def _option(
    default: Any, parser: Callable[[str], Any], help: str, metavar: str | None = None, *, is_option: bool = True
) -> Any:
    """A setting that is an option on the command line too."""
    return field(default=default, metadata={"parse": parser, "help": help, "metavar": metavar, "is_option": is_option})


_ini = partial(_option, is_option=False)
"""A setting that few people change: an ini value or an environment variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user asked for; each setting's help text explains it."""

    root: Path = Path()
    collects_only: bool = False
    rerun: RerunCommand = RerunCommand()
    update_baselines: Update | None = None

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
        0.02, parse.tolerance, "accepted change in throughput where neither test nor baseline gives one", "FRACTION"
    )
    against: Path | None = _option(
        None, parse.python, "compare with another Python or virtual environment, not with baselines", "PYTHON"
    )
    reference: ReferenceEnvironment | None = _option(
        None,
        parse.reference,
        "confirm slowdowns in this environment, not in those of tfperf reference",
        "PYTHON[:SOURCE]",
    )
    input_pipeline: str = _option(
        "device", parse.pipeline, "value of the input_pipeline fixture in tests that don't parametrise it", "NAME"
    )
    data_dir: Path | None = _option(
        None, parse.folder, "folder of the TFRecords that the pipelines imagenet and tokens read", "DIR"
    )
    require_baseline: bool = _option(
        False, parse.flag, "the nightly gate: fail a test without a baseline, exit with 6 if nothing was measured"
    )
    profile_on_regression: Path | None = _option(
        None,
        parse.folder,
        "folder for traces of TensorFlow's profiler, taken of each regressed test and each new baseline",
        "DIR",
    )
    strict: bool = _option(False, parse.flag, "fail INCONCLUSIVE tests too")
    hold: bool = _option(False, parse.flag, "fail a regression only if one of the two sessions before showed it too")
    fail_on_drift: bool = _option(
        False, parse.flag, "fail the session while the history shows a lasting slowdown that no new baseline accepted"
    )
    smoke: bool = _option(
        False, parse.flag, "run one window of each test and judge nothing, to see whether all tests start"
    )
    worker: WorkerStart = _option(
        WorkerStart.FORK, parse.worker, "start workers from a fork server, or as fresh interpreters", "fork|fresh"
    )
    launcher: str = _option(
        "local",
        parse.launcher,
        "what starts tests on several nodes, with its options: local, mpirun, slurm, ray, external",
        "'NAME [OPTIONS]'",
    )
    budget: float | None = _option(
        None,
        parse.duration,
        "measure the most informative tests that fit into this time, and leave out the rest",
        "TIME",
    )
    html: Path | None = _option(None, parse.file, "write a report of the session, one HTML file", "PATH")
    split_gpu: bool = _option(
        False, parse.flag, "split one GPU into as many logical GPUs as a test takes, to try multi-GPU code"
    )
    inject_slowdown: float = _option(
        0.0,
        parse.fraction,
        "make workers lose this part of their throughput on purpose, to see the gate fail",
        "FRACTION",
    )

    history_url: HistoryUrl | None = _ini(
        None, HistoryUrl, "a team's PostgreSQL server, to which each session sends its history"
    )
    steps: int = _ini(100, parse.count(1), "the most steps that a run times, in tests that set no steps")
    warmup_steps: int = _ini(
        10, parse.count(0), "the least steps that run untimed first, in tests that set no warmup_steps"
    )
    runs: int = _ini(5, parse.count(5), "fresh runs that --update-baselines measures, at least 5")
    max_time: float = _ini(
        math.inf, parse.seconds_or_inf, "the most seconds that a run is timed, except for baselines; inf for no limit"
    )
    interface: str = _ini("", str, "network interface, or address, at which ranks on other nodes call this machine")
    port: int = _ini(0, parse.port, "port at which ranks on other nodes call this machine; 0 for any that is free")
    key_file: Path | None = _ini(None, parse.file, "file with the key of ranks that --tfperf-launcher=external awaits")
    markdown: Path | None = _ini(None, parse.file, "file that gets the session's summary as Markdown")
    timeout: float = _ini(600.0, parse.seconds, "seconds of silence after which a worker is killed as hung")
    busy: float = _ini(
        0.25, parse.share, "CPU share of other processes above which a run is disturbed; 1 switches the check off"
    )
    steal: float = _ini(
        0.25,
        parse.share,
        "CPU share given to other virtual machines above which a run is disturbed; 1 switches the check off",
    )
    idle: float = _ini(
        0.25, parse.share, "other processes don't disturb a run while more than this share of the CPU is idle"
    )
    swap: float = _ini(1.0, parse.rate, "swapping in MiB/s above which a run is disturbed; inf switches the check off")
    gpu_busy: float = _ini(
        0.05, parse.share, "another process's use of our GPU above which a run is disturbed; 1 switches the check off"
    )
    gpu_throttled: float = _ini(
        0.25,
        parse.share,
        "share of samples with a GPU slowed by heat or power above which a run is disturbed; 1 switches the check off",
    )

    @classmethod
    def from_config(cls, config: pytest.Config) -> Self:
        """Read pytest's command line, the environment and the ini file; relative paths start at rootdir.

        Raises:
            TfperfError: a value that is not allowed; says where it was given and what is.
        """
        given = {name: found for name in _SETTINGS if (found := _given(config, name)) is not None}
        values = {name: _parse(name, *found) for name, found in given.items()}
        for name, setting in _SETTINGS.items():
            kind = setting.metadata["parse"]
            if kind not in (parse.folder, parse.file):
                continue
            path = values.get(name, setting.default)
            values[name] = None if path is None else config.rootpath / path
            if kind is parse.folder and name in given and os.path.isfile(values[name]):  # noqa: PTH113  # never raises
                raise TfperfError(f"{given[name].source}: {values[name]} is a file; name a folder")
        update = config.getoption("update_baselines")
        if update and config.getoption("numprocesses", None):
            raise TfperfError("--update-baselines with -n: nothing is measured under pytest-xdist. Add -n 0")
        if update:
            values.pop("max_time", None)  # runs that are cut short are no baseline
        if "baselines" in given and not values["baselines"].exists() and not update:
            _refuse_missing_baselines(given["baselines"].source, values["baselines"])
        settings = cls(
            root=config.rootpath,
            collects_only=any(map(config.getoption, _COLLECT_ONLY)),
            update_baselines=Update(update) if update else None,
            rerun=rerun_command(config, given, values),
            **values,
        )
        for a, b, why in _CONTRADICTIONS:
            if all(getattr(settings, name) != cls.__dataclass_fields__[name].default for name in (a, b)):
                _refuse_both([given.get(name, Given(_spelled(name), "")).source for name in (a, b)], (a, b), why)
        return settings

    @property
    def disturbance_limits(self) -> DisturbanceLimits:
        """From where other work on the machine, or heat, disturbs a run."""
        return DisturbanceLimits(
            other_cpu_fraction=self.busy,
            idle_fraction=self.idle,
            steal_fraction=self.steal,
            swap_bytes_per_sec=self.swap * 2**20,
            gpu_utilisation_fraction=self.gpu_busy,
            gpu_samples_fraction=self.gpu_throttled,
        )

    @property
    def shown_baselines(self) -> str:
        """The folder of the baselines as a message names it."""
        is_inside = self.baselines.is_relative_to(self.root)
        return f"{self.baselines.relative_to(self.root) if is_inside else self.baselines}/"


_SETTINGS: dict[str, Any] = {f.name: f for f in fields(Settings) if "parse" in f.metadata}

_COLLECT_ONLY = ("collectonly", "showfixtures", "show_fixtures_per_test", "setupplan")
"""pytest's options with which no test runs."""

_CONTRADICTIONS = (
    ("update_baselines", "smoke", "one window is no baseline"),
    ("update_baselines", "inject_slowdown", "the slowdown would become the reference"),
    ("update_baselines", "against", "a comparison has no baseline"),
    ("hold", "strict", "hold makes a new regression INCONCLUSIVE, which strict fails"),
    ("against", "hold", "a comparison has no earlier session"),
    ("against", "reference", "a comparison has no reference environment"),
    ("launcher", "split_gpu", "ranks on several nodes can't share one GPU"),
    ("smoke", "against", "one window compares nothing"),
    ("smoke", "require_baseline", "a smoke run judges nothing"),
)
"""Settings of which at most one may differ from its default, and why."""


def add_options(parser: pytest.Parser) -> None:
    """Register every option and ini value, in one group."""
    group = parser.getgroup("tfperf", "performance gate for TensorFlow (pytest-tfperf)")
    group.addoption(
        "--update-baselines",
        action="store_const",
        const=Update.ALL.value,
        dest="update_baselines",
        help="record what is measured as this machine's baselines: at least 5 fresh runs of each selected test",
    )
    # An option of its own, not an optional value: `pytest --update-baselines perf_tests` must not eat the path.
    group.addoption(
        "--update-baselines=failed",
        action="store_const",
        const=Update.FAILED.value,
        dest="update_baselines",
        help="record only the baselines of tests that failed in the last session",
    )
    for name, setting in _SETTINGS.items():
        text = setting.metadata["help"]
        default = "" if setting.default in ("", None) else f" (default: {setting.default})"
        if not setting.metadata["is_option"]:
            parser.addini(f"tfperf_{name}", help=text + default)
            continue
        parser.addini(f"tfperf_{name}", help=f"default of {_spelled(name)}")
        if setting.metadata["parse"] is parse.flag:
            group.addoption(_spelled(name), dest=f"tfperf_{name}", help=text, action="store_true", default=None)
        else:
            text += default if setting.default else ""
            group.addoption(_spelled(name), dest=f"tfperf_{name}", help=text, metavar=setting.metadata["metavar"])


def refuse_unknown_update(arguments: Sequence[str]) -> None:
    """Explain a wrong `--update-baselines=VALUE`, which argparse reports in words that name neither option.

    Raises:
        TfperfError: `--update-baselines=` with anything but "failed".
    """
    for argument in arguments:
        option, given, value = str(argument).partition("=")
        if argument == "--":
            return
        if option == "--update-baselines" and given and value != Update.FAILED:
            known = one_of("value", value, [Update.FAILED])
            raise TfperfError(f"--update-baselines: {known} Without a value it records every selected test")


def _spelled(name: str) -> str:
    """A setting as a message names it."""
    if name in _SETTINGS:
        return f"--tfperf-{name.replace('_', '-')}" if _SETTINGS[name].metadata["is_option"] else f"tfperf_{name}"
    return f"--{name.replace('_', '-')}"


def _given(config: pytest.Config, name: str) -> Given | None:
    """What the user gave for a setting; None where its default holds."""
    if (value := config.getoption(f"tfperf_{name}", None)) is not None:
        return Given(_spelled(name), str(value))
    if value := os.environ.get(f"TFPERF_{name.upper()}"):
        return Given(f"environment variable TFPERF_{name.upper()}", value)
    if value := config.getini(f"tfperf_{name}"):
        if any(line.startswith(f"tfperf_{name}=") for line in config.getoption("override_ini", None) or ()):
            return Given(f"-o tfperf_{name}", str(value))
        return Given(f"{config.inipath}: tfperf_{name}", str(value))
    return None


def _refuse_both(sources: Sequence[str], names: Sequence[str], why: str) -> NoReturn:
    """Say which two settings contradict each other, and where each was given."""
    text = f"{' with '.join(sources)}: {why}. Leave one of them out"
    for source, name in zip(sources, names, strict=True):
        if not source.startswith(("-", "environment")):
            text += f"; for one session -o tfperf_{name}= does so"
    raise TfperfError(f"{text}.")


def _refuse_missing_baselines(source: str, folder: Path) -> None:
    """A misspelt folder would leave each test without a baseline, and so the gate green.

    In an ini file it is the folder of baselines yet to be recorded.
    """
    if source.startswith(("-", "environment")):
        raise TfperfError(
            f"{source}: there is no folder {folder}. Name the folder of your baselines, or record them there with "
            "--update-baselines"
        )


def _parse(name: str, source: str, text: str) -> Any:
    try:
        return _SETTINGS[name].metadata["parse"](text)
    except TfperfError as error:
        raise TfperfError(f"{source}: {error}") from None
    except ValueError as error:
        raise TfperfError(f"{source}: {shortened(text)!r} {error}") from None
