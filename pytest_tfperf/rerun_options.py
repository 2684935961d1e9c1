"""What a command that runs a test again takes over from this session's command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_tfperf.core.rerun_command import RerunCommand

if TYPE_CHECKING:
    import pytest

# Settings that affect one session only.
_FLAGS_OF_ONE_SESSION = ("require_baseline", "strict", "hold", "fail_on_drift", "smoke")
_VALUES_OF_ONE_SESSION = ("budget", "html", "inject_slowdown", "max_time")
_OF_ONE_SESSION = (*_FLAGS_OF_ONE_SESSION, *_VALUES_OF_ONE_SESSION)

_SECRET = "history_url"
"""A setting that no command shows, because it holds a password."""


class Given(NamedTuple):
    """A setting as the user gave it: where, and its text."""

    source: str
    text: str


def rerun_command(config: pytest.Config, given: Mapping[str, Given], values: Mapping[str, Any]) -> RerunCommand:
    """The command of this session's tests; `given` and `values` are the settings' texts and parsed values, by name."""
    called = config.invocation_params
    options = [*_pytest_options(config), *_own_options(given, values)]
    return RerunCommand(_shell_words(options), config.rootpath, called.dir, _shell_words(_arguments(called.args)))


def _shell_words(words: Iterable[str]) -> str:
    """The words for a shell, each after a space."""
    return "".join(f" {quote(word)}" for word in words)


def _pytest_options(config: pytest.Config) -> list[str]:
    """pytest's own options that decide what is measured: the ini file, rootdir and overrides."""
    words = ["-c", str(file)] if (file := config.getoption("inifilename")) else []
    words += [f"--rootdir={folder}"] if (folder := config.getoption("rootdir")) else []
    left_out = tuple(f"tfperf_{name}=" for name in (*_OF_ONE_SESSION, _SECRET))
    for line in dict.fromkeys(config.getoption("override_ini") or ()):
        words += [] if line.startswith(left_out) else ["-o", line]
    return words


def _own_options(given: Mapping[str, Given], values: Mapping[str, Any]) -> list[str]:
    """Our options from the command line."""
    return [
        option if values[name] is True else f"{option}={text}"
        for name, (option, text) in given.items()
        if option.startswith("--") and name not in _OF_ONE_SESSION
    ]


def _arguments(typed: Iterable[object]) -> list[str]:
    """The command line as it was typed, without what affects one session only."""
    words = iter(map(str, typed))
    kept: list[str] = []
    for word in words:
        option, separator, _ = word.partition("=")
        name = option.removeprefix("--tfperf-").replace("-", "_") if option.startswith("--tfperf-") else ""
        if f"tfperf_{_SECRET}=" in word:
            if kept and kept[-1] in ("-o", "--override-ini"):
                kept.pop()
        elif name in _VALUES_OF_ONE_SESSION and not separator:
            next(words, None)  # its value
        elif option != "--update-baselines" and name not in _OF_ONE_SESSION:
            kept.append(word)
    return kept
