"""Reads every option, environment variable and ini value once, into one frozen `Settings`.

Each setting NAME can be given as the environment variable `TFPERF_NAME` or as the ini value `tfperf_NAME`; settings
that people change from one session to the next also as the option `--tfperf-NAME`. The option wins over the variable,
and the variable over the ini value. A setting is a `Setting`: an attribute of `Settings` in `core/settings.py`, or in
a feature's `FEATURE`.
"""

from __future__ import annotations

import json
import os
import re
from argparse import Action, Namespace
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from itertools import permutations
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, Self

import pytest

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.rerun_command import RECORDING_OPTION, RerunCommand, name_recording_option, recording_option
from pytest_tfperf.core.setting import Origin, RawSetting, Setting
from pytest_tfperf.core.settings import MAX_SECONDS, OF_THE_SPINE, TOLD, Settings, Update
from pytest_tfperf.errors import TfperfError, WorkloadError, one_of
from pytest_tfperf.features import settings_of_features
from pytest_tfperf.lines import printable, without_passwords
from pytest_tfperf.workers import catalogue

_COLLECT_ONLY = ("collectonly", "showfixtures", "show_fixtures_per_test", "setupplan")
"""pytest's options with which no test runs."""

_OF_WORKERS = ("TFPERF_ADDRESS", "TFPERF_JOB", "TFPERF_KEY_FILE", "TFPERF_RANK", "TFPERF_SIZE")
"""Variables by which ranks on several nodes find the driver, and which a job may set for all of its processes."""

_ALIKE = 0.88  # of two names: one letter more, less or swapped in a short one

_DEST = "tfperf_update_baselines"
_ALWAYS = f"--tfperf{RECORDING_OPTION[1:]}"
"""The option that always works, also where another plugin has an option `--update-baselines`."""
_RECORDING: Setting[Update | None] = Setting(
    name="update_baselines", default=None, parse=Update, help="", of_one_session=True
)


def read_settings(config: pytest.Config) -> Settings:
    """Read pytest's command line, the environment and the ini file; relative paths start at rootdir.

    Raises:
        TfperfError: a value that is not allowed; says where it was given and what is.
    """
    known = {setting.name: setting for setting in (*OF_THE_SPINE, *settings_of_features())}
    _refuse_misspelt_variables(known)
    given: dict[str, RawSetting] = {}
    values: dict[str, Any] = {}
    for name, setting in known.items():
        if (raw := _given(config, setting)) is not None:
            given[name], values[name] = raw, raw.value
        if setting.parse in (parse.folder, parse.file):
            values[name] = _path(config, setting, values.get(name, setting.default), raw)
    update = config.getoption(_DEST)
    if update and config.getoption("numprocesses", None):
        raise TfperfError(f"{recording_option()} with -n: nothing is measured under pytest-xdist", next_step="Add -n 0")
    if update:
        # None stands for the default: runs that are cut short make poor baselines.
        longer = values.get("max_time") or 0.0
        values["max_time"] = longer if longer >= MAX_SECONDS else None
    if "baselines" in given and not values["baselines"].exists() and not update:
        _refuse_missing_baselines(given["baselines"], values["baselines"])
    if (pipeline := given.get("input_pipeline")) is not None:
        try:
            catalogue.resolve("input_pipeline", pipeline.value)
        except WorkloadError as error:
            raise error.of_type(TfperfError).at(str(pipeline)) from None
    _refuse_contradictions(known, given, values | {"update_baselines": update})
    told = json.loads(os.environ.get(TOLD, "{}"))
    # Commands read variables and the ini file themselves.
    named = [name for name in ("dir", "baselines") if name in given and given[name].origin is Origin.OPTION]
    folders = "".join(f" --{name}={quote(str(values[name]))}" for name in named)
    return Settings(
        root=config.rootpath,
        collects_only=any(map(config.getoption, _COLLECT_ONLY)),
        update_baselines=Update(update) if update else None,
        slowed=tuple(told.get("slowed", ())),
        bisect_step=Path(told["bisect_step"]) if "bisect_step" in told else None,
        rerun=replace(rerun_command(config, known | {_RECORDING.name: _RECORDING}, given), folders=folders),
        values=values,
    )


