"""The pages hold together: links lead somewhere, nothing that can be set goes unmentioned, and examples compile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import pytest_tfperf
from pytest_tfperf import Workload
from pytest_tfperf.core.settings import OF_THE_SPINE
from pytest_tfperf.features import settings_of_features
from pytest_tfperf.workers import catalogue

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
TOP = [ROOT / f"{name}.md" for name in ("README", "AGENTS", "CONTRIBUTING", "CHANGELOG", "SECURITY")]
PAGES = [*TOP, *DOCS]
INSIDE = {"architecture.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "statistics.md", "api.md"}
"""Pages for those who change the package, and the one that docstrings make: they may name what is inside."""

# An image's alternative text may hold a bracketed link, so only the part in parentheses is read.
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


def prose(page: Path) -> Iterator[str]:
    """The paragraphs and list items of a page: no code, tables, headings or pictures."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        if block.strip() and not block.lstrip().startswith(("|", "#", "![")):
            yield block.strip()


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


def test_each_page_is_linked_from_the_readme() -> None:
    linked = {(page.parent / file).resolve() for page, file, _ in links() if page.name == "README.md"}
    assert [page.name for page in DOCS if page not in linked] == []


def test_each_picture_is_shown() -> None:
    pages = [*TOP, *(ROOT / "docs").glob("*.md")]
    shown = {(page.parent / file).resolve() for page in pages for file, _ in LINK.findall(page.read_text())}
    assert [path.name for path in sorted((ROOT / "docs" / "pictures").glob("*")) if path not in shown] == []


OPTION = re.compile(r"--tfperf-([a-z]+(?:-[a-z]+)*)")
SETTINGS = (*OF_THE_SPINE, *settings_of_features())
NO_SETTING = "update_baselines"  # an option that chooses what a session does


def test_each_setting_has_a_row_on_the_page_of_options() -> None:
    page = (ROOT / "docs" / "options.md").read_text()
    cells = [f"| `{setting.spelled}" if setting.is_option else f"| `{setting.spelled}` |" for setting in SETTINGS]
    assert [cell for cell in cells if cell not in page] == []


def test_the_page_of_options_has_no_setting_that_is_gone() -> None:
    page = (ROOT / "docs" / "options.md").read_text()
    names = {setting.name for setting in SETTINGS} | {NO_SETTING}
    rows = re.findall(r"^\| `(?:--tfperf-|tfperf_)([\w-]+)", page, re.MULTILINE)
    assert [row for row in rows if row.replace("-", "_") not in names] == []


def test_no_page_names_an_option_that_is_gone() -> None:
    names = {name.replace("_", "-") for name in (NO_SETTING, *(each.name for each in SETTINGS if each.is_option))}
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]  # it says what went
    named = [(page.name, name) for page in pages for name in re.findall(OPTION, page.read_text())]
    assert [(page, name) for page, name in named if name not in names] == []


def test_each_field_of_a_workload_is_on_the_page_for_test_authors() -> None:
    page = (ROOT / "docs" / "writing-tests.md").read_text()
    assert [f.name for f in fields(Workload) if f"| `{f.name}` |" not in page] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [("writing-tests.md", catalogue.names("models")), ("own-models.md", catalogue.names("pipelines"))],
)
def test_each_shipped_name_is_on_its_page(page: str, names: dict[str, str]) -> None:
    ours = [name for name, target in names.items() if target.startswith("pytest_tfperf.")]
    assert [name for name in ours if f"`{name}`" not in (ROOT / "docs" / page).read_text()] == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in INSIDE], ids=lambda page: page.name)
def test_users_pages_name_only_what_the_package_exports(page: Path) -> None:
    text = re.sub(r"(python -m|--shell=bash) pytest_tfperf\.\S+", "", page.read_text())  # programs are public
    named = re.findall(r"\bpytest_tfperf\.(\w+)|from pytest_tfperf import ([\w, ]+)", text)
    names = {name.strip() for dotted, imported in named for name in (dotted, *imported.split(",")) if name.strip()}
    assert sorted(names - set(pytest_tfperf.__all__)) == []


def test_the_page_of_the_api_describes_each_exported_name_once() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    assert (
        sorted(re.findall(r"^\.\. auto\w+:: pytest_tfperf\.(\w+)\b(?!\.)", page, re.MULTILINE)) == pytest_tfperf.__all__
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_in_python_compile(page: Path) -> None:
    for example in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        compile(example, page.name, "exec")


def test_each_name_on_the_page_of_the_architecture_exists_in_its_file() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"^\| .* \| `([\w/.]+)` \| `(\w+)` \|$", page, re.MULTILINE)
    for file, dotted in re.findall(r"`([\w/]+\.py):([\w.]+)`", page):
        named += [(file, name) for name in dotted.split(".")]
    assert len(named) > 40
    missing = [
        (file, name)
        for file, name in named
        if not re.search(
            rf"^ *(?:(?:def|class) {name}\b|{name}\b.* = )", (ROOT / "pytest_tfperf" / file).read_text(), re.MULTILINE
        )
    ]
    assert missing == []


def test_each_file_in_contributing_exists() -> None:
    named = re.findall(r"`((?:pytest_tfperf|tests|tools|benchmarks)/[\w/.]*)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_each_file_on_the_page_of_the_architecture_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "docs" / "architecture.md").read_text())
    assert named
    package = ROOT / "pytest_tfperf"
    assert [name for name in named if not (ROOT / name).exists() and not list(package.rglob(name))] == []


def test_the_map_on_the_page_of_the_architecture_has_each_file_of_each_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = dict(re.findall(r"^\*\*`(\w+)/`\*\*(.*?)^(?=\*\*|## )", page, re.MULTILINE | re.DOTALL))
    assert len(rooms) > 10
    missing = [
        f"{room}/{path.name}"
        for room, text in rooms.items()
        if room != "features"
        for path in (ROOT / "pytest_tfperf" / room).glob("[!_]*.py")
        if f"`{path.name}`" not in text
    ]
    assert missing == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "README.md"], ids=lambda page: page.name)
def test_lines_of_prose_have_at_most_120_characters(page: Path) -> None:
    outside = [line for block in prose(page) for line in block.splitlines() if not line.lstrip().startswith("|")]
    assert [line for line in outside if len(line) > 120] == []
