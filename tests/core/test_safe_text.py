"""What is hidden, escaped or shortened before a text is shown."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.errors import TfperfError, WorkloadError, one_of
from pytest_tfperf.lines import Line, LineKind, one_line, printable, rendered, shortened, without_passwords

# What a password may have without %XX: a URL's end of the user, and a text's own line end or gap, are not among it.
PASSWORDS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Z"), exclude_characters='"'), min_size=1)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:secret@db/d", "postgresql://ann:***@db/d"),
        ("see 'postgresql://ann:se/cr?et@db:5432/d'.", "see 'postgresql://ann:***@db:5432/d'."),
        ("postgresql:/ann:secret@db/d", "postgresql:/ann:***@db/d"),  # a Path
        ("postgresql:/ann:sec", "postgresql:/ann:***"),  # a Path's parent
        ("redis://:secret@db", "redis://:***@db"),
        ("postgresql://ann@tenant:secret@db", "postgresql://ann@tenant:***@db"),
        ("postgresql://ann:my secret@db/d", "postgresql://ann:***@db/d"),
        ("postgresql://ann:12345@db", "postgresql://ann:***@db"),
        ("postgresql://ann:12/45@db", "postgresql://ann:***@db"),
        ("postgresql://ann:secr ... and no end", "postgresql://ann:*** ... and no end"),
        ("a://b:c@d, e://f:g@h and more", "a://b:***@d, e://f:***@h and more"),
        ("postgresql://db/d?sslpassword=secret&password=secret", "postgresql://db/d?sslpassword=***&password=***"),
        ("host=h password=secret dbname=d", "host=h password=*** dbname=d"),
        ("host = h password = 'my secret' dbname = d", "host = h password = '***' dbname = d"),
        ("PGPASSWORD=secret psql", "PGPASSWORD=*** psql"),
        ("Server=h;Pwd=secret;Database=d", "Server=h;Pwd=***;Database=d"),
        ('{"password": "secret"}', '{"password": "***"}'),
        ('{"test": "password=\\"my secret\\""}', '{"test": "password=\\"***\\""}'),
        ("no folder 'ann:secret@db/d'", "no folder 'ann:***@db/d'"),
        ("--url=postgresql:ann:secret@db/d", "--url=postgresql:***@db/d"),
        ("postgresql//ann:secret@db/d", "postgresql//ann:***@db/d"),
        ("postgresql%3A%2F%2Fann%3Asecret%40db", "postgresql%3A%2F%2Fann%3A***@db"),
    ],
)
def test_a_password_is_hidden(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann@db:5432/d",
        "http://db:8080 and me@example.com",
        "http://[::1]:8080/",
        "http://db:8080: refused",
        "docker run -v data:/data:ro",
        "https://example.com/a:b",
        "perf_tests/test_a.py::test_b[ann@example.com]",
        "python:3.11@sha256:0123 and git@github.com:ann/repository and x @ git+https://example.com/x@main",
        "In a password write special characters as %XX; password: required",
    ],
)
def test_what_is_no_password_stays(text: str) -> None:
    assert without_passwords(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "a://b:c ",
        ":/",
        ":/a",
        "a://b:c@",
        "a://h:80/",
        "?password=x",
        'a://b:c"',
        "a b:/c: ",
        "password='",
        "a:'@",
        "::",
        "#",
    ],
)
def test_a_text_of_a_megabyte_takes_no_quadratic_time(text: str) -> None:
    """It would take hours."""
    assert printable(text * 100_000)


@given(PASSWORDS)
def test_no_password_of_a_url_is_left(password: str) -> None:
    shown = without_passwords(f"can't open postgresql://ann:{password}!SECRET@db/d")
    assert shown == "can't open postgresql://ann:***@db/d"


HIDDEN = ("postgresql://ann:secret@db/d", "http://a:b", "password='secret'", 'password="secret" x', "ann:secret@db")


@given(st.lists(st.text() | st.sampled_from((*HIDDEN, "::error::x", "##[error]x", "##vso[x]"))))
def test_json_stays_json(texts: list[str]) -> None:
    shown = json.loads(printable(json.dumps(texts)))
    assert len(shown) == len(texts)
    assert "secret" not in "".join(shown)


@given(st.text())
def test_a_terminal_gets_nothing_to_obey(text: str) -> None:
    assert all(ord(c) >= 32 or c in "\r\n\t" for c in printable(text))
    assert one_line(text).isprintable() or not text.isprintable()


@given(
    st.lists(st.sampled_from(["::", ":", "##[", "#", "##vso[", "##VSO[", "\n", " ", "\t", "\r\n", "x"])).map("".join)
)
def test_a_ci_system_gets_nothing_to_obey(text: str) -> None:
    for line in printable(text).splitlines():
        assert not line.strip().startswith("::")
        assert not re.search(r"##(vso)?\[", line, re.IGNORECASE)
    assert printable(printable(text)) == printable(text)


def test_only_a_workflow_command_of_our_own_begins_with_colons() -> None:
    lines = [Line("::error::\n::error::", kind=LineKind.CI_COMMAND), Line("  ::error::"), "##[error] a\n::error::"]
    assert rendered(lines, None) == [r"::error::\n::error::", r"  \u003a:error::", r"\u0023#[error] a\n::error::"]


def test_an_escape_sequence_and_a_turn_of_the_direction_are_shown() -> None:
    assert printable("\x1b[2Ja\u202eb\rc\n\td\x9b") == r"\x1b[2Ja\u202eb\rc" + "\n\td" + r"\x9b"
    assert one_line("a\nb\tc\r\n") == r"a\nb\tc\r\n"


@given(st.text(max_size=1000))
def test_a_long_value_keeps_its_ends(text: str) -> None:
    value = f"first{text}last"
    shown = shortened(value)
    assert len(shown) <= 200
    assert shown.startswith("first")
    assert shown.endswith("last")


def test_a_password_is_hidden_before_a_value_is_cut() -> None:
    assert "s" not in shortened("postgresql://a:" + "s" * 10_000 + "@db").partition("://")[2]


def test_an_error_hides_passwords_and_shortens_what_it_repeats() -> None:
    assert str(WorkloadError("no folder postgresql://ann:secret@db")) == "no folder postgresql://ann:***@db"
    assert len(str(TfperfError(one_of("machine", "x" * 10_000, ["y" * 10_000])))) < 1000
    assert len(str(TfperfError("x" * 10_000 + "\n" + "y" * 10_000))) < 5000
