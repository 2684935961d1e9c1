"""The commands that `tfperf read` proposes for lines that no known format reads."""

from __future__ import annotations

import contextlib
import io
import math
import shlex
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf import cli
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED
from pytest_tfperf.features.read.printed import Printed

STEP = 0.25  # seconds
BATCH = 32


def printed(form: Callable[[int, float, float], str], count: int = 40, *, per: int = 1) -> Printed:
    """A line for every `per` steps, made of the step, the seconds of a step, and the time."""
    now, pieces = 3.0, []
    for n in range(1, count + 1):
        seconds = STEP * (1 + 0.05 * math.sin(n * n))
        now += per * seconds
        pieces.append((now, f"{form(n * per, seconds, now)}\n".encode()))
    return Printed(pieces)


def read(output: Printed, *options: str) -> tuple[int, str]:
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(text):
        patch.setattr(Printed, "by", lambda *_: output)
        status = cli.main(["read", *options, "--", "python", "train.py"])
    return status, text.getvalue()


def proposed(text: str) -> list[list[str]]:
    """The options of each command in a report."""
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("tfperf read ")]
    return [words[2 : words.index("--")] for words in commands]


def option(options: list[str], name: str) -> str:
    return options[options.index(name) + 1]


COUNTERS = {
    "Epoch: 3 ... (0.25s)": (printed(lambda k, s, _: f"Epoch: {k:03d} loss 0.5 ({s:.2f}s)"), "epochs"),
    "an epoch of a training and an evaluation": (
        printed(lambda k, *_: f"Epoch {k}: train loss 1, val loss 2"),
        "epochs",
    ),
    "a step between other words": (printed(lambda k, *_: f"Training Epoch: 1/3, step {k}/388 done"), "steps"),
    "the second of two counters": (printed(lambda k, *_: f"[0/25][{k}/1583] Loss_D: 1.5 D(G(z)): 0.5 / 0.01"), "steps"),
    "a dated line": (printed(lambda k, *_: f"[2026-11-27 12:00:{k:02d},123 INFO] (main.py 210): Iter {k:4d}"), "steps"),
    "absl": (printed(lambda k, *_: f"I1127 03:54:{k:02d}.123456 140 utils.py:1200] Train step {k}: 3.2"), "steps"),
    "a table with a header": (
        Printed(
            [
                (1.0, b"epoch    train_loss    dur\n-----  ------  ---\n"),
                *printed(lambda k, *_: f"  {k}  0.63  9").pieces,
            ]
        ),
        "epochs",
    ),
    "CSV": (printed(lambda k, s, _: f"{k},0.51,0.01,{s:.3f}", per=10), "steps"),
    "JSON without a rate": (printed(lambda k, _, now: f'{{"step": {k}, "loss": 0.5, "time": {now:.2f}}}'), "steps"),
    "a dictionary": (printed(lambda k, *_: f"{{'loss': 2.31, 'epoch': {k / 100:.2f}}}", per=10), "epochs"),
    "a time that is no counter": (printed(lambda k, _, now: f"elapsed {int(now)} s, update {k}"), "steps"),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_lines_with_a_counter_are_timed_by_the_proposed_pattern(name: str) -> None:
    output, unit = COUNTERS[name]
    status, text = read(output)
    assert status == EXIT_NOT_MEASURED
    options = proposed(text)[0]
    assert option(options, "--unit") == f"{unit}/s", text
    status, text = read(output, *options)
    rate = float(text.split("check would report ")[1].split()[0])
    per_second = 0.01 / STEP if "dictionary" in name else 1 / STEP
    assert (status, rate) == (EXIT_GREEN, pytest.approx(per_second, rel=0.03))


def test_steps_are_proposed_before_epochs() -> None:
    _, text = read(printed(lambda k, *_: f"step {k} loss 0.5" if k % 3 == 0 else f"epoch {k} loss 0.5"))
    assert [option(options, "--unit") for options in proposed(text)][:2] == ["steps/s", "epochs/s"], text


@pytest.mark.parametrize(("count", "is_enough"), [(2, False), (3, True)])
def test_three_lines_are_enough_for_a_proposal(count: int, is_enough: bool) -> None:
    assert bool(proposed(read(printed(lambda k, *_: f"step {k} loss 0.5", count))[1])) == is_enough


def test_a_missing_batch_size_is_named() -> None:
    _, text = read(printed(lambda k, *_: f"step {k} loss 0.5"))
    assert "To count what a step holds over all devices: --examples-per-step N" in text


def test_a_batch_size_that_is_given_is_kept() -> None:
    output = printed(lambda k, *_: f"step {k} loss 0.5")
    [options] = proposed(read(output, "--examples-per-step=32", "--unit=images/s")[1])
    assert (option(options, "--examples-per-step"), option(options, "--unit")) == ("32", "images/s")
    assert "128." in read(output, *options)[1]


def test_a_count_of_examples_needs_no_batch_size() -> None:
    [options] = proposed(read(printed(lambda k, *_: f"seen {k * BATCH} images, loss 0.5", per=10))[1])
    assert (option(options, "--unit"), option(options, "--examples-per-step")) == ("images/s", "1")


RATES = {
    "a rate beside its name": (printed(lambda _, s, __: f"loss 0.5, FPS: {BATCH / s:.1f}"), None),
    "a rate before its name": (printed(lambda _, s, __: f"loss 0.5 {BATCH / s:.1f} fps"), None),
    "a JSON field": (printed(lambda _, s, __: f'{{"ips": {BATCH / s:.2f}}}'), None),
    "an average since the start": (printed(lambda k, _, now: f"SPS: {int(BATCH * k / now)}", per=10), "average"),
    "an average in JSON": (printed(lambda k, _, now: f'{{"fps": {BATCH * k / now:.2f}}}', per=10), "average"),
}


@pytest.mark.parametrize("name", RATES)
def test_a_rate_is_read_as_it_is_meant(name: str) -> None:
    output, is_average = RATES[name]
    [options] = proposed(read(output)[1])
    assert ("--rate-is" in options) == (is_average is not None)
    rate = float(read(output, *options)[1].split("check would report ")[1].split()[0])
    assert rate == pytest.approx(BATCH / STEP, rel=0.03)


NOT_PROPOSED = {
    "the best rate so far": printed(lambda *_: "best fps 1200 loss 0.5"),
    "two rates": printed(lambda *_: "fps: 12.5 / 30.5, loss 0.5"),
    "a rate of evaluation": printed(lambda _, s, __: f"eval fps: {BATCH / s:.1f}"),
    "a counter of evaluation": printed(lambda k, *_: f"val step {k}/60"),
    "a rate that drifts, and is no average": printed(lambda k, *_: f"fps: {100 - k + k % 3}"),
    "a time since the start": printed(lambda _, __, now: f"loss 0.51 elapsed {now:.1f} s"),
    "a time of a part": printed(lambda _, s, __: f"loss 0.51 data {s / 10:.4f} s"),
    "bytes per second": printed(lambda _, s, __: f"throughput: {BATCH / s:.1f} MB/s"),
    "files that are loaded": printed(lambda k, *_: f"Loading shard {k}/60"),
    "two ranks": printed(lambda k, *_: f"[rank0] step {k} loss 0.5\n[rank1] step {k} loss 0.5"),
    "an average over steps that no line stands for": printed(lambda k, _, now: f"SPS: {int((9000 + 10 * k) / now)}"),
}


@pytest.mark.parametrize("name", NOT_PROPOSED)
def test_what_would_mislead_is_not_proposed(name: str) -> None:
    status, text = read(NOT_PROPOSED[name])
    assert (status, proposed(text)) == (EXIT_NOT_MEASURED, [])


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("{:.1f} samples/s", "samples/s"),
        ("Iter #3: {:.1f} img/sec", "img/s"),
        ("samples_per_second: {:.1f}", "samples/s"),
        ("Train throughput/samples_per_sec: {:.1f}", "samples/s"),
        ("loss 0.5 {:.2f} it/s", "steps/s"),
    ],
)
def test_a_rate_counts_what_its_unit_says(form: str, unit: str) -> None:
    output = printed(lambda _, s, __: form.format(BATCH / s))
    [options] = proposed(read(output)[1])
    assert option(options, "--unit") == unit
    assert read(output, *options)[0] == EXIT_GREEN


