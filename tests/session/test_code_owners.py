"""CODEOWNERS as GitHub documents it, with GitLab's sections."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.settings import Settings
from pytest_tfperf.session.selecting import Owners, code_owners, owners_of

FILE = """
# The examples of GitHub's page
*               @all
*.js            @js-owner # inline
/build/logs/    @logs
docs/*          docs@example.com
apps/           @octocat
/scripts/       @doctocat @octocat
**/deep         @deep
/apps/github
x/**/y.py       @between
my\\ file.py     @space

[Vision][2] @vision
perf/vision/
perf/vision/own.py @own
"""


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("any/file.py", "@all"),
        ("a/b.js", "@js-owner"),
        ("build/logs/a/b", "@logs"),
        ("src/build/logs/a", "@all"),
        ("docs/a.md", "docs@example.com"),
        ("docs/build/a.md", "@all"),
        ("src/apps/a.py", "@octocat"),
        ("scripts/a.sh", "@doctocat @octocat"),
        ("a/b/deep/c.py", "@deep"),
        ("apps/github/a.py", ""),
        ("x/y.py", "@between"),
        ("x/1/2/y.py", "@between"),
        ("a/my file.py", "@space"),
        ("perf/vision/test_a.py", "@vision"),
        ("perf/vision/own.py", "@own"),
    ],
)
def test_the_last_pattern_that_matches_names_the_owners(path: str, owner: str) -> None:
    assert owners_of(path, code_owners(FILE)) == owner


def owner_in(root: Path) -> str:
    """The owner of a test in a file of the repository's root."""
    item: Any = SimpleNamespace(get_closest_marker=lambda _: None, nodeid="a.py::test", path=root / "a.py")
    return Owners(Settings(root=root)).of(item)


@pytest.mark.parametrize("place", ["CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"])
def test_it_is_found_where_github_and_gitlab_look(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("* @ada")
    assert owner_in(tmp_path) == "@ada"


def test_a_repository_without_the_file_has_no_owners(tmp_path: Path) -> None:
    assert owner_in(tmp_path) == ""


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    owners_of("a/b.py", code_owners(text))
