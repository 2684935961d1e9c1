"""The pages hold together: links lead somewhere, and nothing that can be set goes unmentioned."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def links() -> list[tuple[Path, str, str]]:
    return [(page, *link) for page in PAGES for link in LINK.findall(page.read_text())]


def test_each_link_leads_to_a_file() -> None:
    assert [(page.name, file) for page, file, _ in links() if file and not (page.parent / file).exists()] == []


def test_each_anchor_is_a_heading() -> None:
    targets = [(page.parent / file if file else page, anchor) for page, file, anchor in links() if anchor]
    assert [(page.name, anchor) for page, anchor in targets if anchor not in anchors(page)] == []


def test_each_option_is_on_the_page_of_options() -> None:
    options = [f.name.replace("_", "-") for f in fields(Settings) if "parse" in f.metadata]
    page = (ROOT / "docs" / "options.md").read_text()
    assert [name for name in options if f"| `--tfperf-{name}" not in page] == []


def test_each_field_of_a_workload_is_on_the_page_for_test_authors() -> None:
    page = (ROOT / "docs" / "writing-tests.md").read_text()
    assert [f.name for f in fields(Workload) if f"| `{f.name}` |" not in page] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("README.md", catalogue.models()),
        ("docs/writing-tests.md", catalogue.models()),
        ("docs/input-pipelines.md", catalogue.pipelines()),
    ],
)
def test_each_name_of_ours_is_told(page: str, names: dict[str, str]) -> None:
    ours = [name for name, target in names.items() if target.startswith("pytest_tfperf.")]
    assert [name for name in ours if f"`{name}`" not in (ROOT / page).read_text()] == []


def test_each_picture_is_shown() -> None:
    shown = {(page.parent / file).resolve() for page, file, _ in links()}
    assert [path.name for path in sorted((ROOT / "docs" / "pictures").glob("*")) if path not in shown] == []
