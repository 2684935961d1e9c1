"""Options of this session that rerun commands must repeat: all that affect what is measured."""

from __future__ import annotations

import argparse
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Self

from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.setting import Origin, RawSetting, Setting
from pytest_tfperf.lines import without_passwords

if TYPE_CHECKING:
    import pytest

_CHOOSING = frozenset({"-k", "-m", "--deselect", "--ignore", "--ignore-glob", "--pyargs"})
"""pytest's options that choose tests."""

_LOADING = frozenset({"-c", "--config-file", "--rootdir", "-p", "--import-mode", "--noconftest", "--confcutdir"})
"""pytest's options that decide with which settings and plugins tests are loaded."""

_OVERRIDES = ("-o", "--override-ini")

_SECRET = re.compile("token|passw|secret|credential|api-?_?key", re.IGNORECASE)
"""The names of a project's own options whose values no command may show."""

_OWN_GROUP = "Custom options"
"""Where pytest puts what a conftest.py adds with `parser.addoption`."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The options that this pytest has.

    Args:
        actions: each spelling, and what argparse does with it.
        own: spellings of the options that the project's own conftest.py adds: a test may depend on them.
        left_out: names of our settings that concern a single session, or that no command may show.
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
        own, left_out = set[str](), set[str]()
        for group in getattr(parser, "_action_groups", ()):
            if group.title == _OWN_GROUP:
                for action in group._group_actions:
                    own.update(action.option_strings)
        for setting in settings:
            if setting.of_one_session or setting.is_secret:
                left_out.add(setting.name)
        return cls(getattr(parser, "_option_string_actions", {}), frozenset(own), frozenset(left_out))


def rerun_command(
    config: pytest.Config, settings: Mapping[str, Setting[Any]], given: Mapping[str, RawSetting]
) -> RerunCommand:
    """The command of this session's tests; `given` is what the user gave, by name."""
    called, known = config.invocation_params, _Known.of(config, settings.values())
    options, arguments = "", ""
    for group in _kept(called.args, known):
        words = _shell_words(group)
        arguments += words
        if _is_of_one_test(group):
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


def _is_of_one_test(group: Sequence[str]) -> bool:
    """Whether a command that names a test needs it: every option that does not choose tests."""
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
    """The override in `-otfperf_strict=1`, `--override-ini=tfperf_strict=1` or a value of `-o`."""
    for option in _OVERRIDES:
        word = word.removeprefix(option)
    return word.removeprefix("=")
