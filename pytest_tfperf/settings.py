"""Every option, environment variable and ini value, read once into one frozen `Settings`.

Each setting NAME can be given as the environment variable `TFPERF_NAME` or as the ini value `tfperf_NAME`; those that
people change from one session to the next also as the option `--tfperf-NAME`. The option wins over the variable, and
the variable over the ini value.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.machine_key import check_name
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.workers.interpreters import find_python
from pytest_tfperf.workers.reference_environment import ReferenceEnvironment, parse_reference

if TYPE_CHECKING:
    import pytest


class Update(StrEnum):
    """Which tests `--update-baselines` records."""

    ALL = "all"
    FAILED = "failed"


class WorkerStart(StrEnum):
    """How worker processes start."""

    FORK = "fork"
    FRESH = "fresh"


class _BadValue(ValueError):
    """A value of the right type that is not allowed; its text follows the value in the message."""


def _number(least: float, most: float, says: str, *, open_low: bool = False, open_high: bool = False) -> Any:
    """A parser for numbers between two bounds, each part of the range unless it is open."""

    def parse(text: str) -> float:
        value = float(text)
        low = value > least if open_low else value >= least
        high = value < most if open_high else value <= most
        if not (low and high):
            raise _BadValue(says)
        return value

    return parse


_fraction = _number(0, 1, "must be a fraction from 0 to below 1, 0.4 for 40 %", open_high=True)
_share = _number(0, 1, "must be a fraction above 0, up to 1, 0.4 for 40 %", open_low=True)
_tolerance = _number(0, 1, "must be a fraction between 0 and 1, 0.05 for 5 %", open_low=True, open_high=True)
_seconds = _number(0, 1e6, "must be above 0 and at most 1,000,000 seconds", open_low=True)
_rate = _number(0, math.inf, "must be 0 or more MiB/s, or inf")


def _seconds_or_inf(text: str) -> float:
    return math.inf if float(text) == math.inf else float(_seconds(text))


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise _BadValue(f"must be a whole number, {least} or more")
        return value

    return parse


def _flag(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    try:
        return words[text.lower()]
    except KeyError:
        raise _BadValue("must be true or false") from None


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise _BadValue("must be a folder, and there is no such user's home") from None


def _python(text: str) -> Path:
    try:
        return find_python(text)
    except ValueError as error:
        raise _BadValue(str(error)) from None


def _reference(text: str) -> ReferenceEnvironment:
    try:
        return parse_reference(text)
    except ValueError as error:
        raise _BadValue(str(error)) from None


def _machine(text: str) -> str:
    if text:
        check_name(text)
    return text


def _pipeline(text: str) -> str:
    catalogue.resolve_pipeline(text)
    return text


def _option(default: Any, parse: Callable[[str], Any], help: str, metavar: str | None = None) -> Any:
    """A setting that is an option on the command line too."""
    return dataclass_field(
        default=default, metadata={"parse": parse, "help": help, "metavar": metavar, "is_option": True}
    )


def _ini(default: Any, parse: Callable[[str], Any], help: str) -> Any:
    """A setting that few people change: an ini value or an environment variable."""
    return dataclass_field(
        default=default, metadata={"parse": parse, "help": help, "metavar": None, "is_option": False}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user asked for; the help of each setting says what it does."""

    root: Path = Path()
    rerun: RerunCommand = RerunCommand()
    update_baselines: Update | None = None

    baselines: Path = _option(Path("baselines"), _folder, "folder of the baselines, one CSV for each machine", "DIR")
    dir: Path = _option(Path(".tfperf"), _folder, "folder of the history and the workers' logs", "DIR")
    machine: str = _option(
        "", _machine, "name of this machine's baselines, in place of the name made from its hardware", "NAME"
    )
    tolerance: float = _option(
        0.02, _tolerance, "accepted change in throughput where neither test nor baseline gives one", "FRACTION"
    )
    against: Path | None = _option(
        None, _python, "compare with another Python or virtual environment, not with baselines", "PYTHON"
    )
    reference: ReferenceEnvironment | None = _option(
        None, _reference, "confirm slowdowns in this environment, not in those of tfperf reference", "PYTHON[:SOURCE]"
    )
    input_pipeline: str = _option(
        "device", _pipeline, "value of the input_pipeline fixture in tests that don't parametrise it", "NAME"
    )
    data_dir: Path | None = _option(
        None, _folder, "folder of the ImageNet TFRecords that the imagenet pipelines read", "DIR"
    )
    require_baseline: bool = _option(
        False, _flag, "the nightly gate: fail a test without a baseline, exit with 6 if nothing was measured"
    )
    strict: bool = _option(False, _flag, "fail INCONCLUSIVE tests too")
    hold: bool = _option(False, _flag, "fail a regression only if one of the two sessions before showed it too")
    smoke: bool = _option(False, _flag, "run one window of each test and judge nothing: do all tests start?")
    worker: WorkerStart = _option(
        WorkerStart.FORK, WorkerStart, "start workers from a fork server, or as fresh interpreters", "fork|fresh"
    )
    split_gpu: bool = _option(
        False, _flag, "split one GPU into as many logical GPUs as a test takes, to try multi-GPU code"
    )
    inject_slowdown: float = _option(
        0.0, _fraction, "make workers lose this part of their throughput on purpose: see the gate fail", "FRACTION"
    )

    steps: int = _ini(100, _count(1), "the most steps that a run times, in tests that set no steps")
    warmup_steps: int = _ini(10, _count(0), "the least steps that run untimed first, in tests that set no warmup_steps")
    runs: int = _ini(5, _count(5), "fresh runs that --update-baselines measures, at least 5")
    max_time: float = _ini(math.inf, _seconds_or_inf, "the most seconds that a run is timed; inf for no limit")
    timeout: float = _ini(600.0, _seconds, "seconds of silence after which a worker is killed as hung")
    busy: float = _ini(
        0.25, _share, "CPU share of other processes above which a run is disturbed; 1 switches the check off"
    )
    steal: float = _ini(
        0.25,
        _share,
        "CPU share given to other virtual machines above which a run is disturbed; 1 switches the check off",
    )
    idle: float = _ini(
        0.25, _share, "other processes don't disturb a run while more than this share of the CPU is idle"
    )
    swap: float = _ini(1.0, _rate, "swapping in MiB/s above which a run is disturbed; inf switches the check off")
    gpu_busy: float = _ini(
        0.05, _share, "another process's use of our GPU above which a run is disturbed; 1 switches the check off"
    )
    gpu_throttled: float = _ini(
        0.25,
        _share,
        "share of samples with a GPU slowed by heat or power above which a run is disturbed; 1 switches the check off",
    )

    @classmethod
    def from_config(cls, config: pytest.Config) -> Self:
        """Read pytest's command line, the environment and the ini file; relative paths start at rootdir.

        Raises:
            TfperfError: a value that is not allowed; says where it was given and what is.
        """
        given = {name: _given(config, name, os.environ) for name in _settings()}
        values = {name: _parse(name, *value) for name, value in given.items() if value is not None}
        for folder in ("baselines", "dir", "data_dir"):
            value = values.get(folder, cls.__dataclass_fields__[folder].default)
            values[folder] = None if value is None else config.rootpath / value
            if (source := given[folder]) is not None and folder != "data_dir" and _is_file(values[folder]):
                raise TfperfError(f"{source[0]}: {values[folder]} is a file; name a folder, existing or new")
        update = config.getoption("update_baselines")
        settings = cls(
            root=config.rootpath,
            update_baselines=Update(update) if update else None,
            rerun=RerunCommand(
                _pytest_options(config) + _own_options(given), config.rootpath, config.invocation_params.dir
            ),
            **values,
        )
        settings._refuse_contradictions()
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
        return (
            f"{self.baselines.relative_to(self.root) if self.baselines.is_relative_to(self.root) else self.baselines}/"
        )

    def _refuse_contradictions(self) -> None:
        contradictions = {
            "--update-baselines with --tfperf-smoke: one window is no baseline": self.update_baselines and self.smoke,
            "--update-baselines with --tfperf-inject-slowdown: the slowdown would become the reference": (
                self.update_baselines and self.inject_slowdown
            ),
            "--update-baselines with --tfperf-against: a comparison has no baseline": (
                self.update_baselines and self.against
            ),
            "--update-baselines with tfperf_max_time: runs that are cut short are no baseline": (
                self.update_baselines and self.max_time < math.inf
            ),
            "--tfperf-hold with --tfperf-strict: hold makes a new regression INCONCLUSIVE, which strict fails": (
                self.hold and self.strict
            ),
            "--tfperf-against with --tfperf-hold: a comparison has no earlier session": self.against and self.hold,
            "--tfperf-against with --tfperf-reference: a comparison has no reference environment": (
                self.against and self.reference
            ),
            "--tfperf-smoke with --tfperf-against: one window compares nothing": self.smoke and self.against,
            "--tfperf-smoke with --tfperf-require-baseline: a smoke run judges nothing": (
                self.smoke and self.require_baseline
            ),
        }
        for text, wrong in contradictions.items():
            if wrong:
                raise TfperfError(f"{text}. Leave one of them out.")


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
        help="record the baselines of those tests only that failed in the last session",
    )
    for name, setting in _settings().items():
        text = setting.metadata["help"]
        option = f"--tfperf-{name.replace('_', '-')}"
        if setting.metadata["is_option"]:
            flag = setting.metadata["parse"] is _flag
            default = "" if flag or setting.default in ("", None, 0.0) else f" (default: {setting.default})"
            kind: dict[str, Any] = (
                {"action": "store_true", "default": None} if flag else {"metavar": setting.metadata["metavar"]}
            )
            group.addoption(option, dest=f"tfperf_{name}", help=f"{text}{default}", **kind)
            parser.addini(f"tfperf_{name}", help=f"default of {option}", default=None, type="string")
        else:
            parser.addini(f"tfperf_{name}", help=f"{text} (default: {setting.default})", default=None, type="string")


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


