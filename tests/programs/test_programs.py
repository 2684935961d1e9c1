"""Recorded output of well-known programs, and how it is stated."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pytest_tfperf.core.command import FORMATS_OF_RATES, FORMATS_OF_STEPS
from pytest_tfperf.programs.formats import FORMATS
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.reading import Kind, LineSplitter, Reading
from tests.helpers.measurements import command

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"


def read(program: str, **how: object) -> list[Reading]:
    splitter, reader = LineSplitter(), Reader(command(examples_per_step=32, **how))
    lines = [*splitter.feed((PROGRAMS / f"{program}.txt").read_bytes()), splitter.unfinished]
    return [reading for line in lines if (reading := reader.read(line)) is not None]


# Each was recorded from the program itself: nanoGPT 3adf61e, minGPT 37baab7, PyTorch's examples 77f55b9, timm 1.0.31,
# transformers 5.23.0, lightning 2.6.6, tqdm 4.67.
RECORDED: list[tuple[str, dict[str, object], Kind, float | None, int]] = [
    ("nanogpt", {"pattern": r"^iter \d+: .* time (?P<milliseconds>[\d.]+)ms"}, Kind.SECONDS, 4.6258, 30),
    ("imagenet", {"pattern": r"^Epoch: \[\d+\]\[ *(?P<step>\d+)/"}, Kind.STEP, None, 20),
    ("mingpt", {"pattern": r"^iter_dt (?P<milliseconds>[\d.]+)ms"}, Kind.SECONDS, 0.0, 3),
    ("timm_train", {"pattern": r"^Train: .*Time: [\d.]+s, +(?P<rate>[\d.]+)/s"}, Kind.RATE, 4.67, 20),
    (
        "timm_benchmark",
        {"pattern": r"^Train .* (?P<rate>[\d.]+) samples/sec", "rate_is": "average"},
        Kind.MEAN_RATE,
        25.04,
        5,
    ),
    ("tqdm", {"format": "tqdm"}, Kind.STEP, 10.0, 29),
]


@pytest.mark.parametrize(
    ("program", "how", "kind", "first", "least"), RECORDED, ids=[program for program, *_ in RECORDED]
)
def test_the_recorded_output_of_a_program_is_read(
    program: str, how: dict[str, object], kind: Kind, first: float | None, least: int
) -> None:
    readings = read(program, **how)
    assert {reading.kind for reading in readings} == {kind}
    assert len(readings) >= least
    assert first is None or readings[0].value == first


@pytest.mark.parametrize(
    ("program", "pattern", "steps"),
    [
        ("hf_trainer", r"^ *\d+%.*\| (?P<step>\d+)/375 ", 375),
        ("lightning", r"^Epoch \d+:.*\| (?P<step>\d+)/", 500),
        ("lightning_rich", r"^Epoch .* (?P<step>\d+)/500 ", 500),
    ],
)
def test_a_pattern_tells_the_bar_of_training_from_those_of_evaluation(program: str, pattern: str, steps: int) -> None:
    read_steps = [reading.value for reading in read(program, pattern=pattern)]
    assert max(read_steps) == steps
    assert all(later >= step or later == 0 for step, later in pairwise(read_steps))


def test_each_known_format_has_a_name_that_reads_takes_and_a_source() -> None:
    assert {known.name for known in FORMATS} == {*FORMATS_OF_STEPS, *FORMATS_OF_RATES} - {"tqdm"}
    assert all(known.source for known in FORMATS)
