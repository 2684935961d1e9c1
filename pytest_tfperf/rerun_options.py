"""What a command that runs a test again takes over from this session's command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.safe_text import without_passwords

if TYPE_CHECKING:
    import pytest

# Settings that affect one session only.
_FLAGS_OF_ONE_SESSION = ("require_baseline", "strict", "hold", "fail_on_drift", "smoke")
_VALUES_OF_ONE_SESSION = ("budget", "html", "inject_slowdown", "markdown", "max_time")
_OF_ONE_SESSION = (*_FLAGS_OF_ONE_SESSION, *_VALUES_OF_ONE_SESSION)

_SECRET = "history_url"
"""A setting that no command shows, because it holds a password."""

_LEFT_OUT = tuple(f"tfperf_{name}=" for name in (*_OF_ONE_SESSION, _SECRET))
"""How an override of such a setting begins, after `-o`."""


class Given(NamedTuple):
    """A setting as the user gave it: where, and its text."""

    source: str
    text: str


def rerun_command(config: pytest.Config, given: Mapping[str, Given], values: Mapping[str, Any]) -> RerunCommand:
    """The command of this session's tests; `given` and `values` are the settings' texts and parsed values, by name."""
    called, environment = config.invocation_params, _from_environment(given)
    options = [*_pytest_options(config), *_own_options(given, values), *environment]
    arguments = [*_arguments(called.args), *environment]
    return RerunCommand(_shell_words(options), config.rootpath, called.dir, _shell_words(arguments))


def _shell_words(words: Iterable[str]) -> str:
    """The words for a shell, each after a space, without the passwords of URLs."""
    return "".join(f" {quote(without_passwords(word))}" for word in words)


def _pytest_options(config: pytest.Config) -> list[str]:
    """pytest's own options that decide what is measured: the ini file, rootdir, overrides, and no pytest-xdist."""
    words = ["-c", str(file)] if (file := config.getoption("inifilename")) else []
    words += [f"--rootdir={folder}"] if (folder := config.getoption("rootdir")) else []
    words += ["-n", "0"] if config.getoption("numprocesses", None) == 0 else []
    for line in dict.fromkeys(config.getoption("override_ini") or ()):
        words += [] if line.startswith(_LEFT_OUT) else ["-o", line]
    return words


def _own_options(given: Mapping[str, Given], values: Mapping[str, Any]) -> list[str]:
    """Our options from the command line."""
    return [
        option if values[name] is True else f"{option}={text}"
        for name, (option, text) in given.items()
        if option.startswith("--") and name not in _OF_ONE_SESSION
    ]


def _from_environment(given: Mapping[str, Given]) -> list[str]:
    """What environment variables say, as overrides: the shell in which a command is pasted may not have them."""
    return [
        word
        for name, (source, text) in given.items()
        if source.startswith("environment") and name not in (*_OF_ONE_SESSION, _SECRET)
        for word in ("-o", f"tfperf_{name}={text}")
    ]


def _arguments(typed: Iterable[object]) -> list[str]:
    """The command line as it was typed, without what affects one session only."""
    words = iter(map(str, typed))
    kept: list[str] = []
    for word in words:
        option, separator, _ = word.partition("=")
        name = option.removeprefix("--tfperf-").replace("-", "_") if option.startswith("--tfperf-") else ""
        if any(override in word for override in _LEFT_OUT):
            if kept and kept[-1] in ("-o", "--override-ini"):
                kept.pop()
        elif name in _VALUES_OF_ONE_SESSION and not separator:
            next(words, None)  # its value
        elif option != "--update-baselines" and name not in _OF_ONE_SESSION:
            kept.append(word)
    return kept
