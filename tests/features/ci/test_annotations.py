"""Workflow commands, read back as GitHub's runner reads them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.features.ci.outputs import annotation


def read(command: str) -> tuple[str, dict[str, str], str]:
    """What the runner takes from a line of output (actions/runner, ActionCommand.cs)."""
    found = re.fullmatch(r"::(\w+) ([^\n]*?)::([^\n]*)", command)
    assert found
    given = dict(one.split("=", 1) for one in found[2].split(","))
    return found[1], {name: plain(value) for name, value in given.items()}, plain(found[3])


def plain(text: str) -> str:
    for escape, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(escape, character)
    return text


# "\r" and other line ends than "\n" would end a line for some readers; the regular expression does not see them.
@given(st.text(), st.text(min_size=1))
def test_what_is_written_is_what_github_reads(text: str, title: str) -> None:
    level, properties, message = read(annotation("error", text, title=title, file="a/test_a.py", line=3).text)
    assert (level, properties, message) == ("error", {"file": "a/test_a.py", "line": "3", "title": title}, text)


def test_without_a_file_there_is_no_line() -> None:
    assert annotation("error", "text", title="t", line=3).text == "::error title=t::text"


def test_a_secret_is_hidden_before_it_is_escaped() -> None:
    shown = annotation("error", "password: SECRET\nhttps://SECRET@host", title="a.py::b[https://SECRET@host]").text
    assert ("SECRET" in shown, shown.count("***")) == (False, 3)
