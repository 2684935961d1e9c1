"""Every option, environment variable and ini value, read once into one frozen `Settings`.

Each option NAME can be given as `--tfperf-NAME`, as the variable `TFPERF_NAME`, or as the ini value `tfperf_NAME`; the
first that is given holds.
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
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.image_data import Data, OnCorrupt
from pytest_tfperf.core.machine_key import check_name
from pytest_tfperf.core.samples import MIB, Limits
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.workers.interpreters import find_python

if TYPE_CHECKING:
    import pytest


class Update(StrEnum):
    """What `--update-baselines` records anew."""

    ALL = "all"
    FAILED = "failed"


class WorkerStart(StrEnum):
    """How worker processes start."""

    FORK = "fork"
    FRESH = "fresh"


@dataclass(frozen=True, slots=True)
class Again:
    """What a command needs that measures a test again.

    Args:
        options: what the command line said of what is measured; shell words, each after a space.
        root: pytest's rootdir, which node ids are relative to.
        folder: where pytest was called, which a command's paths are relative to.
    """

    options: str = ""
    root: Path = Path()
    folder: Path = Path()


AS_IT_STANDS: Final = Again()
"""A node id from rootdir, and no options."""


class _Refused(ValueError):
    """A value of the right type that can't be; its text goes on after the value."""


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise _Refused("must be a fraction from 0 to below 1, 0.4 for 40 %")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise _Refused("must be a fraction above 0, up to 1, 0.4 for 40 %")
    return value


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise _Refused("must be a fraction between 0 and 1, 0.05 for 5 %")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1e6:  # sockets refuse to wait for ever when that is given as a number
        raise _Refused("must be above 0 and at most 1,000,000 seconds")
    return value


def _limit(text: str) -> float:
    """Seconds, or inf: none."""
    return math.inf if float(text) == math.inf else _seconds(text)