def test_a_rate_of_few_lines_may_be_an_average() -> None:
    assert "too few to tell an average" in read(printed(lambda _, s, __: f"FPS: {BATCH / s:.1f}", 6))[1]


def test_a_program_that_still_ran_may_need_more_time() -> None:
    text = read(Printed([(1.0, b"compiling\n")], is_whole=False))[1]
    assert "it still ran after 20 s, so maybe --seconds 120" in text


TEXTS = st.sampled_from(
    [
        *"[]()|/=:,.#$^*+?{}\\'\"-",
        " ",
        "  ",
        "\t",
        "step",
        "Epoch",
        "it",
        "loss",
        "fps",
        "time",
        "samples",
        "in",
        "s",
        "ms",
        "%",
    ]
)
NUMBERS: list[Callable[[int], str]] = [
    lambda n: str(n),
    lambda n: f"{n:4d}/500",
    lambda n: f"{n * 1000:,}",
    lambda n: f"{n / 7:.2f}",
    lambda n: f"{128 + n % 3}.5",
    lambda n: f"{STEP:.3f}",
    lambda n: "2026-11-27 12:00:01",
    lambda n: "nan",
]
PARTS = st.lists(st.one_of(TEXTS.map(lambda text: lambda _: text), st.sampled_from(NUMBERS)), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None)
@given(PARTS, st.lists(st.text("ab 1:/.", max_size=8), max_size=3), st.integers(3, 14))
def test_each_proposed_command_reads_the_output_it_was_proposed_for(
    parts: list[Callable[[int], str]], others: list[str], count: int
) -> None:
    lines = "\n".join(["", *others])
    output = printed(lambda k, *_: "".join(part(k) for part in parts) + lines, count)
    status, text = read(output)
    for options in proposed(text) if status == EXIT_NOT_MEASURED else []:
        assert read(output, *options)[0] == EXIT_GREEN, (text, options)
