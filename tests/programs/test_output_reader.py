"""What a program's lines say: every known format, and nothing else."""

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

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.reading import MOST_OF_A_LINE, Kind, LineSplitter, Reading, Unreadable
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import command

PLAIN = command(examples_per_step=32)


def read(line: str, **how: object) -> Reading | None:
    return Reader(command(**how), devices=2).read(line)


@pytest.mark.parametrize(
    ("line", "rate"),
    [
        ("throughput: 1234.5 examples/s", 1234.5),
        ("throughput: 1,234,567.5 examples/sec (epoch 3)", 1234567.5),
        ("1e3 examples / s", 1000.0),
        ("speed=12 examples per second", 12.0),
        ("12 EXAMPLES/SECOND", 12.0),
        ("examples/s: 77.5, loss 3", 77.5),
        ('"examples/sec": 3e2}', 300.0),
        ("1.5k examples/s", 1500.0),
        ("12 examples/step", None),
        ("1 234.5 examples/s", None),  # not 234.5
        ("1 234 567 examples/s", None),
        ("1'234.5 examples/s", 1234.5),
        ("examples/s: 1 234.5", None),  # not 1
        ("step 3 1234.5 examples/s", 1234.5),
        ("'12 examples/s'", 12.0),
        ("12 examples/s/gpu", 24.0),  # of two devices
        ("12 examples/sec per GPU", 24.0),
        ("12 examples/s (3 examples/s/gpu)", 12.0),
        ("examples_per_sec_per_gpu: 12", 24.0),
        ("train/examples_per_second=12", 12.0),
        ("eta 3 examples/step/s 12", None),
        ("v1.2.12 examples/s", None),
        ("12 more_examples/s", None),
        ("images/s: 12", None),
        ("examples/s: many", None),
        ("-3 examples/s", -3.0),
        ("inf examples/s", math.inf),
    ],
)
def test_a_number_with_its_unit_is_a_rate(line: str, rate: float | None) -> None:
    found = read(line)
    assert (found and (found.kind, found.value)) == (rate and (Kind.RATE, rate))


@pytest.mark.parametrize(
    ("line", "rate"),
    [
        ("step 120 632.9 examples/s", 632.9),
        ("12:30:45 632.9 examples/s", 632.9),
        ("Epoch 1/10 632.9 examples/s", 632.9),
        ("loss: 0.5 examples/sec: 632.9", 632.9),
        ("step 120 examples/sec: 1234.5", 1234.5),
        ("step 120 examples/sec 1234.5", 1234.5),
        ("632.9 examples/s 12.3 ms", 632.9),
        ("632.9 +/- 3.2 examples/s", 632.9),
        ("632.9 \u00b1 3.2 examples/s", 632.9),
        ("throughput (examples/s): 632.9", 632.9),
        ("12.3 kexamples/s", 12300.0),
        ("632.9 examples/s (avg 640.1 examples/s)", 632.9),
        ("step 3: 632.9 examples/s, target 700 examples/s", 632.9),
        ("Speed: 632.9 examples/s 81234 tokens/s", 632.9),
        ("speed 632.9 examples/s 12.3 ms 0.5 GB", 632.9),
        ("step 120 examples/s 632.9 TFLOPS 123.4", 632.9),
        ("speed 632.9 examples/s 45.1 TFLOPS 12.3 GB", 632.9),
        ("speed 632.9 examples/s 70 watts 60 degrees", 632.9),
        ("loss 0.5 / 632.9 examples/s", 632.9),
        ("resnet50 x 632.9 examples/s", 632.9),
        ("Iter 5 | 85.3 ms/it | 632.9 examples/s", 632.9),
        ("ms/it 85.3 examples/s 632.9", 632.9),
        ("1\u202f234.5 examples/s", 1234.5),
    ],
)
def test_the_number_that_belongs_to_the_unit_is_read(line: str, rate: float) -> None:
    found = read(line)
    assert found is not None
    assert found.value == pytest.approx(rate)