def _rate(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise _Refused("must be 0 or more MiB/s, or inf")
    return value


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise _Refused(f"must be a whole number from {least}")
        return value

    return parse


def _flag(text: str) -> bool:
    try:
        return {
            "true": True,
            "yes": True,
            "on": True,
            "1": True,
            "false": False,
            "no": False,
            "off": False,
            "0": False,
        }[text.lower()]
    except KeyError:
        raise _Refused("must be true or false") from None


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise _Refused("must be a folder, and nobody has that home") from None


def _python(text: str) -> Path:
    try:
        return find_python(text)
    except ValueError as error:
        raise _Refused(str(error)) from None


def _machine(text: str) -> str:
    if text:
        check_name(text)
    return text


def _pipeline(text: str) -> str:
    catalogue.resolve_pipeline(text)
    return text


def _option(default: Any, parse: Callable[[str], Any], help: str, metavar: str | None = None) -> Any:
    return dataclass_field(default=default, metadata={"parse": parse, "help": help, "metavar": metavar})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user asked for; see each field's help, which `pytest --help` shows too."""

    root: Path = Path()
    tolerance_asked: bool = False
    again: Again = AS_IT_STANDS
    update_baselines: Update | None = None
    baselines: Path = _option(
        Path("baselines"), _folder, "folder of the baselines, one CSV for each machine (under rootdir)", "DIR"
    )
    dir: Path = _option(
        Path(".tfperf"), _folder, "folder of the local history and the workers' logs (under rootdir)", "DIR"
    )
    machine: str = _option(
        "", _machine, "name of this machine's baselines, instead of one made from its hardware", "NAME"
    )
    tolerance: float = _option(0.02, _tolerance, "accepted change where neither test nor baseline says", "FRACTION")
    steps: int = _option(100, _count(1), "the most steps that are timed, where the test doesn't say", "N")
    warmup_steps: int = _option(10, _count(0), "steps that run before them untimed, at least", "N")
    busy: float = _option(
        0.25,
        _share,
        "other processes' part of the CPU time above which a slow run is measured again, and then INVALID; 1: off",
        "FRACTION",
    )
    steal: float | None = _option(
        None,
        _share,
        "the same for what the hypervisor gives to other machines; 1: off (default: as --tfperf-busy)",
        "FRACTION",
    )
    idle: float = _option(
        0.25,
        _share,
        "while more of the CPU than this is idle, other processes don't count; 1: they always do",
        "FRACTION",
    )
    swap: float = _option(
        1.0, _rate, "swapping above which a slow run is measured again, then INVALID; inf: off", "MIB/S"
    )
    gpu_busy: float = _option(0.05, _share, "the same for another process's use of our GPU; 1: off", "FRACTION")
    gpu_throttled: float = _option(
        0.25,
        _share,
        "the part of a GPU's samples that may show heat, the power brake or others' work; 1: all",
        "FRACTION",
    )
    max_time: float = _option(
        math.inf, _limit, "the most seconds that a run is timed, even if steps are left; inf: no limit", "SECONDS"
    )
    against: Path | None = _option(
        None, _python, "compare with another Python, or virtual environment, instead of the baselines", "PYTHON"
    )
    save_trials: Path | None = _option(
        None, _folder, "keep each measurement's whole trial as a file, for `tfperf replay` (under rootdir)", "DIR"
    )
    input_pipeline: str = _option(
        "device", _pipeline, "the input_pipeline fixture's value where not parametrised", "NAME"
    )
    data_dir: Path | None = _option(
        None, _folder, "folder of the ImageNet TFRecords that the imagenet pipelines read (under rootdir)", "DIR"
    )
    corrupt: OnCorrupt = _option(
        OnCorrupt.STOP, OnCorrupt, "what a corrupt record or JPEG does to a run: stop, or skip the record", "HOW"
    )
    runs: int = _option(5, _count(5), "fresh runs that --update-baselines measures, at least 5", "N")
    require_baseline: bool = _option(
        False,
        _flag,
        "the nightly gate: a test without a measured baseline fails, measuring nothing exits with 6",
    )
    strict: bool = _option(
        False, _flag, "fail INCONCLUSIVE tests too, and refuse a tolerance that noise does not allow"
    )
    hold: bool = _option(
        False,
        _flag,
        "fail a regression only where one of the two nights before shows it too (in --tfperf-dir)",
    )
    coverage: bool = _option(
        False, _flag, "run nothing: list the documents' figures that no selected test would measure"
    )
    smoke: bool = _option(False, _flag, "run one window of each test and judge nothing: see whether all of them start")
    worker: WorkerStart = _option(
        WorkerStart.FORK,
        WorkerStart,
        "fork workers from a server that has imported TensorFlow, or start fresh ones",
        "HOW",
    )
    timeout: float = _option(600.0, _seconds, "seconds of silence after which a worker is killed as hung", "SECONDS")
    split_gpu: bool = _option(False, _flag, "split one GPU into as many as a test takes, to try the multi-GPU paths")
    inject_slowdown: float = _option(
        0.0, _fraction, "part of their throughput that workers lose on purpose: see the gate fail", "FRACTION"
    )

    @classmethod
    def from_config(cls, config: pytest.Config) -> Self:
        """Read pytest's command line, the environment and the ini file; paths are put under rootdir.

        Raises:
            TfperfError: a value that can't be one; says where it was given and what it must be.
        """
        given = {name: _given(config, name, os.environ) for name in _options()}
        values = {name: _parse(name, *value) for name, value in given.items() if value is not None}
        for folder in ("baselines", "dir", "save_trials", "data_dir"):
            value = values.get(folder, cls.__dataclass_fields__[folder].default)
            values[folder] = None if value is None else config.rootpath / value
            if (place := given[folder]) is not None and folder != "data_dir" and _is_file(values[folder]):
                raise TfperfError(f"{place[0]}: {values[folder]} is a file. Name a folder, which need not be there yet")
        update = config.getoption("update_baselines")
        settings = cls(
            root=config.rootpath,
            update_baselines=Update(update) if update else None,
            tolerance_asked=given["tolerance"] is not None,
            again=Again(_pytests(config) + _again(given), config.rootpath, config.invocation_params.dir),
            **values,
        )
        settings._refuse_contradictions()
        return settings

    @property
    def limits(self) -> Limits:
        """From where what others do to the machine, or its heat, is a disturbance."""
        return Limits(
            other_cpu_fraction=self.busy,
            idle_fraction=self.idle,
            steal_fraction=self.busy if self.steal is None else self.steal,
            swap_bytes_per_sec=self.swap * MIB,
            gpu_utilisation_fraction=self.gpu_busy,
            gpu_samples_fraction=self.gpu_throttled,
        )

    @property
    def data(self) -> Data:
        """What was said about real images."""
        return Data(folder=str(self.data_dir or ""), on_corrupt=self.corrupt)

    def _refuse_contradictions(self) -> None:
        contradictions = {
            "--update-baselines with --tfperf-smoke: one window is no baseline": self.update_baselines and self.smoke,
            "--update-baselines with --tfperf-inject-slowdown: the loss would become the reference": (
                self.update_baselines and self.inject_slowdown
            ),
            "--update-baselines with --tfperf-against: a comparison has no baseline": (
                self.update_baselines and self.against
            ),
            "--update-baselines with --tfperf-max-time: runs that are cut short are no baseline": (
                self.update_baselines and self.max_time < math.inf
            ),
            "--update-baselines with --tfperf-coverage: nothing is run": self.update_baselines and self.coverage,
            "--tfperf-hold with --tfperf-strict: what is held is INCONCLUSIVE, which strict fails on the first night": (
                self.hold and self.strict
            ),
            "--tfperf-against with --tfperf-hold: a comparison knows no night before": self.against and self.hold,
            "--tfperf-against with --tfperf-save-trials: a comparison is no trial that could be replayed": (
                self.against and self.save_trials
            ),
            "--tfperf-smoke with --tfperf-against: one window compares nothing": self.smoke and self.against,
            "--tfperf-smoke with --tfperf-require-baseline: the smoke run judges nothing": (
                self.smoke and self.require_baseline
            ),
        }
        for text, wrong in contradictions.items():
            if wrong:
                raise TfperfError(f"{text}. Leave one of them out.")


def add_options(parser: pytest.Parser) -> None:
    """Register every option with its ini value, in one group."""
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
        help="the same for those tests only that failed in the last run",
    )
    for name, option in _options().items():
        flag = option.metadata["parse"] is _flag
        spelled, text = name.replace("_", "-"), option.metadata["help"]
        default = "" if flag or option.default in ("", None, 0.0) else f" (default: {option.default})"
        kind: dict[str, Any] = (
            {"action": "store_true", "default": None} if flag else {"metavar": option.metadata["metavar"]}
        )
        group.addoption(f"--tfperf-{spelled}", dest=f"tfperf_{name}", help=f"{text}{default}", **kind)
        parser.addini(f"tfperf_{name}", help=f"the same as --tfperf-{spelled}", default=None, type="string")


