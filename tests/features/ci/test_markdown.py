"""The Markdown summary: read by a parser of GitHub's dialect, so that what is shown is what was meant."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from measurements import baseline, comparison, measurement, session_verdict, verdict

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.verdict import Outcome, Reason
from pytest_tfperf.features.ci.markdown import as_text, in_one_sentence, markdown

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


# One sentence


def test_the_sentence_counts_each_test_once_by_its_worst_outcome() -> None:
    results = [
        measurement(test="a", verdict=verdict()),
        measurement(test="a", verdict=REGRESSED),
        measurement(test="b", verdict=verdict()),
    ]
    assert in_one_sentence(results) == "1 of 2 throughput tests regressed; 1 passed."


def test_a_test_that_could_not_be_measured_is_counted() -> None:
    sentence = in_one_sentence([measurement(test="a", verdict=verdict())], ["b"])
    assert sentence == "1 of 2 throughput tests could not be measured; 1 passed."


def test_a_session_without_results_says_so() -> None:
    assert in_one_sentence([]) == "No throughput test was measured."


def test_the_sentence_begins_with_the_verdicts_on_the_session() -> None:
    text = markdown([measurement(verdict=verdict(Outcome.PASS, -0.699))], verdicts=[session_verdict(change=-0.699)])
    said = "Machine REGRESSED (69.9 % slower than its baselines); 1 of 1 throughput test passed."
    sentence, paragraph = text.split("\n\n")[1:3]
    assert sentence == f"**{said}**"
    assert paragraph.startswith("machine box: REGRESSED: the reference environment is 69.9 % slower")


def test_what_passed_against_earlier_sessions_is_counted_apart() -> None:
    provisional = verdict(Outcome.PASS, -0.46, baseline=baseline(provenance=Provenance.PROVISIONAL))
    results = [measurement(test="a", verdict=provisional), measurement(test="b", verdict=verdict())]
    assert in_one_sentence(results[:1]) == "1 of 1 throughput test passed (provisional)."
    assert in_one_sentence(results) == "1 of 2 throughput tests passed; 1 passed (provisional)."


def test_a_refused_baseline_is_counted_once() -> None:
    results = [measurement(test="a", is_refused=True), measurement(test="b")]
    said = "1 of 2 throughput tests refused as a baseline; 1 ran without a verdict."
    assert in_one_sentence(results) == said
    assert "<summary>REFUSED a</summary>" in markdown(results, refused={"a": "too noisy"})


# The table


def test_the_worst_is_first() -> None:
    passes, slow, slower = (
        measurement(test="passes", verdict=verdict()),
        regressed("slow", -0.1),
        regressed("slower", -0.3),
    )
    table = rows(markdown([passes, slow, slower]))  # type: ignore[list-item]
    assert [row[1] for row in table[1:]] == ["slower", "slow", "passes"]


def test_a_column_without_a_value_is_left_out() -> None:
    assert "baseline" not in rows(markdown([measurement()]))[0]


def test_a_regression_shows_its_figures() -> None:
    heading, row = rows(markdown([measurement(verdict=REGRESSED)]))
    shown = dict(zip(heading, row, strict=True))
    assert shown["images/s"] == "1,000"
    assert shown["change"] == "-13.0 %"
    assert shown["fails at"] == "5 %"


def test_a_comparison_has_a_table_of_its_own() -> None:
    heading, row = rows(markdown([comparison()]))
    assert dict(zip(heading, row, strict=True))["b / a"] == "0.900"


# Whatever a name holds


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_shown_as_text(name: str) -> None:
    table = rows(markdown([measurement(test=name, verdict=verdict())]))
    assert table[1][1] == " ".join(name.split())


@given(st.text(min_size=1))
def test_any_name_leaves_the_table_its_shape(name: str) -> None:
    results = [measurement(test=name, verdict=verdict()), measurement(test="plain", verdict=verdict())]
    table = rows(markdown(results))
    assert [len(row) for row in table] == [len(table[0])] * 3


@given(st.text())
def test_text_means_nothing_to_markdown(text: str) -> None:
    for token in PARSER.parse(f"a {as_text(text)} b"):
        if token.type == "inline":
            shown(token)


def test_a_very_long_name_is_shortened() -> None:
    assert len(markdown([measurement(test="x" * 10_000, verdict=verdict())])) < 2_000


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_above_a_message_is_shown_as_text(name: str) -> None:
    block = next(
        token for token in PARSER.parse(markdown([], not_measured={name: "why"})) if token.type == "html_block"
    )
    found = re.fullmatch(r"<details><summary>([^<]*)</summary>", block.content.strip())
    assert found
    assert html.unescape(found[1]) == f"NOT MEASURED {' '.join(name.split())}"


# Messages


def test_a_test_that_could_not_be_measured_says_why() -> None:
    assert "\nthe worker died\n" in markdown([], not_measured={"t.py::a": "the worker died"})


def test_a_regressions_message_is_folded_away_and_whole() -> None:
    text = markdown([measurement(verdict=REGRESSED)])
    assert text.count("<details>") == 1
    assert "  accept      pytest " in text


def test_what_passed_has_no_message() -> None:
    assert "<details>" not in markdown([measurement(verdict=verdict())])


@pytest.mark.parametrize("source", ["```\n</details>", "~~~", "`" * 40])
def test_no_line_of_a_message_ends_its_fence(source: str) -> None:
    row = baseline(source=source)
    text = markdown([measurement(verdict=verdict(Outcome.REGRESSED, -0.13, baseline=row, confirmed_change=-0.13))])
    (fence,) = [token for token in PARSER.parse(text) if token.type == "fence"]
    assert "rerun" in fence.content


def test_messages_stop_where_github_would_drop_the_summary() -> None:
    row = baseline(source="x" * 100_000)
    slow = measurement(verdict=verdict(Outcome.REGRESSED, -0.13, baseline=row, confirmed_change=-0.13))
    text = markdown([slow] * 20)
    assert len(text) < 600_000
    assert "more messages do not fit here" in text


def test_remarks_stand_below_the_sentence() -> None:
    assert "machine box: REGRESSED" in markdown([measurement()], remarks=["machine box: REGRESSED"])


def test_an_invalid_result_is_told_once_by_its_error() -> None:
    invalid = measurement(test="a", verdict=verdict(Outcome.INVALID, reason=Reason.DISTURBED))
    assert markdown([invalid], not_measured={"a": "every run was disturbed"}).count("<details>") == 1


def test_no_text_has_a_password_or_moves_the_cursor() -> None:
    url = "postgresql://ann:secret@db/d"
    text = markdown([regressed(url)], not_measured={f"{url}\x1b[2J": f"{url}\x1b[2J"}, remarks=[url])
    assert text.count("ann:\\*\\*\\*@db") >= 2
    assert "secret" not in text
    assert "\x1b" not in text
