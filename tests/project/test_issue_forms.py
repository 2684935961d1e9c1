"""The forms for issues on GitHub: their labels are made, and the commands that they ask for exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_tfperf import cli

ROOT = Path(__file__).parents[2]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(form: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(form.read_text())
    return content


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_wants_of_it(form: Path) -> None:
    """Otherwise GitHub shows no form at all."""
    content = read(form)
    assert {"name", "description", "labels", "body"} == content.keys()
    assert {part["type"] for part in content["body"]} <= {"textarea", "dropdown", "input", "checkboxes"}
    ids = [part["id"] for part in content["body"]]
    assert len({*ids}) == len(ids)
    assert all(part["attributes"]["label"] for part in content["body"])


def test_each_label_is_made_by_a_step_of_contributing() -> None:
    made = re.findall(r"gh label create (\w+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert sorted(made) == sorted(label for form in FORMS for label in read(form)["labels"])


def test_each_command_that_a_form_asks_for_exists() -> None:
    named = {name for form in FORMS for name in re.findall(r"\btfperf ([a-z]+) (?:--|TEST|print)", form.read_text())}
    assert {"explain", "history", "read"} <= named
    for command in named:
        assert cli.main([command, "--help"]) == 0
