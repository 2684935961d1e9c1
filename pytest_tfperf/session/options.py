"""Reads every option, environment variable and ini value once, into one frozen `Settings`.

Each setting NAME can be given as the environment variable `TFPERF_NAME` or as the ini value `tfperf_NAME`; those that
people change from one session to the next also as the option `--tfperf-NAME`. The option wins over the variable, and
the variable over the ini value. To add one, add a field to `Settings` in `core/settings.py`, or a `Setting` to a
feature's `SETTINGS`.
"""

from __future__ import annotations

import argparse
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn, Self

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.setting import Origin, RawSetting, Setting
from pytest_tfperf.core.settings import OF_THE_SPINE, Settings, Update
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.lines import shortened, without_passwords

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_COLLECT_ONLY = ("collectonly", "showfixtures", "show_fixtures_per_test", "setupplan")
"""pytest's options with which no test runs."""

_RECORDING: Setting[Update | None] = Setting(name="update_baselines", default=None, parse=Update, help="")


def read_settings(config: pytest.Config, of_features: Sequence[Setting[Any]]) -> Settings:
    """Read pytest's command line, the environment and the ini file; relative paths start at rootdir.

    Args:
        config: pytest's.
        of_features: the settings that features bring.

    Raises:
        TfperfError: a value that is not allowed; says where it was given and what is.
    """
    known = {one.name: one for one in (*OF_THE_SPINE, *of_features)}
    given = {name: found for name, one in known.items() if (found := _given(config, one)) is not None}
    values = {name: _parsed(known[name], one) for name, one in given.items()}
    for one in known.values():
        if one.parse in (parse.folder, parse.file):
            values[one.name] = _path(config, one, values.get(one.name, one.default), given.get(one.name))
    update = config.getoption("update_baselines")
    if update and config.getoption("numprocesses", None):
        raise TfperfError("--update-baselines with -n: nothing is measured under pytest-xdist", next_step="Add -n 0")
    if update:
        values.pop("max_time", None)  # runs that are cut short are no baseline
    if "baselines" in given and not values["baselines"].exists() and not update:
        _refuse_missing_baselines(given["baselines"], values["baselines"])
    _refuse_contradictions(known, given, values | {"update_baselines": update})
    names = {one.name for one in of_features}
    return Settings(
        root=config.rootpath,
        collects_only=any(map(config.getoption, _COLLECT_ONLY)),
        update_baselines=Update(update) if update else None,
        rerun=rerun_command(config, known, given),
        of_features={name: value for name, value in values.items() if name in names},
        **{name: value for name, value in values.items() if name not in names},
    )


def add_options(parser: pytest.Parser, of_features: Sequence[Setting[Any]]) -> None:
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
    for one in (*OF_THE_SPINE, *of_features):
        default = "" if one.default in ("", None) else f" (default: {one.default})"
        if not one.is_option:
            parser.addini(f"tfperf_{one.name}", help=one.help + default)
            continue
        parser.addini(f"tfperf_{one.name}", help=f"default of {one.spelled}")
        if one.parse is parse.flag:
            group.addoption(one.spelled, dest=f"tfperf_{one.name}", help=one.help, action="store_true", default=None)
        else:
            text = one.help + (default if one.default else "")
            group.addoption(one.spelled, dest=f"tfperf_{one.name}", help=text, metavar=one.metavar)


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


def _given(config: pytest.Config, setting: Setting[Any]) -> RawSetting | None:
    """What the user gave for a setting; None where its default holds."""
    name = setting.name
    if (value := config.getoption(f"tfperf_{name}", None)) is not None:
        return RawSetting(setting, Origin.OPTION, str(value))
    if value := os.environ.get(f"TFPERF_{name.upper()}"):
        return RawSetting(setting, Origin.VARIABLE, value)
    try:
        value = config.getini(f"tfperf_{name}")
    except TypeError:  # pytest 9 reads numbers and booleans of pytest.toml and [tool.pytest] as such
        raise TfperfError(
            f"{config.inipath}: tfperf_{name} is no text", next_step=f'Write its value in quotes: tfperf_{name} = "..."'
        ) from None
    if value:
        overrides = config.getoption("override_ini", None) or ()
        if any(line.startswith(f"tfperf_{name}=") for line in overrides):
            return RawSetting(setting, Origin.OVERRIDE, str(value))
        return RawSetting(setting, Origin.INI_FILE, str(value), str(config.inipath))
    return None


def _parsed(setting: Setting[Any], given: RawSetting) -> Any:
    try:
        return setting.parse(given.text)
    except TfperfError as error:
        raise error.at(str(given)) from None
    except ValueError as error:
        raise TfperfError(f"{given}: {shortened(given.text)!r} {error}") from None


def _path(config: pytest.Config, setting: Setting[Any], path: Path | None, given: RawSetting | None) -> Path | None:
    """The path from rootdir; a folder that the user gave must not be a file."""
    if path is None:
        return None
    found = config.rootpath / path
    if setting.parse is parse.folder and given and os.path.isfile(found):  # noqa: PTH113  # never raises
        raise TfperfError(f"{given}: {found} is a file; name a folder")
    return found


def _refuse_contradictions(
    known: Mapping[str, Setting[Any]], given: Mapping[str, RawSetting], values: Mapping[str, Any]
) -> None:
    """Refuse two settings of which at most one may differ from its default."""
    known = {"update_baselines": _RECORDING, **known}
    changed = [one for one in known.values() if values.get(one.name, one.default) != one.default]
    for a, b in permutations(changed, 2):
        if why := a.excludes.get(b.name):
            _refuse_both(a, b, given, why)