def refuse_unknown_update(arguments: Sequence[str]) -> None:
    """What argparse, for which a value and none are two options, says in words that name neither.

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


def _options() -> dict[str, Any]:
    return {f.name: f for f in fields(Settings) if "parse" in f.metadata}


def _given(config: pytest.Config, name: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Where a value was given, and its text."""
    if (value := config.getoption(f"tfperf_{name}")) is not None:
        return f"--tfperf-{name.replace('_', '-')}", str(value)
    if value := environment.get(f"TFPERF_{name.upper()}"):
        return f"environment variable TFPERF_{name.upper()}", value
    if value := config.getini(f"tfperf_{name}"):
        return f"{config.inipath}: tfperf_{name}", str(value)
    return None


_OF_ONE_SESSION = (
    "require_baseline", "strict", "hold", "coverage", "smoke", "save_trials", "inject_slowdown", "max_time"
)  # fmt: skip


def _pytests(config: pytest.Config) -> str:
    """The same of pytest's own options that say where rootdir and the ini file are, and what that holds."""
    once = tuple(f"tfperf_{name}=" for name in _OF_ONE_SESSION)
    words = ["-c", str(file)] if (file := config.getoption("inifilename")) else []
    words += [f"--rootdir={folder}"] if (folder := config.getoption("rootdir")) else []
    for line in dict.fromkeys(config.getoption("override_ini") or ()):
        words += [] if line.startswith(once) else ["-o", line]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _again(given: Mapping[str, tuple[str, str] | None]) -> str:
    """What the command line said of machine, folders, limits and the like; shell words, each after a space."""
    flags = {name for name, option in _options().items() if option.metadata["parse"] is _flag}
    said = {name: value for name, value in given.items() if value and value[0].startswith("--")}
    words = [
        place if name in flags else f"{place}={text}"
        for name, (place, text) in said.items()
        if name not in _OF_ONE_SESSION
    ]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _parse(name: str, place: str, text: str) -> Any:
    parse = _options()[name].metadata["parse"]
    try:
        return parse(text)
    except _Refused as error:
        raise TfperfError(f"{place}: {text!r} {error}") from None
    except TfperfError as error:
        raise TfperfError(f"{place}: {error}") from None
    except ValueError:
        if isinstance(parse, type) and issubclass(parse, StrEnum):
            raise TfperfError(f"{place}: {one_of('value', text, parse)}") from None
        fraction = _options()[name].metadata["metavar"] == "FRACTION"
        hint = ": write a fraction, 0.4 for 40 %" if fraction else ""
        raise TfperfError(f"{place}: {text!r} is no number{hint}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # who uses it will say
        return False
