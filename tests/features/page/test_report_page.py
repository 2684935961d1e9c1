"""The page's text: the facts inside it are whole, and no text can leave its place."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.past import moment
from pytest_tfperf.core.profile import Growth, Profile
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page.curves import rounded
from pytest_tfperf.features.page.render import page
from pytest_tfperf.reports.measurement_table import interleaved_table
from tests.features.page.documents import facts_of
from tests.helpers.measurements import baseline, interleaved, measurement, session_verdict, throughput, verdict

HOSTILE = st.text(st.sampled_from("<>&'\"/!-\u2028\u2029\\ scriptSCRIPT"), max_size=40)


class Tags(HTMLParser):
    """Counts elements, and keeps the text of the one with the facts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.facts = ""
        self._is_facts = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._is_facts = dict(attributes).get("id") == "facts"

    def handle_data(self, data: str) -> None:
        self.facts += data if self._is_facts else ""

    def handle_endtag(self, tag: str) -> None:
        self._is_facts = False


def page_with(text: str) -> tuple[dict[str, Any], Tags]:
    one = measurement(test=f"a.py::{text}", name=text, commit=text, environment={text: text})
    verdicts = [session_verdict(machine=text)]
    facts = facts_of(one, verdicts=verdicts, not_measured={text: TfperfError(text)}, scope=text)
    return facts, Tags(page(facts).decode())


def facts_in(found: Tags) -> dict[str, Any]:
    """The page's facts without what it adds for the rows of its table."""
    facts: dict[str, Any] = json.loads(found.facts)
    return facts | {"tests": [{name: test[name] for name in test if name != "recent"} for test in facts["tests"]]}


@given(HOSTILE)
def test_no_text_adds_an_element(text: str) -> None:
    assert page_with("x" + text)[1].tags == page_with("plain")[1].tags


def test_a_machine_of_10_kb_is_a_short_label_and_a_test_keeps_its_id() -> None:
    name = "m" * 10_000
    one = measurement(
        machine=name, topology=name, test=f"a.py::{name}", verdict=verdict(baseline=baseline(machine=name))
    )
    facts = facts_of(one)
    (test,) = json.loads(Tags(page(facts).decode()).facts)["tests"]
    assert len(test["machine"] + test["topology"]) <= 400
    assert test["test"] == f"a.py::{name}"
    assert facts["tests"][0]["machine"] == name


def test_no_text_has_a_password_or_moves_the_cursor() -> None:
    url = "postgresql://ann:secret@db/d"
    _, found = page_with(f"{url}\x1b[2J")
    assert "secret" not in found.facts
    assert "\\u001b" not in found.facts
    assert "ann:***@db" in found.facts


@given(HOSTILE)
def test_the_facts_in_the_page_are_the_facts(text: str) -> None:
    facts, found = page_with(text)
    assert facts_in(found) == facts


def test_half_of_a_character_is_escaped() -> None:
    facts, found = page_with("half \udcfc")
    assert facts_in(found) == facts


def test_a_regression_whose_interval_is_open_above_has_a_page() -> None:
    now = throughput(900.0, low=800.0, high=math.inf)
    one = measurement(now, test="a.py::slow", verdict=verdict(Outcome.REGRESSED, -0.1))
    assert "a.py::slow" in Tags(page(facts_of(one)).decode()).facts


@pytest.mark.parametrize(("topology", "is_shown"), [("1x8", True), ("1x1", False)])
def test_the_documents_have_a_section_where_one_of_their_figures_was_measured(topology: str, is_shown: bool) -> None:
    one = measurement()
    row = baseline(machine="dgx", key=one.key._replace(topology=topology), provenance=Provenance.PUBLISHED)
    text = page(facts_of(one, published=[row])).decode()
    assert ('<section id="documents">' in text) is is_shown


def test_documents_of_which_nothing_was_measured_take_no_room() -> None:
    one = measurement()
    rows = [
        baseline(machine=name, key=one.key._replace(topology=topology), provenance=Provenance.PUBLISHED, source=name)
        for name, topology in (("dgx", "1x8"), ("dgx", "1x4"), ("k80", "1x4"))
    ]
    found = Tags(page(facts_of(one, published=rows)).decode())
    assert [(row["document"], row["topology"]) for row in json.loads(found.facts)["documents"]] == [
        ("dgx", "1x4"),
        ("dgx", "1x8"),
    ]


def test_what_kept_a_test_from_a_result_stands_in_the_red_box() -> None:
    why = "it is INVALID: other processes used 61 % of 2 cores. End them"
    text = page(facts_of(measurement(), not_measured={"a.py::busy": TfperfError(why)})).decode()
    box = text.partition('<ul class="attention">')[2].partition("</ul>")[0]
    assert ("a.py::busy" in box, "other processes used 61 % of 2 cores" in box) == (True, True)


@pytest.mark.parametrize("outcome", [Outcome.REGRESSED, Outcome.INVALID])
def test_a_comparison_that_needs_action_stands_in_the_red_box(outcome: Outcome) -> None:
    slow = interleaved(outcome, test="a.py::compared")
    text = page(facts_of(measurement(), slow)).decode()
    box = text.partition('<ul class="attention">')[2].partition("</ul>")[0]
    assert "a.py::compared" in box


@pytest.mark.parametrize("required", [2.5, None])
def test_a_comparison_has_the_columns_and_figures_of_the_terminals_table(required: float | None) -> None:
    found = interleaved(ratio=1.99, a={"at_least": required})
    text = page(facts_of(found)).decode()
    table = text.partition('<section id="comparisons">')[2].partition("</section>")[0]
    names, cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:])
    shown = dict(zip(names[2:], cells[2:], strict=True))
    in_terminal = dict(zip(*(re.split("  +", line) for line in interleaved_table([found])), strict=True))
    assert shown == {name: in_terminal[name] for name in shown}
    assert ("required" in shown) is (required is not None)


def test_the_operations_that_grew_are_shown_beside_a_comparison() -> None:
    grown = Growth(name="aten::mm", type="aten::mm", before_seconds=0.001, seconds=0.014, before_count=1, count=14)
    text = page(facts_of(interleaved(profile=Profile(steps=10, grown=(grown,))))).decode()
    rows = text.partition('<section id="comparisons">')[2].partition("</section>")[0]
    assert "grew: aten::mm 1 -&gt; 14 ms a step, calls 1 -&gt; 14<" in rows


def test_the_licence_of_the_plotting_library_is_in_the_page() -> None:
    assert "Permission is hereby granted" in page(facts_of(measurement())).decode()


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_each_figure_is_a_number_that_json_can_hold(value: float) -> None:
    json.dumps(rounded(value), allow_nan=False)


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_a_figure_keeps_five_digits(value: float) -> None:
    short = rounded(value)
    assert short is not None
    assert abs(short - value) <= 5.1e-5 * value


@given(st.text())
def test_any_text_has_a_place_in_time(text: str) -> None:
    assert moment(text).tzinfo is not None
