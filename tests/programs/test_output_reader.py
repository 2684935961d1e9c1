"""What a program's lines say, as it is stated, and nothing else."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.command import FORMATS_OF_RATES, FORMATS_OF_STEPS, Reads
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.reading import CUT, MOST_OF_A_LINE, Kind, LineSplitter, Reading, Unreadable, step_in
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import command


def read(line: str, *, devices: int = 2, **how: object) -> Reading | None:
    return Reader(command(**how), devices=devices).read(line)


RATE = r"(?P<rate>[\d.,]+ ?[kM]?)"

CONTRADICTED: dict[str, tuple[dict[str, object], str]] = {
    "seconds among milliseconds": ({"pattern": r"took (?P<milliseconds>[\d.]+)"}, "iter 3 took 1.013s"),
    "milliseconds among seconds": ({"pattern": r"took (?P<seconds>[\d.]+)"}, "iter 3 took 968.1 ms/step"),
    "minutes": ({"pattern": r"took (?P<seconds>[\d.]+)"}, "iter 3 took 1.5min"),
    "minutes and seconds": ({"pattern": r"took (?P<seconds>[\d.]+)"}, "iter 3 took 2m34.4s"),
    "a time of day": ({"pattern": r"(?P<seconds>[\d.]+)$"}, "iter 3 time 0:01:31.5"),
    "microseconds": ({"pattern": r"took (?P<milliseconds>[\d.]+)"}, "iter 3 took 850.5\u00b5s"),
    "milliseconds before the number": ({"pattern": r"(?P<seconds>[\d.]+)$"}, "ms/step: 31.5"),
    "a field of milliseconds": ({"field": "step_ms", "holds": "seconds"}, '{"step_ms": 31.5}'),
    "a time as a rate": ({"pattern": r", *(?P<rate>[\d.]+)(it/s|s/it)"}, "9/20 [00:12<00:15, 1.25s/it]"),
    "steps as examples": ({"pattern": r", *(?P<rate>[\d.]+)it/s"}, "9/20 [00:12<00:15, 3.61it/s]"),
    "tokens as images": ({"pattern": r"(?P<rate>[\d.]+) \w+/s", "unit": "images/s"}, "1234.5 tokens/s"),
    "another unit before the number": (
        {"pattern": r"(?P<rate>[\d.]+)$", "unit": "images/s"},
        "tokens per second: 12.5",
    ),
    "per minute": ({"pattern": r"(?P<rate>[\d.]+) ex"}, "1234.5 examples/min"),
    "thousands": ({"pattern": r"(?P<rate>[\d.]+) k?tok", "unit": "tokens/s"}, "12.3 ktokens/s"),
    "a network": ({"pattern": r"(?P<rate>[\d.]+) \w+/s", "unit": "tokens/s"}, "link 120.5 Mbit/s"),
    "a field per step": ({"field": "tokens_per_step", "unit": "tokens/s"}, '{"tokens_per_step": 65536}'),
    "one device before": ({"pattern": RATE + "$", "unit": "tokens/s"}, "step 3 per-GPU tokens/s: 5600.5"),
    "one device behind": ({"pattern": RATE, "unit": "tokens/s"}, "5600.5 tokens/s/device"),
    "one device in a field": ({"field": "tps_per_gpu", "unit": "tokens/s"}, '{"tps_per_gpu": 5600.5}'),
    "an average": ({"pattern": r"(?P<rate>[\d.]+)$"}, "average speed: 12.5"),
    "an average in a field": ({"field": "avg_rate"}, '{"avg_rate": 12.5}'),
}


def test_a_number_that_its_own_words_contradict_is_refused(same_texts: SameTexts) -> None:
    texts = {}
    for case, (how, line) in CONTRADICTED.items():
        with pytest.raises(Unreadable) as refused:
            read(line, examples_per_step=1, **how)
        texts[case] = [refused.value.fact, refused.value.next_step]
    same_texts("contradicted", texts)


@pytest.mark.parametrize(
    ("line", "how", "value"),
    [
        ("step 120 632.9 img/s", {"unit": "images/s"}, 632.9),
        ("step 120 images/sec: 632.9", {"pattern": r"(?P<rate>[\d.]+)$", "unit": "images/s"}, 632.9),
        ("12.3 ktok/s", {"pattern": r"(?P<rate>[\d.]+ ?k)", "unit": "tokens/s"}, 12300.0),
        ("2560.5/s, 2560/s/gpu", {"pattern": r"(?P<rate>[\d.]+)/s,"}, 2560.5),
        ("3.6 it/s", {"pattern": r"(?P<rate>[\d.]+) it", "unit": "steps/s"}, 3.6),
        ("avg over 10 steps: 12.5", {"pattern": r"(?P<rate>[\d.]+)$"}, 12.5),
        ("average speed: 12.5", {"pattern": r"(?P<rate>[\d.]+)$", "rate_is": "recent"}, 12.5),
        ("12.5 tokens/s/gpu", {"unit": "tokens/s", "of": "all"}, 12.5),
        ("12.5 tokens/s/gpu", {"unit": "tokens/s", "of": "device"}, 25.0),
        ('{"rate": 12.5}', {"field": "rate", "of": "device"}, 25.0),
        ("speed 12.5 photos/s", {"unit": "photos/s"}, 12.5),
    ],
)
def test_a_number_that_its_words_agree_with_is_read(line: str, how: dict[str, object], value: float) -> None:
    found = read(line, **{"pattern": RATE + " ?[a-z]+/s"} | how if "field" not in how else how)
    assert found is not None
    assert found.value == pytest.approx(value)


def test_a_rate_of_one_device_is_that_of_all_where_there_is_one() -> None:
    assert read("12.5 examples/s/gpu", devices=1) == Reading(Kind.RATE, 12.5)


def test_a_number_that_a_long_line_cuts_is_refused() -> None:
    (line,) = LineSplitter().feed(b"x" * (MOST_OF_A_LINE - 4) + b" 12345 examples/s\n")
    assert line.endswith(CUT)
    with pytest.raises(Unreadable, match="a part of a number only"):
        read(line, pattern=r" (?P<rate>\d+)")


def test_a_line_in_which_no_number_can_be_read_is_noted() -> None:
    reader = Reader(command())
    assert reader.read("1,5 examples/s") is None
    assert reader.note() == (
        "1 line with a rate was not read: the group rate has '1,5', which is no number: '1,5 examples/s'"
    )


def test_an_output_of_which_many_lines_can_not_be_read_is_refused() -> None:
    reader = Reader(command())
    for line in [*["12 examples/s"] * 9, "1,5 examples/s", "1,5 examples/s"]:
        reader.read(line)
    with pytest.raises(Unreadable, match="3 lines with a rate can't be read, beside 9 that can") as refused:
        reader.read("1,5 examples/s")
    assert list(map(str, refused.value.lines)) == ["  | 1,5 examples/s"] * 3


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(?P<rate>[\d.]+)", "1.545k"),
        (r"tps: (?P<rate>[\d.]+)", "tps: 1,500"),
        (r"(?P<rate>\d\d)", "1500"),
        (r"tps: 1(?P<rate>\d+)", "tps: 1500"),
        (r"(?P<rate>\d+)", "12.5"),
        (r"(?P<rate>[\d.]+) ex", "1,5 examples/s"),
        (r"(?P<seconds>\d+)", "12 ms"),
    ],
)
def test_a_group_that_ends_within_a_number_is_refused(pattern: str, line: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(repr(line))):
        read(line, pattern=pattern, examples_per_step=1)


@pytest.mark.parametrize(
    ("pattern", "line", "rate"),
    [
        (r"(?P<rate>[\d.]+k?)", "1.545k", 1545.0),
        (r"tps: (?P<rate>[\d,.]+)", "tps: 1,500", 1500.0),
        (r"(?P<rate>[\d.]+),(?P<loss>\S+)", "632,120", 632.0),
        (r",(?P<rate>[\d.]+)", "120,632.9,0.5", 632.9),
    ],
)
def test_a_group_understands_separators_and_k(pattern: str, line: str, rate: float) -> None:
    found = read(line, pattern=pattern)
    assert found is not None
    assert found.value == pytest.approx(rate)


def outcome(lines: list[str], **how: object) -> list[float | None]:
    reader = Reader(command(**how))
    found = [reader.read(line) for line in lines]
    return [reading and reading.value for reading in found]


def test_a_function_reads_what_nothing_else_does() -> None:
    assert outcome(["a 3", "b"], parse=lambda line: float(line[2:]) if line[0] == "a" else None) == [3.0, None]


@pytest.mark.parametrize(("line", "said"), [("x", "raised ValueError"), ("3", "returned '3'")])
def test_a_function_that_fails_is_shown_with_the_line(line: str, said: str) -> None:
    def parse(text: str) -> float:
        return float(text) and text  # type: ignore[return-value]

    with pytest.raises(Unreadable, match=said):
        outcome([line], parse=parse)


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        ("9 examples/s loss: 0.25", 0.25),
        ("9 examples/s - loss: 1.5e-3 - val_loss: 7", 1.5e-3),
        ("9 examples/s val_loss: 7", None),
        ("9 examples/s {'loss': nan}", math.nan),
        ("9 examples/s loss=inf", math.inf),
        ("9 examples/s lossy: 3", None),
        ("9 examples/s aux loss: 0.01 | loss: 0.25", 0.25),
        ("9 examples/s val loss: 0.5, train loss: 0.25", 0.25),
        ("9 examples/s loss: 0.25.", 0.25),
        ("9 examples/s loss: 0,25", None),
        ("9 examples/s loss: [0.25,0.31]", 0.25),
    ],
)
def test_a_lines_loss_is_read(line: str, loss: float | None) -> None:
    found = read(line)
    assert found is not None
    assert found.loss == pytest.approx(loss, nan_ok=True)


def test_a_step_line_of_tf_cnn_benchmarks_is_a_mean_since_the_first_step_in_the_commands_unit() -> None:
    line, how = "[1,0]<stdout>:10\timages/sec: 50.0 +/- 0.1 (jitter = 0.2)\t7.5\t0.1", {"format": "tf_cnn_benchmarks"}
    assert read(line, unit="images/s", **how) == Reading(Kind.MEAN_RATE, 50.0, step=10, loss=7.5)
    assert read(line, **how) is None


@pytest.mark.parametrize(
    ("field", "line", "found"),
    [
        ("rate", '{"rate": 5.5, "loss": 0.1}', Reading(Kind.RATE, 5.5, loss=0.1)),
        ("train.rate", 'INFO {"train": {"rate": 7}} ok', Reading(Kind.RATE, 7.0)),
        ("rate", '{"rate": "5.5"}', Reading(Kind.RATE, 5.5)),
        ("rate", '{"rate": true}', None),
        ("rate", '{"rate": null}', None),
        ("rate", '{"rate": ' + "9" * 5000 + "}", None),
        ("rate.x", '{"rate": 3}', None),
        ("rate", '{"rate": 5', None),
        ("rate", "{" * 60000, None),
        ("rate", "[1, 2]", None),
    ],
)
def test_a_field_of_a_json_line_is_a_rate(field: str, line: str, found: Reading | None) -> None:
    assert read(line, field=field) == found


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"speed (?P<rate>[\d.]+)", "speed 12.5, loss: 3", Reading(Kind.RATE, 12.5, loss=3.0)),
        (r"speed (?P<rate>\S+) l(?P<loss>\S+)", "speed 12 l4", Reading(Kind.RATE, 12.0, loss=4.0)),
        (r"it (?P<step>\d+)", "it 70", Reading(Kind.STEP, 70.0)),
        (r"(?P<seconds>[\d.]+) s", "0.5 s", Reading(Kind.SECONDS, 0.5)),
        (r"(?P<milliseconds>[\d.]+) ms", "500 ms", Reading(Kind.SECONDS, 0.5)),
        (r"speed (?P<rate>\S+)", "speed fast", None),
        (r"a|(?P<rate>\d)", "a", None),
        (r"speed (?P<rate>\S+)", "12 examples/s", None),
    ],
)
def test_a_pattern_finds_what_its_group_says(pattern: str, line: str, found: Reading | None) -> None:
    assert read(line, pattern=pattern, examples_per_step=2) == found


def test_a_field_may_hold_a_step_or_a_time() -> None:
    line = '{"at": 7, "ms": 250}'
    assert read(line, field="at", holds="step", examples_per_step=2) == Reading(Kind.STEP, 7.0)
    assert read(line, field="ms", holds="milliseconds", examples_per_step=2) == Reading(Kind.SECONDS, 0.25)


IMPOSSIBLE: list[dict[str, Any]] = [
    {"reads": {}},
    {"reads": {"until_end": True}},
    {"format": "tqmd", "examples_per_step": 2},
    {"format": "tqdm"},
    {"field": "x", "holds": "minutes"},
    {"field": "x", "holds": "seconds"},
    {"pattern": "(?P<rate>.)", "holds": "seconds"},
    {"pattern": "(?P<rate>.)", "of": "gpu"},
    {"pattern": "(?P<rate"},
    {"pattern": "speed (.*)"},
    {"pattern": "(?P<speed>.*)"},
    {"pattern": "(?P<rate>.*) (?P<step>.*)"},
    {"pattern": "(?P<step>.*)"},
    {"pattern": "(?P<rate>.)", "field": "x"},
    {"pattern": re.compile("(?P<rate>.)")},
    {"examples_per_step": 0},
    {"unit": "a/b/s"},
    {"name": "a b"},
    {"name": "resnet50-b64-replicated-device"},
]


def test_what_can_not_be_read_is_refused_when_it_is_asked_for(same_texts: SameTexts) -> None:
    texts = {}
    for how in IMPOSSIBLE:
        with pytest.raises(WorkloadError) as refused:
            Reads(**how["reads"]) if "reads" in how else command(**how)
        texts[str(how)] = refused.value
    same_texts("refused_commands", texts)


def test_steps_of_whatever_are_counted_without_saying_what_they_hold() -> None:
    assert command(unit="steps/s", pattern="(?P<step>.)").counted_per_step == 1


NOTHING_READ: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a rate that is not plain": ({}, ["1,5 examples/s"]),
    "no match": ({"pattern": "(?P<rate>x)"}, ["a"]),
    "in a terminal": ({"pattern": "(?P<rate>x)", "terminal": True}, ["a"]),
    "no JSON": ({"field": "rate"}, ["a"]),
    "other fields": ({"field": "rate"}, ['{"speed": 1}', '{"loss": 2}']),
    "no bar": ({"format": "tqdm", "examples_per_step": 2}, ["a"]),
    "a function": ({"parse": lambda _: None}, ["a"]),
}


def test_what_was_expected_is_said_where_nothing_is_read(same_texts: SameTexts) -> None:
    texts = {}
    for case, (how, lines) in NOTHING_READ.items():
        reader = Reader(command(**how))
        assert list(map(reader.read, lines)) == [None] * len(lines)
        texts[case] = [reader.nothing_read(), reader.next_step()]
    same_texts("nothing_read", texts)


HOW: list[dict[str, object]] = [
    {},
    {"field": "a.b"},
    {"pattern": r"^(?P<rate>\S+)"},
    {"pattern": r"(?P<seconds>[\d.e+-]+)", "examples_per_step": 1},
    *({"format": name, "unit": "steps/s"} for name in FORMATS_OF_STEPS),
    *({"format": name, "unit": "images/s"} for name in FORMATS_OF_RATES),
]
# Pieces of the formats, so that texts come near to them.
pieces = st.sampled_from(["1", ",", ".", "e9", "images/sec: ", "+/-", "examples/s", "loss: ", "/500", " 3ms/step", "{"])
texts = st.lists(pieces | st.text(max_size=3)).map("".join)


@pytest.mark.parametrize("how", HOW, ids=str)
@given(lines=st.lists(texts, max_size=4))
def test_no_text_crashes_a_reader(how: dict[str, object], lines: list[str]) -> None:
    reader = Reader(command(**how))
    with suppress(Unreadable):
        for line in lines:
            reader.read(line)
    assert reader.nothing_read()


@given(st.floats(min_value=1e-6, max_value=1e15, allow_nan=False), st.sampled_from(["", "step 3: "]))
def test_a_printed_rate_reads_as_the_same_number(rate: float, before: str) -> None:
    assert read(f"{before}{rate!r} examples/s") == Reading(Kind.RATE, rate)
    assert read(json.dumps({"rate": rate}), field="rate") == Reading(Kind.RATE, rate)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_lines_do_not_depend_on_how_a_programs_output_is_cut(chunks: list[bytes]) -> None:
    def lines(feed: Callable[[LineSplitter], list[str]]) -> tuple[list[str], str]:
        splitter = LineSplitter()
        return feed(splitter), splitter.unfinished

    whole = lines(lambda splitter: splitter.feed(b"".join(chunks)))
    parts = lines(lambda splitter: [line for chunk in chunks for line in splitter.feed(chunk)])
    assert parts == whole


def test_a_line_that_never_ends_takes_bounded_memory() -> None:
    splitter = LineSplitter()
    for _ in range(100):
        assert splitter.feed(b"x" * MOST_OF_A_LINE) == []
    assert len(splitter.unfinished) == MOST_OF_A_LINE + len(CUT)
    assert [len(line) for line in splitter.feed(b"x" * 2**20 + b"\ny\n")] == [MOST_OF_A_LINE + len(CUT), 1]


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize(
    "text", ["1", "1 ", "1,", ".1", "1/", "{", "loss: ", "images/sec: ", "examples/s ", "\x1b[", "e1"]
)
def test_the_work_on_a_line_grows_no_faster_than_its_length(text: str, how: dict[str, object]) -> None:
    """32 times the length takes at most 32 times the CPU time; a search that is quadratic takes 1024 times as much."""

    def cpu_seconds(length: int) -> float:
        line = text * (length // len(text)) + " +/- /step examples/s"
        reader = Reader(command(**how))
        begun = time.process_time()
        reader.read(line)
        return time.process_time() - begun

    short = min(cpu_seconds(2**11) for _ in range(5))
    assert min(cpu_seconds(2**16) for _ in range(2)) < 200 * short


@pytest.mark.parametrize(
    ("printed", "rate"), [("1.2k", 1200), ("1.2 K/s", 1200), ("1'200", 1200), ("1.2e3", 1200), ("1,200.5", 1200.5)]
)
def test_the_group_that_a_message_advises_reads_the_whole_number(printed: str, rate: float) -> None:
    line = f"step 3 speed {printed}"
    with pytest.raises(Unreadable) as refused:
        read(line, pattern=r"speed (?P<rate>[\d.]+)")
    group = refused.value.next_step.partition("as ")[2]
    found = read(line, pattern=f"speed {group}")
    assert found is not None
    assert found.value == rate


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Epoch 1, step 1,200: loss 0.5", 1200),
        ("batch 32 iter 7: loss 0.5", 7),
        ("Epoch[0] Batch [20]\tSpeed: 632.9 samples/sec", 20),
        ("[Epoch 1] [Batch 3/200] [D loss: 0.5]", 3),
        ("Batch: [ 20/100]", 20),
        ("batch 20 of 100", 20),
        ("batch=32 55.6 images/s", None),
        ("batch=32/gpu 55.6 images/s", None),
        ("global batch 256 / 8 GPUs", None),
        ("batch size 32, step 2.5 s", None),
    ],
)
def test_a_batch_is_a_step_only_where_it_cannot_be_a_size(line: str, step: int | None) -> None:
    assert step_in(line) == step