IN_TWO_WAYS = [
    "1 234.5 examples/s",
    "1,5 examples/s",
    "600-640 examples/s",
    "600 to 640 examples/s",
    "step 120 examples/s: n/a",
    "step 120 examples/s",
    "loss 0.3 examples/s 120",
    "train 900 examples/s, eval 300 examples/s",
    "12 m examples/s",
    "loss 3.9 lr 3e-4 examples/s 632.9 TFLOPS 123.4",
    "0,752 examples/s",
    "examples/s per rank: [41.6, 20.0]",
    "examples/s per rank: [41.6 20.0]",
    "examples/s: 83.1 / 50.2",
    "examples/s: 83, 50, loss 0.3",
    "examples/s = 80..130",
    "12345/11000 examples/s",
    "8 x 2.5 examples/s",
    "2.5 x 10^3 examples/s",
    "data 3.2 ms/step, compute 28.0 ms/step",
    "1m 3s/step",
    "1 234 ms/step",
    "600 to 640 ms/step",
    "3.2 it/s and 4 it/s",
    "3.1 it/s, data 0.1 s/it",
    "31.2ms +/- 0.5 ms/step",
    "[00:12<00:15, 3.61it/s]",
]


def test_a_line_that_can_be_read_in_two_ways_is_shown_and_not_read(same_texts: SameTexts) -> None:
    texts = {}
    for line in IN_TWO_WAYS:
        reader = Reader(PLAIN)
        assert reader.read(line) is None
        texts[line] = reader.note()
    same_texts("in_two_ways", texts)


@pytest.mark.parametrize(
    ("line", "measure"),
    [
        ("step 3: target 200 examples/s", "target"),
        ("Best speed: 155.2 examples/s", "best"),
        ("peak throughput (examples/s): 155.2", "peak"),
        ("max 3.6 it/s", "max"),
    ],
)
def test_what_a_slower_program_prints_unchanged_is_no_rate(line: str, measure: str) -> None:
    reader = Reader(PLAIN)
    assert [reader.read(line) for _ in range(20)] == [None] * 20
    assert reader.nothing_read() == f"no line has a rate that is plain: '{measure}' names no rate of these steps"


def test_a_best_beside_the_rates_is_left_out() -> None:
    assert outcome(["12 examples/s", "best 15 examples/s"] * 20) == [12.0, None] * 20


def test_an_output_of_which_many_lines_can_not_be_read_is_refused() -> None:
    reader = Reader(PLAIN)
    for _ in range(9):
        reader.read("12 examples/s")
    reader.read("1,5 examples/s")
    reader.read("1,5 examples/s")
    with pytest.raises(Unreadable, match="3 lines with a rate can't be read, beside 9 that can") as refused:
        reader.read("1,5 examples/s")
    assert list(map(str, refused.value.lines)) == ["  | 1,5 examples/s"] * 3


@pytest.mark.parametrize(
    ("line", "kind", "value"),
    [
        ("31 ms/step", Kind.SECONDS, 0.031),
        ("31.2 \u00b1 0.5 ms/step", Kind.SECONDS, 0.0312),
        ("Time per step: 31 ms/step", Kind.SECONDS, 0.031),
        ("avg 1.7 s/it, last 1.5 s/it", Kind.SECONDS, 1.5),
        ("2 s per batch", Kind.SECONDS, 2.0),
        ("3.6 it/s", Kind.STEP_RATE, 3.6),
        ("3.60 \u00b1 0.10 it/s", Kind.STEP_RATE, 3.6),
        ("1.5kit/s", Kind.STEP_RATE, 1500.0),
        ("step 120: 3.6 steps/sec", Kind.STEP_RATE, 3.6),
        ("step 120: 0.31 s/step", Kind.SECONDS, 0.31),
        ("12:00:01: 0.31 s/it", Kind.SECONDS, 0.31),
        ("31 ms/step (p50 30 ms/step, std 2 ms/step)", Kind.SECONDS, 0.031),
        ("0.3 s/it, 3.1 it/s", Kind.SECONDS, 0.3),
    ],
)
def test_steps_per_second_and_the_time_of_a_step_are_read_as_carefully(line: str, kind: Kind, value: float) -> None:
    found = Reader(PLAIN).read(line)
    assert found is not None
    assert (found.kind, found.value) == (kind, pytest.approx(value))


