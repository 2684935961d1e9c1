"""Figures that a program prints."""

from __future__ import annotations

import json

import pytest

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.programs.own_formats import FigureLines
from pytest_tfperf.programs.reading import Unreadable

EVAL = Figure("eval_loss", field="eval.loss")
BLEU = Figure("bleu", pattern=r"BLEU = (?P<bleu>\S+)", better="higher")


def read(figure: Figure, *lines: str, first: int | None = None) -> float:
    reader = FigureLines([figure])
    for line in lines:
        reader.take(line)
    return reader.values({} if first is None else {figure.name: first})[figure.name]


def evaluations(*losses: float) -> list[str]:
    return [json.dumps({"eval": {"loss": loss}}) for loss in losses]


def test_the_last_value_of_a_field_counts() -> None:
    assert read(EVAL, *evaluations(3.0, 2.0), '{"step": 5}') == 2.0


def test_the_median_counts_where_it_is_asked_for() -> None:
    assert read(Figure("eval_loss", field="eval.loss", takes="median"), *evaluations(3.0, 1.0, 2.0)) == 2.0


def test_a_group_of_a_pattern_is_read() -> None:
    assert read(BLEU, "noise", "BLEU = 31.25 after 3 epochs") == 31.25


def test_a_value_of_a_fixed_place_counts_where_programs_are_ended_early() -> None:
    assert read(EVAL, *evaluations(4.0, 3.0, 2.0), first=2) == 3.0


def test_null_is_no_value() -> None:
    assert read(EVAL, *evaluations(2.0), '{"eval": {"loss": null}}') == 2.0


@pytest.mark.parametrize(
    ("figure", "line", "says"),
    [
        pytest.param(EVAL, '{"eval": {"loss": "good"}}', "is 'good', which is no number", id="text"),
        pytest.param(EVAL, '{"eval": {"loss": NaN}}', "is nan, which can't be its value", id="nan"),
        pytest.param(EVAL, '{"eval": {"loss": Infinity}}', "is inf, which can't be its value", id="infinite"),
        pytest.param(BLEU, "BLEU = high", "is 'high', which is no number", id="pattern"),
        pytest.param(
            Figure("x", field="x", unit="s"), '{"x": -1}', "is -1, which can't be its value", id="negative-time"
        ),
    ],
)
def test_what_can_not_be_a_value_is_refused(figure: Figure, line: str, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        read(figure, line)


def test_a_field_that_never_comes_is_an_error_that_names_the_fields_that_do() -> None:
    with pytest.raises(Unreadable, match=r"eval_loss was never printed: .* 'eval\.loss'; they have step, loss"):
        read(EVAL, '{"step": 1, "loss": 2.0}')


def test_too_few_values_for_a_fixed_place_are_an_error() -> None:
    with pytest.raises(Unreadable, match="was printed only 1 times"):
        read(EVAL, *evaluations(4.0), first=4)