def add_options(parser: pytest.Parser) -> None:
    """Register every option and ini value, in one group."""
    group = parser.getgroup("tfperf", "pytest-tfperf: fail tests whose training program became slower than accepted")
    _add_recording_options(group)
    for setting in (*OF_THE_SPINE, *settings_of_features()):
        default = "" if setting.default in ("", None, ()) else f" (default: {setting.default})"
        name, is_flag = f"tfperf_{setting.name}", setting.parse is parse.flag
        text = f"default of {setting.spelled}" if setting.is_option else setting.help + default
        if is_flag:
            parser.addini(name, text, type="bool", default=None)
        else:
            parser.addini(name, text, default=None)
        if setting.is_option:
            form = {"action": "store_true", "default": None} if is_flag else {"metavar": setting.metavar}
            text = setting.help + (default if setting.default else "")
            group.addoption(setting.spelled, dest=name, help=text, **form)


def take_short_option(parser: pytest.Parser, words: list[str]) -> None:
    """Read `--update-baselines` as ours, unless a conftest.py or another plugin has an option of that name.

    It is no option of the parser's, which a conftest.py in a folder of tests may add to while they are collected. The
    parser has the options of the plugins and of the first conftest.py files, of which pytest has no public list. The
    words of the command line are changed.

    Raises:
        TfperfError: as `refuse_unknown_update`.
    """
    try:
        is_free = RECORDING_OPTION in parser.parse_known_and_unknown_args([RECORDING_OPTION], Namespace())[1]
    except (pytest.UsageError, SystemExit):  # theirs takes a value
        is_free = False
    if is_free:
        refuse_unknown_update(words, RECORDING_OPTION)
        for number, word in enumerate(words):
            if word.partition("=")[0] == RECORDING_OPTION:
                words[number] = _ALWAYS + word.removeprefix(RECORDING_OPTION)
    name_recording_option(RECORDING_OPTION if is_free else _ALWAYS)


def _add_recording_options(group: pytest.OptionGroup) -> None:
    all_tests = "record what is measured as this machine's baselines: at least 5 fresh runs of each selected test"
    failed = "record only the baselines of tests that failed in the last session"
    short = "; the same without `tfperf-`, where no conftest.py and no plugin has an option of that name"
    # Two options, not one with an optional value: `pytest --update-baselines perf_tests` must not eat the path.
    for spelled, update, text in (
        (_ALWAYS, Update.ALL, all_tests),
        (f"{_ALWAYS}={Update.FAILED}", Update.FAILED, failed),
    ):
        group.addoption(spelled, action="store_const", const=update.value, dest=_DEST, help=text + short)


def refuse_unknown_update(arguments: Sequence[str], option: str = _ALWAYS) -> None:
    """Explain a wrong `--update-baselines=VALUE`, which argparse reports in words that name neither option.

    Raises:
        TfperfError: the option with "=" and anything but "failed".
    """
    for argument in arguments:
        name, given, value = str(argument).partition("=")
        if argument == "--":
            return
        if name == option and given and value != Update.FAILED:
            known = one_of("value", value, [Update.FAILED])
            raise TfperfError(f"{option}: {known} Without a value it records every selected test")


def _refuse_misspelt_variables(known: Collection[str]) -> None:
    """Refuse a misspelt variable, which would leave the gate off; a variable that resembles no setting is not ours."""
    right = [*map(parse.variable, known)]
    for name in os.environ:
        if not name.startswith("TFPERF_") or name in right or name in _OF_WORKERS:
            continue
        if near := get_close_matches(name, right, n=1, cutoff=_ALIKE):
            raise TfperfError(f"environment variable {name} is no setting", next_step=f"Did you mean {near[0]}?")


def _given(config: pytest.Config, setting: Setting[Any]) -> RawSetting | None:
    """The setting as the user gave it; None where nothing was given."""
    name = setting.name
    if (value := config.getoption(f"tfperf_{name}", None)) is not None:
        return RawSetting(setting, Origin.OPTION, str(value))
    value = os.environ.get(parse.variable(name))
    if value is not None and (value.strip() or not setting.is_secret):
        return RawSetting(setting, Origin.VARIABLE, value)
    # `none` is a value of each setting, but pytest would refuse it for a flag.
    for line in reversed(config.getoption("override_ini", None) or ()):
        if line.startswith(f"tfperf_{name}="):
            return RawSetting(setting, Origin.OVERRIDE, line.partition("=")[2])
    try:
        value = config.getini(f"tfperf_{name}")
    except (TypeError, ValueError, pytest.UsageError):  # by type: pytest 9 reads values of pytest.toml as they are
        right = "true or false, without quotes" if setting.parse is parse.flag else 'a text in quotes: "..."'
        raise TfperfError(f"{config.inipath}: tfperf_{name} must be {right}") from None
    return None if value is None else RawSetting(setting, Origin.INI_FILE, str(value), str(config.inipath))


