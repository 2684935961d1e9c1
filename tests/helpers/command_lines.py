"""Every argument of every command of `tfperf`, taken from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_tfperf.cli import parser


@dataclass(frozen=True)
class Argument:
    """One argument of a command: how it is called, and the words before a value that stands in its place.

    Args:
        command: words that call the command, "history push".
        name: the option, the positional's metavar, or what the place is.
        before: the command line up to the value.
        separator: "=" where the value belongs to the last word.
    """

    command: str
    name: str
    before: tuple[str, ...]
    separator: str = ""

    def line(self, value: str) -> list[str]:
        """The command line with the value in this argument's place."""
        return [*self.before[:-1], self.before[-1] + "=" + value] if self.separator else [*self.before, value]

    def __str__(self) -> str:
        return f"{self.command} {self.name}{self.separator}".strip()


def arguments() -> Iterator[Argument]:
    """Each option with its value as a word of its own and after "=", each positional, and a word too many."""
    for command, one in commands(parser(), ()):
        needed = _needed(one)
        positionals = [action for action in one._actions if not action.option_strings]
        for number, action in enumerate(positionals):
            yield Argument(" ".join(command), str(action.metavar or action.dest), (*command, *["x"] * number))
        yield Argument(" ".join(command), "(a word too many)", (*command, *needed))
        yield Argument(" ".join(command), "(an unknown option)", (*command, *needed, "--unknown"), "=")
        for option in (option for action in one._actions for option in action.option_strings):
            yield Argument(" ".join(command), option, (*command, *needed, option))
            yield Argument(" ".join(command), option, (*command, *needed, option), "=")


def commands(
    one: argparse.ArgumentParser, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Each parser with the words that call it, `tfperf` itself first."""
    yield words, one
    for action in one._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from commands(inner, (*words, name))


def _needed(one: argparse.ArgumentParser) -> list[str]:
    """Words for what a command can't be called without."""
    words = []
    for action in one._actions:
        is_inner = isinstance(action, argparse._SubParsersAction)
        if action.option_strings and action.required:
            words += [action.option_strings[0], "x"]
        elif not action.option_strings and action.nargs not in ("?", "*") and not is_inner:
            words.append("x")
    return words