def test_a_rate_that_is_named_an_average_is_noted_until_someone_says_what_it_is() -> None:
    notes = []
    for rate_is in (None, "recent"):
        reader = Reader(command(rate_is=rate_is))
        reader.read("average throughput: 12 examples/s")
        notes.append("names an average" in reader.note())
    assert notes == [True, False]


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(?P<rate>[\d.]+)", "1.545k"),
        (r"tps: (?P<rate>[\d.]+)", "tps: 1,500"),
        (r"(?P<rate>\d\d)", "1500"),
        (r"tps: 1(?P<rate>\d+)", "tps: 1500"),
        (r"(?P<rate>\d+)", "12.5"),
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


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["[rank0] 745 examples/s", "[rank1] 744 examples/s"] * 3, "two series of rates"),
        (["step 1: 745 examples/s", "eval 300 examples/s", "train 9 examples/s"] * 3, "two series of rates"),
        ([f"step {n // 2}: {700 + n} examples/s" for n in range(20)], "most steps have several lines"),
        (["host1/gpu:0 745 examples/s", "host1/gpu:1 744 examples/s"] * 3, "two series of rates"),
    ],
)
def test_two_series_in_one_output_are_refused(lines: list[str], said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        outcome(lines)


@pytest.mark.parametrize(
    ("train", "evaluation"),
    [("train: ", "eval: "), ("train_loss 1 ", "val_loss 2 "), ("loss: 1, ", "val loss: 2, "), ("Train a ", "Eval a ")],
)
def test_lines_of_evaluation_are_left_out_and_counted(train: str, evaluation: str) -> None:
    reader = Reader(PLAIN)
    lines = [f"{train}9 examples/s", *[f"{evaluation}30 examples/s"] * 3, f"{train}8 examples/s"]
    assert [reading and reading.value for reading in map(reader.read, lines)] == [9, None, None, None, 8]
    assert "lines of evaluation that were left out: 3" in reader.note()


def test_lines_of_a_series_too_short_to_be_one_are_counted() -> None:
    reader = Reader(PLAIN)
    assert [reader.read(f"rank {rank} 9 examples/s") is None for rank in (0, 1, 0)] == [False, True, False]
    assert "lines of another series that were left out: 1" in reader.note()


def test_two_lines_of_a_step_are_one_count_by_a_pattern() -> None:
    lines = [f"step {n} {what}" for n in range(20) for what in ("loss: 1", "lr: 2")]
    assert outcome(lines, pattern=r"step (?P<step>\d+)", examples_per_step=1) == [float(n // 2) for n in range(40)]


@pytest.mark.parametrize(
    "lines",
    [
        ['{"rate": 9, "eval/accuracy": 0.1}', '{"rate": 9}', '{"rate": 9, "validation": {"loss": 2}}'],
        ['{"rate": 9, "phase": "warmup"}', '{"rate": 9, "phase": "train"}'],
        ['{"rate": 9, "gpu": 97}', '{"rate": 9, "gpu": 96}'],
    ],
    ids=lambda lines: lines[0],
)
def test_json_lines_are_of_one_series_whatever_else_they_hold(lines: list[str]) -> None:
    assert outcome(lines * 4, field="rate") == [9.0] * 4 * len(lines)


def test_json_lines_of_evaluation_are_left_out() -> None:
    assert outcome(['{"rate": 9, "split": "train"}', '{"rate": 30, "split": "eval"}'], field="rate") == [9, None]


@pytest.mark.parametrize("how", [{"field": "rate"}, {"pattern": r"(?P<rate>\d+)\}"}], ids=str)
def test_a_field_or_a_pattern_does_not_mix_two_ranks_either(how: dict[str, object]) -> None:
    with pytest.raises(Unreadable, match="two series of rates"):
        outcome(['{"rank": 0, "rate": 9}', '{"rank": 1, "rate": 9}'] * 3, **how)


@pytest.mark.parametrize(
    "lines",
    [
        ["9 examples/s", "9 examples/s train_loss=2", "9 examples/s val_loss: 2", "9 examples/s, val loss 2"],
        [f"9 examples/s, tokens/s/device: {each}" for each in (166.2, 167.3, 8.1)],
        [f"9 examples/s, per GPU: {each}" for each in (16, 17, 18)],
        [f"GPU: {each} GB, 9 examples/s" for each in (1.5, 1.6, 2.7)],
        [f"GPU: {each} %, 9 examples/s" for each in (96, 97, 98)],
        [f"gpu = {each} W, 9 examples/s" for each in (96, 97, 98)],
    ],
    ids=lambda lines: lines[-1],
)
def test_names_of_metrics_are_no_second_series(lines: list[str]) -> None:
    assert outcome(lines) == [9.0] * len(lines)


def test_a_number_that_never_changes_is_no_counter() -> None:
    assert outcome(["batch 32: 9 examples/s"] * 20) == [9.0] * 20


def test_a_total_at_the_end_is_no_second_series() -> None:
    assert outcome(["train: 9 examples/s", "train: 8 examples/s", "test: 30 examples/s"]) == [9, 8, None]


def test_a_function_reads_what_nothing_else_does() -> None:
    assert outcome(["a 3", "b"], parse=lambda line: float(line[2:]) if line[0] == "a" else None) == [3.0, None]


@pytest.mark.parametrize(("line", "said"), [("x", "raised ValueError"), ("3", "returned '3'")])
def test_a_function_that_fails_is_shown_with_the_line(line: str, said: str) -> None:
    def parse(text: str) -> float:
        return float(text) and text  # type: ignore[return-value]

    with pytest.raises(Unreadable, match=said):
        outcome([line], parse=parse)


afters = st.sampled_from(["", " 12 ms", ", loss: 2", ")"])
separators = st.sampled_from(["", ",", "'", "_", "\u00a0", "\u202f"])
befores = st.sampled_from(
    ["", "step 12 ", "step 120 ", "Epoch 1/10 ", "12:30:45 ", "loss: 0.5 ", "[12] ", "speed=", "INFO: ", "it 3, "]
)


@given(
    st.integers(0, 10**12), st.integers(0, 99), separators, befores, st.sampled_from(["", " 12 ms", ", loss: 2", ")"])
)
def test_what_is_written_is_read(whole: int, cents: int, separator: str, before: str, after: str) -> None:
    """For every separator, order and decoration that the docs claim."""
    number = f"{whole:,}.{cents:02}".replace(",", separator)
    value = whole + cents / 100
    for line in (f"{before}{number} examples/s{after}", f"{before}examples/sec: {number}{after}"):
        found = read(line)
        assert found is not None
        assert found.value == pytest.approx(value, abs=1e-6)


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


def test_a_step_line_of_tf_cnn_benchmarks_is_a_mean_since_the_first_step() -> None:
    line = "[1,0]<stdout>:10\timages/sec: 50.0 +/- 0.1 (jitter = 0.2)\t7.5\t0.1"
    assert read(line, unit="images/s") == Reading(Kind.MEAN_RATE, 50.0, step=10, loss=7.5)


def test_a_step_line_of_tf_cnn_benchmarks_is_read_in_the_commands_unit_only() -> None:
    assert read("10\timages/sec: 50.0 +/- 0.1 (jitter = 0.2)\t7.5") is None


KERAS = "\x1b[1m120/500\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━━━\x1b[0m \x1b[1m12s\x1b[0m 31ms/step - loss: 0.5000"


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (KERAS, 120),
        (KERAS.replace("12s", "1:12:00"), 120),
        ("    7/Unknown \x1b[1m3s\x1b[0m 850us/step - loss: 0.5", 7),
        ("Epoch 1/5", None),
        ("copied 3/4 files, 2 left", None),
    ],
)
def test_a_progress_line_of_keras_is_a_counter(line: str, step: int | None) -> None:
    (clean,) = LineSplitter().feed(line.encode() + b"\n")
    found = Reader(PLAIN).read(clean)
    assert (found and (found.kind, found.value, found.loss)) == (step and (Kind.STEP, step, 0.5))


def test_keras_lines_of_whole_epochs_count_on() -> None:
    reader = Reader(PLAIN)
    found = [reader.read(f"500/500 - {n}s - 31ms/step - loss: 0.3") for n in range(3)]
    assert [reading and reading.value for reading in found] == [500, 1000, 1500]


def steps(*lines: str, examples_per_step: int | None = 32) -> list[float | None]:
    reader = Reader(command(examples_per_step=examples_per_step))
    found = [reader.read(line) for line in lines]
    return [reading and reading.value for reading in found]


def test_keras_lines_of_evaluate_and_predict_are_left_out() -> None:
    lines = ["Epoch 1/2", "4/500 ━━ 3ms/step", "500/500 ━━ 3ms/step", "9/20 ━━ 1ms/step", "2/Unknown 9s 1ms/step"]
    assert steps(*lines, "Epoch 2/2", "3/500 ━━ 3ms/step") == [None, 4, 500, None, None, None, 3]


def test_a_bar_without_an_epoch_before_it_is_no_training_where_epochs_are_named() -> None:
    lines = ["Epoch 1/2", "4/500 ━━ 3ms/step", "500/500 ━━ 3ms/step", "1/500 ━━ 1ms/step", "500/500 ━━ 1ms/step"]
    assert steps(*lines, "Epoch 2/2", "3/500 ━━ 3ms/step") == [None, 4, 500, None, None, None, 3]


def test_an_evaluation_of_one_line_is_no_epoch_where_epochs_are_named() -> None:
    line = "500/500 - 1s - 3ms/step - loss: 0.3"
    assert steps("Epoch 1/2", line, line, "Epoch 2/2", line) == [None, 500, None, None, 1000]


def test_a_data_set_of_unknown_length_has_one_from_the_second_epoch_on() -> None:
    lines = ["Epoch 1/2", "4/Unknown 3s 3ms/step", "9/20 ━━ 1ms/step", "Epoch 2/2", "3/500 ━━ 3ms/step"]
    assert steps(*lines, "7/Unknown 3s 3ms/step") == [None, 4, None, None, 3, None]


def test_an_epoch_of_which_only_the_last_line_is_printed_counts_on() -> None:
    epoch = ["Epoch 1/9", "1/1 ━━ 0s 31ms/step", "1/1 ━━ 0s 31ms/step - loss: 0.5"]
    assert steps(*epoch * 3) == [None, 1, 1, None, 2, 2, None, 3, 3]


def test_epochs_that_begin_anew_do_not_count_on() -> None:
    epoch = ["Epoch 1/9", "1/2 ━━ 0s 31ms/step", "2/2 ━━ 0s 31ms/step"]
    assert steps(*epoch * 2) == [None, 1, 2, None, 1, 2]


def bar(title: str, step: int, total: int | str) -> str:
    return f"{title}{'' if total == '?' else ' 45%|##   |'} {step}/{total} [00:12<00:15,  3.61it/s]"


def test_bars_of_evaluation_and_of_other_work_are_left_out() -> None:
    others = [
        "Sanity Checking: 0it [00:00, ?it/s]",
        bar("train: Scanning labels", 4, 20),
        bar("Grouping texts in chunks of 1024:", 4, 20),
        bar("Class  Images  Instances  Box(P", 4, 20),
    ]
    lines = [*others, "Training: 0it [00:00, ?it/s]", bar("Epoch 1", 3, 100), *(bar("", n, 20) for n in range(3))]
    assert steps(*lines, bar("Epoch 1", 4, 100)) == [None] * 5 + [3] + [None] * 3 + [4]


def test_a_bar_of_unknown_length_is_a_counter() -> None:
    assert steps(bar("Epoch 0:", 45, "?")) == [45]


def test_ultralytics_bar_is_a_counter_and_its_validation_is_left_out() -> None:
    lines = ["  1/3  2.15G  1.186  640: 12% ━╸────────── 1/8 4.0it/s 0.3s<1.8s", "9/12 20it/s 0.5s"]
    assert steps(lines[0], f"  Class  Images  Instances  Box(P: 75% ━━━━━━━━━─── {lines[1]}") == [1, None]


def test_a_second_bar_that_advances_more_than_the_first_is_refused() -> None:
    with pytest.raises(Unreadable, match=r"two progress bars advance: 'Outer: .* and 'Iteration"):
        steps(bar("Outer:", 0, 20), *(bar("Iteration:", n, 100) for n in range(1, 20)))


def test_a_bar_of_evaluation_that_is_longer_than_what_was_trained_before_it_is_left_out() -> None:
    lines = [*(bar("", n, 30) for n in range(1, 11)), *(bar("", n, 100) for n in range(1, 101))]
    assert steps(*lines) == [*map(float, range(1, 11)), *[None] * 100]


def test_a_bar_of_work_before_training_is_not_taken_for_training_in_silence() -> None:
    with pytest.raises(Unreadable, match="two progress bars advance"):
        steps(*(bar("", n, 20) for n in range(1, 21)), *(bar("", n, 1000) for n in range(1, 100)))


def test_epochs_of_another_length_are_left_out() -> None:
    lines = [bar(f"Epoch {total}:", n, total) for total in (100, 103) for n in range(1, total)]
    assert steps(*lines) == [*map(float, range(1, 100)), *[None] * 102]


def test_what_a_training_or_its_file_is_called_is_no_other_work() -> None:
    assert steps(bar("Training (packing=True):", 1, 9), bar("Training (packing=True):", 2, 9)) == [1, 2]
    assert steps("/home/me/test/train.py: 1it [00:12,  3.61it/s]") == [1]


def test_a_bar_that_is_drawn_under_another_name_before_its_first_step_is_read() -> None:
    """As Lightning before 2.6 does."""
    lines = [bar("Training:", 0, "?"), bar("Training:", 0, 18), bar("Epoch 0:", 0, 18)]
    assert steps(*lines, *(bar("Epoch 0:", n, 18) for n in range(1, 6))) == [None, 0, 0, 1, 2, 3, 4, 5]


def test_the_percentage_of_a_bar_is_no_step() -> None:
    lines = [f"Steps: {n // 10}%|#  | {n}/1000 [00:12<00:15,  3.61it/s]" for n in range(100, 160)]
    assert steps(*lines) == [float(n) for n in range(100, 160)]


MEGATRON = "iteration 20/ 1000 | elapsed time per iteration (ms): 500.0 | global batch size: 8 | lm loss: 2.3E+00 |"


@pytest.mark.parametrize(
    ("how", "reading"),
    [
        ({"unit": "samples/s"}, Reading(Kind.RATE, 16.0, loss=2.3)),
        ({"unit": "samples/s", "examples_per_step": 8}, Reading(Kind.SECONDS, 0.5, loss=2.3)),
        ({"unit": "tokens/s", "examples_per_step": 8192}, Reading(Kind.SECONDS, 0.5, loss=2.3)),
        ({"unit": "tokens/s"}, None),
        ({"unit": "steps/s"}, Reading(Kind.SECONDS, 0.5, loss=2.3)),
    ],
    ids=str,
)
def test_the_batch_that_megatron_prints_counts_samples(how: dict[str, object], reading: Reading | None) -> None:
    assert read(MEGATRON, **how) == reading


def test_a_programs_own_rate_is_read_after_a_line_of_keras_whose_steps_nobody_sized() -> None:
    lines = ["1/500 ━━ 3ms/step", "12 examples/s", "2/500 ━━ 3ms/step", "13 examples/s"]
    assert steps(*lines, examples_per_step=None) == [None, 12, None, 13]


def test_no_unfinished_line_is_read_where_a_field_or_a_pattern_is_given() -> None:
    for how in ({"field": "rate"}, {"pattern": "(?P<rate>x)"}):
        reader = Reader(command(examples_per_step=1, **how))
        assert reader.read_unfinished("120/500 ━━ 12s 31ms/step") is None


def test_keras_line_counts_before_it_is_ended_and_other_formats_do_not() -> None:
    assert Reader(PLAIN).read_unfinished("120/500 ━━ 12s 31ms/step - lo") == Reading(Kind.STEP, 120)
    assert Reader(PLAIN).read_unfinished("12 examples/s") is None
    assert Reader(PLAIN).read_unfinished("500/500 - 15s - 31ms/step") is None


def test_a_bar_counts_before_the_next_one_is_drawn_over_it() -> None:
    assert Reader(PLAIN).read_unfinished(bar("", 5, 100)) == Reading(Kind.STEP, 5)
    assert Reader(PLAIN).read_unfinished(bar("", 5, 100).partition(" [")[0]) is None
    assert Reader(PLAIN).read_unfinished(bar("", 5, 100).replace("5/100", "1.5k/100k")) is None


def test_a_bar_that_names_its_step_does_not_repeat_it() -> None:
    reader = Reader(PLAIN)
    for step in range(20):
        line = bar(f"step {step}", step, 100)
        assert reader.read_unfinished(line) == reader.read(line) == Reading(Kind.STEP, step)


def test_the_format_that_is_recognised_first_stays() -> None:
    reader = Reader(PLAIN)
    lines = ["12 examples/s", "120/500 ━━ 12s 31ms/step", "10\timages/sec: 5 +/- 1 (jitter = 0)", "13 examples/s"]
    assert [found and found.value for found in map(reader.read, lines)] == [12, None, None, 13]


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


IMPOSSIBLE: list[dict[str, Any]] = [
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
            command(**how)
        texts[str(how)] = refused.value
    same_texts("refused_commands", texts)


def test_steps_of_whatever_are_counted_without_saying_what_they_hold() -> None:
    assert command(unit="steps/s", pattern="(?P<step>.)").counted_per_step == 1


NOTHING_READ: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no rate": ({}, ["disk 12 MB/s"]),
    "no rate, in a terminal": ({"terminal": True}, ["a"]),
    "a rate that is not plain": ({}, ["1,5 examples/s"]),
    "steps": ({}, ["120/500 ━━ 12s 31ms/step"]),
    "no match": ({"pattern": "(?P<rate>x)"}, ["a"]),
    "no JSON": ({"field": "rate"}, ["a"]),
    "other fields": ({"field": "rate"}, ['{"speed": 1}', '{"loss": 2}']),
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
    {"pattern": r"(?P<rate>\S+)"},
    {"pattern": r"(?P<seconds>[\d.e+-]+)", "examples_per_step": 1},
    {"unit": "steps/s"},
    {"unit": "images/s"},
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
            reader.read_unfinished(line)
    assert reader.nothing_read()


@given(st.floats(min_value=1e-6, max_value=1e15, allow_nan=False), st.sampled_from(["", "step 3: ", "rate="]))
def test_a_printed_rate_reads_as_the_same_number(rate: float, before: str) -> None:
    assert read(f"{before}{rate!r} examples/s") == Reading(Kind.RATE, rate)
    assert read(f"{before}examples/s: {rate!r}") == Reading(Kind.RATE, rate)
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
    assert len(splitter.unfinished) == MOST_OF_A_LINE
    assert [len(line) for line in splitter.feed(b"x" * 2**20 + b"\ny\n")] == [MOST_OF_A_LINE, 1]


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