def _settings() -> dict[str, Any]:
    return {f.name: f for f in fields(Settings) if "parse" in f.metadata}


def _given(config: pytest.Config, name: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Where a value was given, and its text."""
    if (value := config.getoption(f"tfperf_{name}", None)) is not None:
        return f"--tfperf-{name.replace('_', '-')}", str(value)
    if value := environment.get(f"TFPERF_{name.upper()}"):
        return f"environment variable TFPERF_{name.upper()}", value
    if value := config.getini(f"tfperf_{name}"):
        return f"{config.inipath}: tfperf_{name}", str(value)
    return None


_OF_ONE_SESSION = ("require_baseline", "strict", "hold", "smoke", "inject_slowdown", "max_time")
"""Settings that a command which measures one test again leaves out."""


def _pytest_options(config: pytest.Config) -> str:
    """pytest's own options that a rerun needs: rootdir, the ini file and its overrides; each after a space."""
    once = tuple(f"tfperf_{name}=" for name in _OF_ONE_SESSION)
    words = ["-c", str(file)] if (file := config.getoption("inifilename")) else []
    words += [f"--rootdir={folder}"] if (folder := config.getoption("rootdir")) else []
    for line in dict.fromkeys(config.getoption("override_ini") or ()):
        words += [] if line.startswith(once) else ["-o", line]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _own_options(given: Mapping[str, tuple[str, str] | None]) -> str:
    """Our options from the command line that a rerun needs; each after a space."""
    words = []
    for name, value in given.items():
        if value is None or not value[0].startswith("--") or name in _OF_ONE_SESSION:
            continue
        option, text = value
        words.append(option if _settings()[name].metadata["parse"] is _flag else f"{option}={text}")
    return "".join(f" {shlex.quote(word)}" for word in words)


def _parse(name: str, source: str, text: str) -> Any:
    metadata = _settings()[name].metadata
    parse = metadata["parse"]
    try:
        return parse(text)
    except _BadValue as error:
        raise TfperfError(f"{source}: {text!r} {error}") from None
    except TfperfError as error:
        raise TfperfError(f"{source}: {error}") from None
    except ValueError:
        if isinstance(parse, type) and issubclass(parse, StrEnum):
            raise TfperfError(f"{source}: {one_of('value', text, parse)}") from None
        hint = ": write a fraction, 0.4 for 40 %" if parse in (_fraction, _share, _tolerance) else ""
        raise TfperfError(f"{source}: {text!r} is no number{hint}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # whatever uses the path will say
        return False
