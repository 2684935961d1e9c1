"""The Markdown summary: read by a parser of GitHub's dialect, so that what is shown is what was meant."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.verdict import Outcome, Reason
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.ci.outputs import as_text
from tests.features.ci.conftest import summary
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import baseline, interleaved, measurement, session_verdict, verdict

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = [
    "a|b",
    "`code`",
    "<script>alert(1)</script>",
    "two\nlines",
    "[link](http://x)",
    "&lt;",
    "\\|",
    "~~x~~",
    "*b*",
]
REGRESSED = verdict(Outcome.REGRESSED, -0.13, reason=Reason.CONFIRMED, confirmed_change=-0.12)


def regressed(test: str = "t.py::test_a", change: float = -0.13) -> object:
    return measurement(test=test, verdict=verdict(Outcome.REGRESSED, change, confirmed_change=change))


def rows(text: str) -> list[list[str]]:
    """The cells of all tables as a reader sees them, row by row."""
    found: list[list[str]] = []
    tokens = PARSER.parse(text)
    for token, content in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "tr_open":
            found.append([])
        elif token.type in ("th_open", "td_open"):
            assert content is not None
            found[-1].append(shown(content))
    return found


def shown(inline: Token) -> str:
    assert {child.type for child in inline.children or []} <= {"text", "text_special"}
    return "".join(child.content for child in inline.children or [])


PASSED = measurement(test="b", verdict=verdict())
PROVISIONAL = verdict(Outcome.PASS, -0.46, baseline=baseline(provenance=Provenance.PROVISIONAL))
SUMMARIES = {
    "nothing": summary([]),
    "a test counts once, by its worst outcome": summary(
        [measurement(test="a", verdict=verdict()), measurement(test="a", verdict=REGRESSED), PASSED]
    ),
    "one could not be measured": summary([PASSED], not_measured={"a": TfperfError("the worker died")}),
    "the session's verdict": summary([PASSED], verdicts=[session_verdict(change=-0.699)], remarks=["a remark"]),
    "earlier sessions": summary([measurement(test="a", verdict=PROVISIONAL)]),
    "earlier sessions beside a row": summary([measurement(test="a", verdict=PROVISIONAL), PASSED]),
    "a refused baseline": summary(
        [measurement(test="a", is_refused=True), measurement(test="b")], refused={"a": TfperfError("too noisy")}
    ),
    "a comparison": summary([interleaved()]),
    "a required ratio": summary([interleaved(Outcome.PASS, ratio=3.7, a={"at_least": 3.6})]),
}


def test_summaries(same_texts: SameTexts) -> None:
    same_texts("summaries", SUMMARIES)


# The table


def test_the_worst_is_first() -> None:
    passes, slow, slower = (
        measurement(test="passes", verdict=verdict()),
        regressed("slow", -0.1),
        regressed("slower", -0.3),
    )
    table = rows(summary([passes, slow, slower]))  # type: ignore[list-item]
    assert [row[1] for row in table[1:]] == ["slower", "slow", "passes"]


# Whatever a name holds


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_shown_as_text(name: str) -> None:
    table = rows(summary([measurement(test=name, verdict=verdict())]))
    assert table[1][1] == " ".join(name.split())


@given(st.text(min_size=1))
def test_any_name_leaves_the_table_its_shape(name: str) -> None:
    results = [measurement(test=name, verdict=verdict()), measurement(test="plain", verdict=verdict())]
    table = rows(summary(results))
    assert [len(row) for row in table] == [len(table[0])] * 3


@given(st.text())
def test_text_means_nothing_to_markdown(text: str) -> None:
    for token in PARSER.parse(f"a {as_text(text)} b"):
        if token.type == "inline":
            shown(token)


def test_a_very_long_name_is_shortened() -> None:
    assert len(summary([measurement(test="x" * 10_000, verdict=verdict())])) < 2_000


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_above_a_message_is_shown_as_text(name: str) -> None:
    block = next(
        token
        for token in PARSER.parse(summary([], not_measured={name: TfperfError("why")}))
        if token.type == "html_block"
    )
    found = re.fullmatch(r"<details><summary>([^<]*)</summary>", block.content.strip())
    assert found
    assert html.unescape(found[1]) == f"NOT MEASURED {' '.join(name.split())}"


# Messages


@pytest.mark.parametrize("source", ["```\n</details>", "~~~", "`" * 40])
def test_no_line_of_a_message_ends_its_fence(source: str) -> None:
    row = baseline(source=source)
    text = summary([measurement(verdict=verdict(Outcome.REGRESSED, -0.13, baseline=row, confirmed_change=-0.13))])
    (fence,) = [token for token in PARSER.parse(text) if token.type == "fence"]
    assert "rerun" in fence.content


def test_messages_stop_where_github_would_drop_the_summary() -> None:
    row = baseline(source="x" * 100_000)
    slow = measurement(verdict=verdict(Outcome.REGRESSED, -0.13, baseline=row, confirmed_change=-0.13))
    text = summary([slow] * 20)
    assert len(text) < 600_000
    assert "more messages do not fit here" in text


def test_an_invalid_result_is_told_once_by_its_error() -> None:
    invalid = measurement(test="a", verdict=verdict(Outcome.INVALID, reason=Reason.DISTURBED))
    assert summary([invalid], not_measured={"a": TfperfError("every run was disturbed")}).count("<details>") == 1


def test_no_text_has_a_password_or_moves_the_cursor() -> None:
    url = "postgresql://ann:secret@db/d"
    text = summary([regressed(url)], not_measured={f"{url}\x1b[2J": TfperfError(f"{url}\x1b[2J")}, remarks=[url])
    assert text.count("ann:\\*\\*\\*@&#8203;db") >= 2
    assert "secret" not in text
    assert "\x1b" not in text