def _path(config: pytest.Config, setting: Setting[Any], path: Path | None, given: RawSetting | None) -> Path | None:
    """The path from rootdir; a folder that the user gave must not be a file."""
    if path is None:
        return None
    full = config.rootpath / path
    if setting.parse is parse.folder and given and os.path.isfile(full):  # noqa: PTH113  # never raises
        raise TfperfError(f"{given}: {full} is a file; name a folder")
    return full


def _refuse_contradictions(
    known: Mapping[str, Setting[Any]], given: Mapping[str, RawSetting], values: Mapping[str, Any]
) -> None:
    """Refuse two settings that exclude each other where both differ from their defaults."""
    known = {_RECORDING.name: _RECORDING, **known}
    changed = [setting for setting in known.values() if values.get(setting.name, setting.default) != setting.default]
    for both in permutations(changed, 2):
        if why := both[0].excludes.get(both[1].name):
            names = [str(given[setting.name]) if setting.name in given else recording_option() for setting in both]
            text = f"{' with '.join(names)}: {why}. Leave one of them out"
            for setting in both:
                if setting.name in given and given[setting.name].origin in (Origin.OVERRIDE, Origin.INI_FILE):
                    text += f"; for one session -o tfperf_{setting.name}={parse.DEFAULT} does so"
            raise TfperfError(f"{text}.")


def _refuse_missing_baselines(given: RawSetting, folder: Path) -> None:
    """Refuse a misspelt folder, which would leave each test without a baseline, and so the gate green.

    The default and an ini file's folder may be missing: its baselines are yet to be recorded.
    """
    if given.origin is not Origin.INI_FILE and given.text != parse.DEFAULT:
        raise TfperfError(
            f"{given}: there is no folder {folder}",
            next_step=f"Name the folder of your baselines, or record them there with {recording_option()}",
        )


# Options of this session that rerun commands must repeat: all that affect what is measured

_CHOOSING = frozenset({"-k", "-m", "--deselect", "--ignore", "--ignore-glob", "--pyargs"})
"""pytest's options that choose tests."""

_LOADING = frozenset({"-c", "--config-file", "--rootdir", "-p", "--import-mode", "--noconftest", "--confcutdir"})
"""pytest's options that decide with which settings and plugins tests are loaded."""

_OVERRIDES = ("-o", "--override-ini")

_SECRET = re.compile("token|passw|secret|credential|api-?_?key", re.IGNORECASE)
"""The names of a project's own options whose values no command may show."""

_OWN_GROUP = "Custom options"
"""Where pytest puts what a conftest.py adds with `parser.addoption`."""


class _Known(NamedTuple):
    """The options that this pytest has."""

    actions: Mapping[str, Action]  # each spelling, and what argparse does with it
    own: Collection[str]  # spellings of those that the project's own conftest.py adds: a test may depend on them
    left_out: Collection[str]  # names of our settings that concern a single session, or that no command may show

    @classmethod
    def of(cls, config: pytest.Config, settings: Iterable[Setting[Any]]) -> Self:
        """From pytest's parser, which has no public name; without it all options look unknown."""
        parser = getattr(getattr(config, "_parser", None), "optparser", None)
        own = set[str]()
        for group in getattr(parser, "_action_groups", ()):
            if group.title == _OWN_GROUP:
                own.update(*(action.option_strings for action in group._group_actions))
        left_out = {setting.name for setting in settings if setting.of_one_session or setting.is_secret}
        return cls(getattr(parser, "_option_string_actions", {}), own, left_out)


