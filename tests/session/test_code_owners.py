"""CODEOWNERS as GitHub documents it, with GitLab's sections."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.session.owners import CodeOwners

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
    assert CodeOwners.parse(FILE).of(path) == owner


@pytest.mark.parametrize("place", ["CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"])
def test_it_is_found_where_github_and_gitlab_look(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("* @ada")
    assert CodeOwners.of_repository(tmp_path).of("a.py") == "@ada"


def test_a_repository_without_the_file_has_no_owners(tmp_path: Path) -> None:
    assert CodeOwners.of_repository(tmp_path).of("a.py") == ""


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    CodeOwners.parse(text).of("a/b.py")
