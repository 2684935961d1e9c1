"""Figures that a program prints."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.programs.own_formats import FigureLines, FigureValue
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable
from tests.helpers.expected import SameTexts

EVAL = Figure("eval_loss", field="eval.loss")
BLEU = Figure("bleu", pattern=r"BLEU = (?P<bleu>\S+)", better="higher")
LOSS = Figure("loss", pattern=r"loss (?P<loss>\S+)")
AT_400 = Figure("loss", pattern=r"loss (?P<loss>\S+)", at_step=400)
MEDIAN_AT_400 = Figure("loss", pattern=r"loss (?P<loss>\S+)", at_step=400, takes="median")


def taken(figure: Figure, *lines: str, loss_reading: int | None = None) -> FigureLines:
    reader = FigureLines([figure], loss_reading)
    for line in lines:
        reader.take(line)
    return reader


def read(figure: Figure, *lines: str, loss_reading: int | None = None) -> FigureValue:
    return taken(figure, *lines, loss_reading=loss_reading).values()[figure.name]


def evaluations(*losses: float) -> list[str]:
    return [json.dumps({"eval": {"loss": loss}}) for loss in losses]


def steps(*losses: tuple[float, float]) -> list[str]:
    return [f"step {step} loss {loss!r}" for step, loss in losses]


def test_the_last_value_of_a_field_counts() -> None:
    assert read(EVAL, *evaluations(3.0, 2.0), '{"eval": {"accuracy": 0.5}}') == FigureValue(2.0, "at the end")


def test_the_median_counts_where_it_is_asked_for() -> None:
    figure = Figure("eval_loss", field="eval.loss", takes="median")
    assert read(figure, *evaluations(3.0, 1.0, 2.0)) == FigureValue(2.0, "at the end")


def test_the_first_value_counts_where_it_is_asked_for() -> None:
    figure = Figure("eval_loss", field="eval.loss", takes="first")
    assert read(figure, *evaluations(3.0, 1.0, 2.0)) == FigureValue(3.0, "at its first value")


def test_a_group_of_a_pattern_is_read() -> None:
    assert read(BLEU, "noise", "BLEU = 31.25 after 3 epochs").value == 31.25


def test_the_loss_of_a_reading_counts_where_programs_are_ended_early() -> None:
    lines = ["loss 4.0", "loss 3.0", "loss 2.0"]
    assert read(LOSS, *lines, loss_reading=2) == FigureValue(3.0, "at reading 2")


@pytest.mark.parametrize(
    "line",
    ["step 1,200 loss 2.5", '{"global_step": 1200} loss 2.5', "[1200/5000] loss 2.5", "epoch 3/9 [1200/5000] loss 2.5"],
)
def test_the_place_of_a_value_is_the_step_that_its_line_names(line: str) -> None:
    assert read(LOSS, line).place == "at step 1200"


def test_a_line_behind_the_last_step_is_the_end_and_not_that_step() -> None:
    """A program that prints its progress by time shows another last step each time."""
    assert read(LOSS, "step 985", "final loss 2.5").place == "at the end"


def test_the_step_of_a_progress_line_is_that_which_its_reader_counts() -> None:
    reader = FigureLines([Figure("loss")])
    reader.take("12/60 12s 31ms/step - loss: 2.5", Reading(Kind.STEP, 12, loss=2.5))
    assert reader.values() == {"loss": FigureValue(2.5, "at step 12")}


def test_a_progress_line_that_is_drawn_twice_counts_once() -> None:
    reader = FigureLines([Figure("loss")], 2)
    for step, loss in ((1, 3.0), (1, 3.0), (2, 2.0)):
        reader.take("", Reading(Kind.STEP, step, loss=loss))
    assert reader.values() == {"loss": FigureValue(2.0, "at step 2")}


def test_the_value_of_a_step_is_that_of_its_line() -> None:
    assert read(AT_400, *steps((300, 3.0), (400, 2.5), (500, 2.0))) == FigureValue(2.5, "at step 400")


def test_a_line_without_a_step_is_of_the_last_one_that_was_named() -> None:
    assert read(AT_400, "step 400", "eval loss 2.5", "step 401", "eval loss 2.0").value == 2.5


@given(
    st.lists(st.integers(1, 399), unique=True, min_size=1),
    st.lists(st.integers(401, 9999), unique=True, min_size=1),
    st.floats(-10, 10),
)
def test_the_value_of_a_step_does_not_depend_on_which_steps_were_printed(
    before: list[int], after: list[int], slope: float
) -> None:
    lines = steps(*((step, 5 + slope * step) for step in sorted([*before, *after])))
    assert read(AT_400, *lines).value == pytest.approx(5 + slope * 400)


def test_a_program_that_prints_by_time_and_became_faster_has_the_same_loss_at_a_step() -> None:
    losses = [
        read(AT_400, *steps(*((step, 2 + 100 / step) for step in range(gap, 3000, gap)))).value for gap in (90, 104)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.01)


def test_the_median_up_to_a_step_leaves_out_what_is_printed_later() -> None:
    lines = steps((100, 1.0), (200, 3.0), (300, 2.0), (500, 9.0), (600, 9.0))
    assert read(MEDIAN_AT_400, *lines) == FigureValue(2.0, "at step 400")


MEAN = Figure("loss", pattern=r"loss (?P<loss>\S+)", steps=(50, 100))
WARNINGS = Figure("warnings", counts="WARNING|Warning", at_step=200)


def test_the_mean_over_steps_leaves_out_all_others() -> None:
    lines = steps((40, 9.0), (50, 1.0), (80, 2.0), (100, 3.0), (110, 9.0))
    assert read(MEAN, *lines) == FigureValue(2.0, "over steps 50 to 100")


def test_the_losses_of_readings_have_a_mean_over_steps() -> None:
    reader = FigureLines([Figure("loss", steps=(2, 3))])
    for step in range(1, 5):
        reader.take("", Reading(Kind.STEP, step, loss=float(step)))
    assert reader.values() == {"loss": FigureValue(2.5, "over steps 2 to 3")}


def test_a_mean_is_complete_when_its_last_step_has_come() -> None:
    lines = steps((50, 3.0), (99, 2.0), (100, 1.0))
    taken_so_far = [taken(MEAN, *lines[:count]) for count in (1, 2, 3)]
    assert [figures.are_complete for figures in taken_so_far] == [False, False, True]
    assert [figures.are_ahead for figures in taken_so_far] == [True, True, False]


def test_lines_are_counted_up_to_a_step_with_that_steps_own_line() -> None:
    lines = ["WARNING", "step 100", "a Warning and a WARNING", "step 200 WARNING", "WARNING"]
    assert read(WARNINGS, *lines) == FigureValue(3.0, "up to step 200")


def test_a_program_that_prints_no_such_line_has_0_of_them() -> None:
    assert read(WARNINGS, "step 100", "step 300").value == 0


def test_lines_of_an_epoch_that_counts_from_1_again_are_after_its_step() -> None:
    assert read(WARNINGS, "step 200", "step 1", "WARNING").value == 0


def test_a_count_up_to_the_end_has_all_lines() -> None:
    assert read(Figure("warnings", counts="WARNING"), "WARNING", "step 1 WARNING") == FigureValue(2.0, "at the end")


def test_a_count_is_complete_when_its_step_has_come() -> None:
    assert [taken(WARNINGS, line).are_complete for line in ("step 199", "step 200")] == [False, True]


def test_the_steps_of_a_probe_count_and_not_those_that_lines_name() -> None:
    reader = FigureLines([WARNINGS])
    for line, ended in (("step 9000", 0), ("WARNING", 199), ("WARNING", 200), ("step 5", 201)):
        reader.take(line, steps=ended)
    assert (reader.values()["warnings"], reader.are_complete) == (FigureValue(1.0, "up to step 200"), True)


def test_a_program_that_falls_silent_before_a_step_is_counted_up_to_it_all_the_same() -> None:
    reader = FigureLines([WARNINGS])
    reader.take("WARNING", steps=3)
    reader.take("", steps=230)
    assert (reader.values()["warnings"], reader.are_complete) == (FigureValue(1.0, "up to step 200"), True)


def test_the_place_of_a_first_value_is_no_step_of_a_probe_which_varies_with_the_pipe() -> None:
    reader = FigureLines([Figure("x", field="x", takes="first")])
    reader.take('{"x": 2}', steps=17)
    assert reader.values()["x"] == FigureValue(2.0, "at its first value")


LACKING = {
    "a mean that ends too early": (MEAN, steps((50, 3.0), (90, 2.0)), None),
    "a mean between printed steps": (MEAN, steps((40, 3.0), (120, 2.0)), None),
    "a mean without steps": (MEAN, ["loss 3.0"], None),
    "a count that ends too early": (WARNINGS, ["step 150"], None),
    "a count without steps": (WARNINGS, ["WARNING"], None),
    "printed up to an earlier step": (AT_400, steps((100, 3.0), (380, 2.0)), None),
    "printed from a later step": (AT_400, steps((450, 3.0), (500, 2.0)), None),
    "no steps": (AT_400, ["loss 3.0", "loss 2.0"], None),
    "median up to an earlier step": (MEDIAN_AT_400, steps((100, 3.0), (380, 2.0)), None),
    "median from a later step": (MEDIAN_AT_400, steps((450, 3.0), (500, 2.0)), None),
    "another field": (EVAL, ['{"step": 1, "loss": 2.0}'], None),
    "too few values": (LOSS, ["loss 4.0"], 4),
}


def test_a_figure_without_a_value_at_its_place_is_an_error(same_texts: SameTexts) -> None:
    texts = {}
    for case, (figure, lines, loss_reading) in LACKING.items():
        with pytest.raises(Unreadable) as refused:
            read(figure, *lines, loss_reading=loss_reading)
        texts[case] = [refused.value.fact, refused.value.next_step]
    same_texts("lacking_values", texts)


def test_a_figure_is_complete_when_its_step_has_come() -> None:
    lines = steps((100, 3.0), (399, 2.0), (401, 1.0))
    assert [taken(AT_400, *lines[:count]).are_complete for count in (1, 2, 3)] == [False, False, True]


def test_a_step_is_ahead_only_where_lines_name_steps() -> None:
    assert taken(AT_400, "step 100").are_ahead
    assert not taken(AT_400, "loss 3.0").are_ahead
    assert not taken(AT_400, *steps((400, 2.0))).are_ahead


@pytest.mark.parametrize(
    ("field", "line", "value"),
    [
        ("train.loss", '{"train": {"loss": 2.5}}', 2.5),
        ("train.loss", '{"train.loss": 2.5}', 2.5),
        ("train.loss", '{"train.loss": 2.5, "train": {"loss": 9}}', 2.5),
        ("metrics.train.loss", '{"metrics": {"train.loss": 2.5}}', 2.5),
        ("metrics.train.loss", '{"metrics.train": {"loss": 2.5}}', 2.5),
        ("metrics.train.loss", '{"metrics.train": {}, "metrics": {"train": {"loss": 2.5}}}', 2.5),
    ],
)
def test_a_dot_in_a_field_is_a_part_of_a_key_or_between_two(field: str, line: str, value: float) -> None:
    assert read(Figure("x", field=field), line).value == value


IMPOSSIBLE = {
    "text": (EVAL, '{"eval": {"loss": "good"}}'),
    "null": (EVAL, '{"eval": {"loss": null}}'),
    "nan": (EVAL, '{"eval": {"loss": NaN}}'),
    "infinite": (EVAL, '{"eval": {"loss": Infinity}}'),
    "pattern": (BLEU, "BLEU = high"),
    "negative time": (Figure("x", field="x", unit="s"), '{"x": -1}'),
    "a time of day": (Figure("x", pattern=r"took (?P<x>\d+(\.\d)?)"), "took 1:30 in all"),
    "a version": (Figure("x", pattern=r"took (?P<x>\d+(\.\d)?)"), "took 1.5.2"),
    "another unit": (Figure("x", unit="s", pattern=r"took (?P<x>[\d.]+)"), "took 980 ms"),
    "a unit for none": (Figure("x", unit="", pattern=r"took (?P<x>[\d.]+)"), "took 1.2s"),
    "another size": (Figure("x", unit="MiB", pattern=r"took (?P<x>[\d.]+)"), "took 1.1 GiB"),
    "another factor": (Figure("x", unit="bytes", pattern=r"took (?P<x>[\d.]+)"), "took 3 KB,"),
}


def test_what_can_not_be_a_value_is_refused(same_texts: SameTexts) -> None:
    texts = {}
    for case, (figure, line) in IMPOSSIBLE.items():
        with pytest.raises(Unreadable) as refused:
            read(figure, line)
        texts[case] = [refused.value.fact, refused.value.next_step]
    same_texts("impossible_values", texts)


def test_null_in_the_place_of_a_loss_is_no_number() -> None:
    reader = FigureLines([Figure("loss")], 1)
    with pytest.raises(Unreadable, match="the figure loss is null"):
        reader.take('{"rate": 90.0, "loss": null}', Reading(Kind.RATE, 90.0))


PARTS = {
    "exponent": (r"loss (?P<x>[\d.]+)", "loss 1.2e-3", 1.2e-3),
    "thousands": (r"loss (?P<x>[\d.]+)", "loss 1,500.5 of", 1500.5),
    "fraction": (r"loss (?P<x>\d+)", "loss 1.25", 1.25),
    "sign": (r"loss\W+(?P<x>[\d.]+)", "loss: -0.5, next", -0.5),
    "thousand-fold": (r"loss (?P<x>[\d.]+)", "loss 12.5k", 12500.0),
}


@pytest.mark.parametrize(("pattern", "line", "value"), PARTS.values(), ids=PARTS)
def test_a_part_of_a_number_is_refused_and_the_pattern_that_is_suggested_reads_all_of_it(
    pattern: str, line: str, value: float
) -> None:
    with pytest.raises(Unreadable, match="a part of a number only") as refused:
        read(Figure("x", pattern=pattern), line)
    suggested = re.search(r"\(\?P<x>.*\)", refused.value.next_step)
    assert suggested
    begin = r"loss\W+?" if value < 0 else "loss "
    assert read(Figure("x", pattern=begin + suggested[0]), line).value == value


@pytest.mark.parametrize(
    ("line", "value"), [("loss 0.5, next", 0.5), ("(loss 0.5)", 0.5), ("loss 2e-3.", 0.002), ("loss 1,500", 1500.0)]
)
def test_the_pattern_of_our_own_example_reads_what_programs_print(line: str, value: float) -> None:
    assert read(LOSS, line).value == value


@pytest.mark.parametrize(
    ("unit", "line"), [("s", "took 12 s"), ("s", "took 12 seconds."), ("bytes", "took 12 B"), ("", "took 12 steps")]
)
def test_a_value_in_the_figures_own_unit_is_read(unit: str, line: str) -> None:
    assert read(Figure("x", unit=unit, pattern=r"took (?P<x>[\d.]+)"), line).value == 12


def test_a_figure_that_a_side_may_lack_is_left_out() -> None:
    assert FigureLines([EVAL], may_lack=True).values() == {}
