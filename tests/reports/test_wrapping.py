"""Messages in narrow terminals."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.reports.message import with_lines
from pytest_tfperf.reports.wrapping import first_sentence, wrapped

MESSAGE = with_lines(
    "resnet50-b64-replicated-device on 8x Tesla P100 (dgx1-p100): 1,402 images/s, 13.0 % slower than 1,612",
    [
        ("threshold", "fails below 1,531    (baseline 1,612, tolerance 5 %, widened to 8.3 % by noise)"),
        ("input", "not the limit"),
        ("rerun", "pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]'"),
        ("accept", "pytest 'perf_tests/test_a.py::test_b' --update-baselines    (if it is intended; commit the row)"),
    ],
)


def test_texts_stay_under_their_labels_and_commands_stay_whole() -> None:
    expected = dedent("""\
        resnet50-b64-replicated-device on 8x Tesla P100 (dgx1-p100):
            1,402 images/s, 13.0 % slower than 1,612
          threshold   fails below 1,531    (baseline 1,612,
                      tolerance 5 %, widened to 8.3 % by noise)
          input       not the limit
          rerun       pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]'
          accept      pytest 'perf_tests/test_a.py::test_b' --update-baselines
                      (if it is intended; commit the row)""")
    assert wrapped(MESSAGE, 60) == expected


@pytest.mark.parametrize("width", [None, 39])
def test_without_a_terminal_and_in_a_tiny_one_a_text_stays_as_it_is(width: int | None) -> None:
    assert wrapped(MESSAGE, width) == MESSAGE


def test_the_lines_of_a_log_stay_whole() -> None:
    assert wrapped("  | " + "word " * 20, 40) == "  | " + "word " * 20


words = st.lists(st.from_regex(r"[a-z,]{1,12}|[0-9]{1,4} %", fullmatch=True), min_size=1, max_size=40).map(" ".join)
labels = st.sampled_from(["threshold", "environment", "b's input", "GPU 0"])


@given(words, st.lists(st.tuples(labels, words), max_size=4), st.integers(40, 200))
def test_no_line_is_longer_than_the_width(first: str, lines: list[tuple[str, str]], width: int) -> None:
    assert max(map(len, wrapped(with_lines(first, lines), width).split("\n"))) <= width


@given(words, st.lists(st.tuples(labels, words), max_size=4), st.integers(40, 200))
def test_no_word_is_lost(first: str, lines: list[tuple[str, str]], width: int) -> None:
    text = with_lines(first, lines)
    assert wrapped(text, width).split() == text.split()


@given(words, st.integers(40, 200))
def test_a_percentage_is_never_broken(text: str, width: int) -> None:
    assert not any(line.lstrip().startswith("%") for line in wrapped(text, width).split("\n"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("unknown model 'x'. Known: a, b.", "unknown model 'x'"),
        ("1.5 % slower", "1.5 % slower"),
        ("one line.\nanother", "one line"),
    ],
)
def test_the_first_sentence_is_what_stands_before_the_full_stop(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence
