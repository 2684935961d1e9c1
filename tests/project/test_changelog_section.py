"""The text of a release on GitHub is the changelog's section of its version."""

from __future__ import annotations

import pytest

from tools.changelog_section import absolute, section

CHANGELOG = """\
# Changes

## 0.2.0, not released yet

- Later.

## 0.1.10, 2027-01-02

## 0.1.1, 2026-12-24

The first line
goes on.

### Measuring

- A sentence that is
  long ([docs](docs/options.md)).
- Another.
  - Below it.

## 0.1.0, 2026-12-01

- The first.
"""


def test_a_section_ends_where_the_next_one_begins_and_has_no_line_breaks_of_its_own() -> None:
    assert section(CHANGELOG, "0.1.1") == (
        "The first line goes on.\n\n### Measuring\n\n"
        "- A sentence that is long ([docs](docs/options.md)).\n- Another.\n  - Below it.\n"
    )


def test_the_last_section_ends_with_the_file() -> None:
    assert section(CHANGELOG, "0.1.0") == "- The first.\n"


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.2.0", "says of 0.2.0 `not released yet`: write the date"),
        ("0.1.10", "says nothing of 0.1.10"),
        ("0.1", "has no heading `## 0.1, `"),
        ("0x1.0", "has no heading `## 0x1.0, `"),
    ],
    ids=["without a date", "empty", "the beginning of a version", "a pattern"],
)
def test_a_version_that_is_not_ready_is_refused_with_the_reason(version: str, why: str) -> None:
    with pytest.raises(ValueError, match="CHANGELOG") as error:
        section(CHANGELOG, version)
    assert why in str(error.value)


def test_links_to_files_lead_to_the_tag_and_others_stay() -> None:
    text = "[a](docs/a.md#b), [c](https://example.com), [d](mailto:d@example.com)"
    assert absolute(text, "https://host/o/r/blob/v1") == (
        "[a](https://host/o/r/blob/v1/docs/a.md#b), [c](https://example.com), [d](mailto:d@example.com)"
    )