def rerun_command(
    config: pytest.Config, settings: Mapping[str, Setting[Any]], given: Mapping[str, RawSetting]
) -> RerunCommand:
    """The command of this session's tests; `given` is what the user gave, by name."""
    called, known = config.invocation_params, _Known.of(config, settings.values())
    options, arguments = "", ""
    for group in _kept(called.args, known):
        words = _shell_words(group)
        arguments += words
        # A command that names a test needs every option that does not choose tests.
        if group[0].startswith("-") and _name(group[0]) not in _CHOOSING:
            options += words
    environment = ""
    for raw in given.values():  # as overrides: the shell in which a command is pasted may not have the variables
        if raw.origin is Origin.VARIABLE and raw.setting.name not in known.left_out:
            environment += _shell_words(("-o", f"tfperf_{raw.setting.name}={raw.text}"))
    return RerunCommand(options + environment, config.rootpath, called.dir, arguments + environment)


def _shell_words(words: Iterable[str]) -> str:
    """The words for a shell, each after a space, without the passwords of URLs."""
    return "".join(f" {quote(without_passwords(word))}" for word in words)


def _kept(typed: Iterable[object], known: _Known) -> Iterator[list[str]]:
    """The tests and options of the command line that affect what is measured, each with its values."""
    words = deque(map(str, typed))
    while words:
        group = _next_option(words, known.actions)
        if not group[0].startswith("-") or _is_kept(group, known):
            yield _without_secret(group)


def _without_secret(group: list[str]) -> list[str]:
    """The option without its value, where its name says that this is a secret."""
    name = _name(group[0])
    if not name.startswith("-") or not _SECRET.search(name):
        return group
    return [f"{name}=***"] if group[0] != name else [name, *["***"] * len(group[1:])]


def _next_option(words: deque[str], actions: Mapping[str, Action]) -> list[str]:
    """Take a test, or an option with its values, from the words; a flag is taken out of `-xvs`."""
    word = words.popleft()
    is_short = word.startswith("-") and not word.startswith("--")
    name = word[:2] if is_short else word.partition("=")[0]
    if not word.startswith("-") or name not in (*actions, *_OVERRIDES):
        return [word]
    nargs = actions[name].nargs if name in actions else None
    if nargs == 0:
        if is_short and len(word) > 2:
            words.appendleft(f"-{word[2:]}")
        return [name]
    if name != word:  # its value is attached
        return [word]
    group = [word]
    most = nargs if isinstance(nargs, int) else len(words) if nargs in ("*", "+") else 1
    takes_any = nargs not in ("?", "*", "+")
    while words and len(group) <= most and (takes_any or not words[0].startswith("-")):
        group.append(words.popleft())
    return group


def _is_kept(group: Sequence[str], known: _Known) -> bool:
    """Whether an option affects what is measured."""
    name = _name(group[0])
    if name in _OVERRIDES:
        return not any(_overridden(word) in known.left_out for word in group)
    if name in ("-n", "--numprocesses"):
        return re.split("=|^-n", " ".join(group))[-1].strip() == "0"
    if name.startswith("--tfperf-"):
        return name.removeprefix("--tfperf-").replace("-", "_") not in known.left_out
    return name in _CHOOSING or name in _LOADING or name in known.own


def _name(word: str) -> str:
    """The option of a word that may hold its value, too: `-ksmall`, `--ignore=old`."""
    return word.partition("=")[0] if word.startswith("--") else word[:2]


def _overridden(word: str) -> str:
    """The setting in `-otfperf_strict=1`, `--override-ini=tfperf_strict=1` or a value of `-o`: "strict"."""
    for option in _OVERRIDES:
        word = word.removeprefix(option)
    return word.removeprefix("=").partition("=")[0].removeprefix("tfperf_")


# Usage errors


def hide_in_errors_of(parser: pytest.Parser) -> None:
    """Show no password in pytest's own errors of the command line, which repeat an unknown option with its value."""
    options: Any = getattr(parser, "optparser", None)  # pytest has no public name
    if error := getattr(options, "error", None):

        def hidden(message: str) -> None:
            error(printable(message))

        options.error = hidden


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Turn a fault before the first test into pytest's usage error, exit status 4."""
    try:
        yield
    except TfperfError as error:
        raise pytest.UsageError(printable(str(error))) from None


@contextmanager
def without_passwords_in() -> Iterator[None]:
    """Show no password in pytest's own errors before the first test, which repeat a path that does not exist."""
    try:
        yield
    except pytest.UsageError as error:
        raise pytest.UsageError(*(printable(str(line)) for line in error.args)) from None
