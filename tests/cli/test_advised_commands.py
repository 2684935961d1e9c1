"""Each command and option that a message advises is one that there is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pytest_tfperf.cli import parser
from pytest_tfperf.core.settings import OF_THE_SPINE
from pytest_tfperf.features import settings_of_features
from tests.helpers.command_lines import commands

PACKAGE = Path(__file__).parents[2] / "pytest_tfperf"
ADVISED = re.compile(r"\btfperf ((?:[a-z][a-z-]*(?= |$|[`,;.:)])[ ]?)+)((?:--[a-z-]+(?:[= ][A-Z][\w/]*)?[ ]?)*)")
COMMANDS = {words: one for words, one in commands(parser(), ()) if words}


def texts() -> Iterator[tuple[str, str]]:
    """Each text of the package that is no docstring, with its file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield path.relative_to(PACKAGE).as_posix(), node.value


def advised() -> Iterator[tuple[str, str, tuple[str, ...], list[str]]]:
    """File and text, the command's words, and its options; prose that only begins like a command is left out."""
    for file, text in texts():
        for words, options in ADVISED.findall(text):
            said = tuple(words.split())
            if known := [command for command in COMMANDS if said[: len(command)] == command]:
                yield file, text, max(known, key=len), re.findall(r"--[a-z-]+", options)


def test_each_advised_option_of_a_command_exists() -> None:
    found = list(advised())
    assert len(found) > 80
    unknown = [
        (file, " ".join(command), option)
        for file, _, command, options in found
        for option in options
        if option not in COMMANDS[command]._option_string_actions
    ]
    assert unknown == []


def test_each_advised_option_of_pytest_is_a_setting() -> None:
    known = {
        f"--tfperf-{one.name.replace('_', '-')}" for one in (*OF_THE_SPINE, *settings_of_features()) if one.is_option
    }
    known.add("--tfperf-update-baselines")
    found = {(file, option) for file, text in texts() for option in re.findall(r"--tfperf-[a-z-]*[a-z]\b", text)}
    assert len(found) > 30
    assert {(file, option) for file, option in found if option not in known} == set()


def test_each_advised_ini_value_is_a_setting() -> None:
    known = {f"tfperf_{one.name}" for one in (*OF_THE_SPINE, *settings_of_features())}
    found = {
        (file, name) for file, text in texts() for name in re.findall(r"-o (tfperf_\w+)=|ini value (tfperf_\w+)", text)
    }
    assert len(found) > 5
    assert {(file, one or other) for file, (one, other) in found if (one or other) not in known} == set()
