"""The lines of messages, in narrow terminals too."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import Line, LineKind, command, plain, rendered

MESSAGE = [
    Line(
        "resnet50-b64-replicated-device on 8x Tesla P100 (dgx1-p100): 1,402 images/s, 13.0 % slower than 1,612",
    ),
    Line("fails below 1,531    (baseline 1,612, tolerance 5 %, widened to 8.3 % by noise)", "threshold"),
    Line("not the limit: 10 % of a step; without it the ranks would give 2,700 images/s", "communication"),
    command("rerun", "pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]'"),
    command("accept", "pytest 'perf_tests/test_a.py::test_b' --update-baselines", "if it is intended; commit the row"),
]


def test_texts_stay_under_their_labels_and_commands_stay_whole() -> None:
    expected = dedent("""\
        resnet50-b64-replicated-device on 8x Tesla P100 (dgx1-p100):
            1,402 images/s, 13.0 % slower than 1,612
          threshold   fails below 1,531    (baseline 1,612,
                      tolerance 5 %, widened to 8.3 % by noise)
          communication not the limit: 10 % of a step; without it
                      the ranks would give 2,700 images/s
          rerun       pytest 'perf_tests/test_multigpu.py::test_resnet50_synthetic[8-replicated]'
          accept      pytest 'perf_tests/test_a.py::test_b' --update-baselines
                      (if it is intended; commit the row)""")
    assert "\n".join(rendered(MESSAGE, 60)) == expected


@pytest.mark.parametrize("width", [None, 39])
def test_without_a_terminal_and_in_a_tiny_one_a_text_stays_as_it_is(width: int | None) -> None:
    assert "\n".join(rendered(MESSAGE, width)) == plain(MESSAGE)


def test_the_lines_of_a_log_stay_whole() -> None:
    assert rendered([Line("word " * 20, kind=LineKind.LOG)], 40) == ["  | " + "word " * 20]


def test_a_first_line_leaves_room_for_what_stands_before_it() -> None:
    assert rendered(["word " * 5 + "end"], 40, before=20) == ["word word word word", "    word end"]


def test_no_line_obeys_a_terminal_or_shows_a_password() -> None:
    assert rendered(["\x1b[2J postgresql://ann:secret@db/d"], None) == ["\\x1b[2J postgresql://ann:***@db/d"]


@pytest.mark.parametrize(
    "token",
    ["ghp_" + "a1B2" * 9, "ghs_" + "Z" * 36, "github_pat_11AAAA0_" + "x" * 50, "glpat-" + "x-Y" * 7, "hf_" + "Qw" * 17],
)
def test_no_line_shows_a_token(token: str) -> None:
    assert rendered([f"fatal: 'https://{token}@example.com/a.git'"], None) == ["fatal: 'https://***@example.com/a.git'"]
    assert rendered([f"token={token} is refused"], None) == ["token=*** is refused"]


@pytest.mark.parametrize("name", ["hf_transformer_with_a_very_long_name_of_a_test", "ghp_test", "glpat-x"])
def test_a_name_that_looks_a_bit_like_a_token_is_shown(name: str) -> None:
    assert rendered([name], None) == [name]


words = st.lists(st.from_regex(r"[a-z,]{1,12}|[0-9]{1,4} %", fullmatch=True), min_size=1, max_size=40).map(" ".join)
labels = st.sampled_from([None, "threshold", "environment", "b's input", "GPU 0"])
messages = st.lists(st.builds(Line, words, labels), min_size=1, max_size=4)


@given(messages, st.integers(40, 200))
def test_no_line_is_longer_than_the_width(lines: list[Line], width: int) -> None:
    assert max(map(len, rendered(lines, width))) <= width


@given(messages, st.integers(40, 200))
def test_no_word_is_lost(lines: list[Line], width: int) -> None:
    assert "\n".join(rendered(lines, width)).split() == plain(lines).split()


@given(words, st.integers(40, 200))
def test_a_percentage_is_never_broken(text: str, width: int) -> None:
    assert not any(line.lstrip().startswith("%") for line in rendered([text], width))


@pytest.mark.parametrize(
    ("error", "fact"),
    [
        (TfperfError("unknown model 'x'", next_step="Known: a, b."), "unknown model 'x'"),
        (TfperfError("a fact", "another line"), "a fact"),
        (TfperfError("a fact", where="a place", brief="a fact: its cause"), "a fact: its cause"),
    ],
)
def test_in_brief_an_error_is_its_fact(error: TfperfError, fact: str) -> None:
    assert error.brief == fact
