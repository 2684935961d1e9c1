"""The ways to read lines that are proposed for lines of no known format."""

from __future__ import annotations

import pytest

from pytest_tfperf.features.read.proposals import Proposal, proposals

SECONDS = 0.25  # between two lines


def proposed(form: str, count: int = 8) -> list[Proposal]:
    """The proposals for lines that count from 1 on, in which {k} is the number and {s} the seconds since the last."""
    return list(proposals([(n * SECONDS, form.format(k=n, s=SECONDS, ms=1000 * SECONDS)) for n in range(1, count + 1)]))


@pytest.mark.parametrize(
    ("form", "counts", "examples"),
    [
        ("step {k} loss 0.5", "step", None),
        ("batches {k} loss 0.5", "step", None),
        ("epoch {k} loss 0.5", "epoch", 1),
        ("seen {k} images, loss 0.5", "image", 1),
    ],
)
def test_a_step_holds_an_unknown_number_of_examples_and_anything_else_itself(
    form: str, counts: str, examples: int | None
) -> None:
    (found,) = proposed(form)
    assert (found.counts, found.unit, found.examples_per_step) == (counts, f"{counts}s", examples)


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ("step {k} loss 0.5", r"^step\s*(?P<step>\d+)"),
        ("{k}/60 done", r"^\s*(?P<step>\d+)/\s*"),
        ("{k} done", r"^\s*(?P<step>\d+)\s"),
        ("seen {k} images", r"^seen\s*(?P<step>\d+)\simage"),
        ("loss 0.5 128.0 fps", r"^loss\s*[\d.,/]+\s*(?P<rate>[\d.,]*\d)\s?fps\b"),
        ("loss 0.5 fps: 12.5", r"\bfps:\s*(?P<rate>[\d.,]*\d)"),
        ("fps: 1.5e+3", r"^fps:\s*(?P<rate>[\d.,]*\d(?:[eE][+-]?\d+)?)"),
        ("fps: 1.5k", r"^fps:\s*(?P<rate>[\d.,]*\d(?:[kKMG]\b)?)"),
        ("loss 0.5 took {s} s", r"\btook\s*(?P<seconds>[\d.,]*\d)\s?s\b"),
        ("loss 0.5 took {ms}ms", r"\btook\s*(?P<milliseconds>[\d.,]*\d)\s?ms\b"),
        ("loss 0.5 ms {ms}", r"\bms\s*(?P<milliseconds>[\d.,]*\d)"),
    ],
)
def test_a_pattern_reads_the_number_by_what_stands_before_and_behind_it(form: str, pattern: str) -> None:
    (found,) = proposed(form)
    assert found.reads.pattern == pattern


@pytest.mark.parametrize("count", [3, 4, 30])
def test_times_that_add_up_to_what_passed_are_proposed_however_few_lines_there_are(count: int) -> None:
    (found,) = proposed("loss 0.5 took {s} s", count)
    assert (found.unit, found.counts) == ("steps", "step")


@pytest.mark.parametrize("form", ["loss 0.5 took 0.17 s", "loss 0.5 took 0.31 s"])
def test_times_that_do_not_add_up_to_what_passed_are_not_proposed(form: str) -> None:
    assert proposed(form) == []


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("loss 0.5 fps: 12.5", "frames"),
        ("loss 0.5 12.5 FPS", "frames"),
        ("loss 0.5 WPS 12.5", "words"),
        ("loss 0.5 tps 12.5", "tokens"),
        ("loss 0.5 speed 12.5", "examples"),
        ('{{"Tokens_per_s": 12.5}}', "tokens"),
    ],
)
def test_a_rate_counts_what_its_name_says(form: str, unit: str) -> None:
    assert {(found.unit, found.counts) for found in proposed(form)} == {(unit, "")}


@pytest.mark.parametrize("form", ["Downloading step {k}", "SAVED step {k}", "Eval step {k}"])
def test_lines_of_other_work_have_no_counter(form: str) -> None:
    assert proposed(form) == []


@pytest.mark.parametrize(("every", "is_counter"), [(2, True), (10, False)])
def test_a_number_that_most_lines_repeat_is_no_counter(every: int, *, is_counter: bool) -> None:
    lines = [(n * SECONDS, f"step {n // every} loss 0.5") for n in range(30)]
    assert [found.counts for found in proposals(lines)] == ["step"] * is_counter
