"""What AGENTS.md names is there: fields of the result, and commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "AGENTS.md").read_text()


def has(schema: dict[str, Any], path: list[str]) -> bool:
    name, *rest = path
    inner = schema["properties"].get(name.removesuffix("[]"))
    if inner is None or not rest:
        return inner is not None
    return has(inner["items"] if name.endswith("[]") else inner, rest)


def test_each_field_is_in_the_schema() -> None:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    cells = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`([\w\[\].]+)`", cell)]
    assert named
    assert [name for name in named if not has(schema, name.split(".")) and not has(schema, ["tests[]", name])] == []


@pytest.mark.parametrize("command", sorted(set(re.findall(r"tfperf ([a-z]+)", PAGE))))
def test_each_command_of_tfperf_is_one(command: str) -> None:
    assert cli.main([command, "--help"]) == 0