def _refuse_both(a: Setting[Any], b: Setting[Any], given: Mapping[str, RawSetting], why: str) -> NoReturn:
    """Say which two settings contradict each other, and where each was given."""
    names = [str(given[one.name]) if one.name in given else "--update-baselines" for one in (a, b)]
    text = f"{' with '.join(names)}: {why}. Leave one of them out"
    for one in (a, b):
        if one.name in given and given[one.name].origin in (Origin.OVERRIDE, Origin.INI_FILE):
            text += f"; for one session -o tfperf_{one.name}= does so"
    raise TfperfError(f"{text}.")


def _refuse_missing_baselines(given: RawSetting, folder: Path) -> None:
    """A misspelt folder would leave each test without a baseline, and so the gate green.

    In an ini file it is the folder of baselines yet to be recorded.
    """
    if given.origin in (Origin.OPTION, Origin.OVERRIDE, Origin.VARIABLE):
        raise TfperfError(
            f"{given}: there is no folder {folder}",
            next_step="Name the folder of your baselines, or record them there with --update-baselines",
        )


_CHOOSING = frozenset({"-k", "-m", "--deselect", "--ignore", "--ignore-glob", "--pyargs"})
"""pytest's options that choose tests."""

_LOADING = frozenset({"-c", "--config-file", "--rootdir", "-p", "--import-mode", "--noconftest", "--confcutdir"})
"""pytest's options that decide with which settings and plugins tests are loaded."""

_OVERRIDES = ("-o", "--override-ini")

_OWN_GROUP = "Custom options"
"""Where pytest puts what a conftest.py adds with `parser.addoption`."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The options that this pytest has.

    Args:
        actions: each spelling, and what argparse does with it.
        own: spellings of those that the project's own conftest.py adds: a test may depend on them.
        left_out: names of our settings that concern one session only, or that no command may show.
    """

    actions: Mapping[str, argparse.Action]
    own: frozenset[str]
    left_out: frozenset[str]

    def leaves_out(self, override: str) -> bool:
        """Whether an override, as in "tfperf_strict=1", is of such a setting."""
        return override.partition("=")[0].removeprefix("tfperf_") in self.left_out

    @classmethod
    def of(cls, config: pytest.Config, settings: Iterable[Setting[Any]]) -> Self:
        """From pytest's parser, which has no public name; without it all options look unknown."""
        parser = getattr(getattr(config, "_parser", None), "optparser", None)
        groups = {group.title: group._group_actions for group in getattr(parser, "_action_groups", ())}
        own = (name for action in groups.get(_OWN_GROUP, ()) for name in action.option_strings)
        left_out = frozenset(one.name for one in settings if one.of_one_session or one.is_secret)
        return cls(getattr(parser, "_option_string_actions", {}), frozenset(own), left_out)


def rerun_command(
    config: pytest.Config, settings: Mapping[str, Setting[Any]], given: Mapping[str, RawSetting]
) -> RerunCommand:
    """The command of this session's tests; `given` is what the user gave, by name."""
    called, known = config.invocation_params, _Known.of(config, settings.values())
    groups = list(_kept(called.args, known))
    environment = _from_environment(one for one in given.values() if one.setting.name not in known.left_out)
    options = [word for group in groups if _is_of_one_test(group) for word in group]
    arguments = [word for group in groups for word in group]
    return RerunCommand(
        _shell_words([*options, *environment]),
        config.rootpath,
        called.dir,
        _shell_words([*arguments, *environment]),
    )


def _shell_words(words: Iterable[str]) -> str:
    """The words for a shell, each after a space, without the passwords of URLs."""
    return "".join(f" {quote(without_passwords(word))}" for word in words)


def _from_environment(given: Iterable[RawSetting]) -> list[str]:
    """What environment variables say, as overrides: the shell in which a command is pasted may not have them."""
    return [
        word
        for one in given
        if one.origin is Origin.VARIABLE
        for word in ("-o", f"tfperf_{one.setting.name}={one.text}")
    ]


def _kept(typed: Iterable[object], known: _Known) -> Iterator[list[str]]:
    """The tests and options of the command line that affect what is measured, each with its values."""
    words = deque(map(str, typed))
    while words:
        group = _next_option(words, known.actions)
        if not group[0].startswith("-") or _is_kept(group, known):
            yield group


def _is_of_one_test(group: Sequence[str]) -> bool:
    """Whether a command that names a test needs it: all options but those that choose tests."""
    return group[0].startswith("-") and _name(group[0]) not in _CHOOSING


def _next_option(words: deque[str], actions: Mapping[str, argparse.Action]) -> list[str]:
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
        return not any(known.leaves_out(_override(word)) for word in group)
    if name in ("-n", "--numprocesses"):
        return re.split("=|^-n", " ".join(group))[-1].strip() == "0"
    if name.startswith("--tfperf-"):
        return name.removeprefix("--tfperf-").replace("-", "_") not in known.left_out
    return name in _CHOOSING or name in _LOADING or name in known.own


def _name(word: str) -> str:
    """The option of a word that may hold its value, too: `-ksmall`, `--ignore=old`."""
    return word.partition("=")[0] if word.startswith("--") else word[:2]


def _override(word: str) -> str:
    """What an option like `-otfperf_strict=1` or `--override-ini=tfperf_strict=1` overrides, or a value of `-o`."""
    for option in _OVERRIDES:
        word = word.removeprefix(option)
    return word.removeprefix("=")
