"""`make release-notes`: print what CHANGELOG.md says of a version, as the text of its release on GitHub."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def section(changelog: str, version: str) -> str:
    """The text below the heading of a version, with each paragraph in one line: GitHub breaks lines where we do.

    Raises:
        ValueError: there is no such heading, it has no date, or nothing is below it.
    """
    found = re.search(rf"^## {re.escape(version)}, (.*)\n(?s:(.*?))(?=^## |\Z)", changelog, re.MULTILINE)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no heading `## {version}, ` with a date")
    when, text = found.groups()
    if re.fullmatch(r"\d{4}-\d\d-\d\d", when) is None:
        raise ValueError(f"CHANGELOG.md says of {version} `{when}`: write the date, as in 2026-12-31, in its place")
    if not text.strip():
        raise ValueError(f"CHANGELOG.md says nothing of {version}")
    return re.sub(r"(?<=\S)\n *(?=[^\s#-])", " ", text.strip()) + "\n"


def absolute(text: str, root: str) -> str:
    """The text with its links to files of the repository, which a release's page does not find, below a URL."""
    return re.sub(r"\]\((?![a-z]+:)", f"]({root}/", text)


def main(tag: str) -> int:
    """Print the section of a tag such as v0.1.0, which has to be the version of the files in dist/."""
    version = tag.removeprefix("v")
    try:
        if not (ROOT / "dist" / f"pytest_tfperf-{version}.tar.gz").exists():
            raise ValueError(f"the tag {tag} is not the version of what is in dist/")
        text = section((ROOT / "CHANGELOG.md").read_text(), version)
    except ValueError as error:
        print(f"release-notes: {error}", file=sys.stderr)
        return 1
    at, repository = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    print(absolute(text, f"{at}/{repository}/blob/{tag}") if repository else text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
