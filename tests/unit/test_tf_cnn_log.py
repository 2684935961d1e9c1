"""Logs of tf_cnn_benchmarks: which lines count, the run that is made of them, and what is refused."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores.tf_cnn_log import parse, read

LOGS = Path(__file__).parents[1] / "data" / "logs"
AZURE = {int(path.stem.removeprefix("azure-test")): path.read_text() for path in LOGS.glob("azure-test*.log")}
SHORT = "1\timages/sec: 50.0 +/- 0.0 (jitter = 0.0)\t7.5\n10\timages/sec: 40.0 +/- 0.1 (jitter = 0.2)\t7.4\n"
TOTAL = "total images/sec: 39.90\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SHORT.replace("\t", "       "), id="spaces for tabs"),
        pytest.param("Step\tImg/sec\ttotal_loss\n" + SHORT, id="a header"),
        pytest.param(SHORT.replace("\n", "\r\n"), id="Windows line ends"),
        pytest.param(SHORT.replace("\n", "\nnvidia-smi: 98 % | 10 images\n") + "Done warm up\n", id="other programs"),
        pytest.param(SHORT.replace("\n", "\t0.001\t0.006\n"), id="accuracy columns"),
        pytest.param(SHORT.replace("\n", "\t1539673200\thost-a\n"), id="a wrapper's fields"),
        pytest.param(
            SHORT.replace("1\t", "[1,0]<stdout>:1\t", 1).replace("10\t", "2018-10-16T12:00:00Z 10\t"), id="labels"
        ),
    ],
)
def test_lines_are_read_whatever_surrounds_them(text: str) -> None:
    windows = (Window(10, pytest.approx(10 * 64 / 39.9), 7.4),)
    assert parse(text + TOTAL, "a.log", 64) == Run(windows, 64, stated_examples_per_sec=39.9, log="a.log")


@pytest.mark.parametrize("test", range(1, 8))
def test_a_real_logs_run_has_its_steps_and_the_workers_median_total(test: int) -> None:
    printed = [float(text) for text in re.findall(r"total images/sec: (\S+)", AZURE[test])]
    run = parse(AZURE[test], "a.log", 64)
    (window,) = run.windows
    assert run.stated_examples_per_sec == median(printed)
    assert (window.steps, 100 * 64 / window.seconds) == (100, pytest.approx(median(printed)))


@pytest.mark.parametrize(
    ("text", "loss"),
    [(SHORT, 7.4), (SHORT.replace("7.5", "nan"), math.nan), (SHORT.replace("\t7.5", "").replace("\t7.4", ""), None)],
    ids=["the last", "NaN before the last", "none"],
)
def test_a_run_has_the_last_loss_or_one_that_is_no_number(text: str, loss: float | None) -> None:
    (window,) = parse(text + TOTAL, "a.log", 64).windows
    assert window.loss == (loss if loss is None else pytest.approx(loss, nan_ok=True))


def test_a_log_of_totals_alone_is_one_step() -> None:
    (window,) = parse(TOTAL, "a.log", 64).windows
    assert (window.steps, window.seconds) == (1, pytest.approx(64 / 39.9))


@pytest.mark.parametrize(
    ("text", "place", "fact"),
    [
        pytest.param("hello\nworld\n", "a.log: ", "which tf_cnn_benchmarks prints last", id="prose"),
        pytest.param(SHORT, "a.log: ", "no line 'total images/sec:", id="cut off"),
        pytest.param(SHORT + "total images/sec: 0.00\n", "a.log, line 3: ", "not a throughput", id="zero"),
        pytest.param(SHORT + "total images/sec: nan\n", "a.log, line 3: ", "not a throughput", id="nan"),
        pytest.param(SHORT + "total images/sec: -4\n", "a.log, line 3: ", "not a throughput", id="negative"),
        pytest.param(SHORT + "total images/sec:\n", "a.log, line 3: ", "not a throughput", id="nothing"),
        pytest.param(SHORT * 2 + TOTAL * 2, "a.log: ", "several runs", id="two runs"),
        pytest.param(SHORT + "total images/sec: 159.6\n", "a.log: ", "some workers", id="one worker of four"),
    ],
)
def test_garbage_is_refused_with_its_place(text: str, place: str, fact: str) -> None:
    with pytest.raises(DocumentError) as error:
        parse(text, "a.log", 64)
    assert str(error.value).startswith(place)
    assert fact in str(error.value)


def test_a_log_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none\.log can't be read: No such file"):
        read(tmp_path / "none.log", 64)


def test_bytes_that_are_no_text_do_not_hide_a_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\xff\xfe progress\n" + (SHORT + TOTAL).encode())
    assert read(tmp_path / "a.log", 64).stated_examples_per_sec == 39.9


_words = st.sampled_from(
    ["0", "-1", "nan", "inf", "1e9", "99999999999999999999", "\t", "\n", "images/sec:", "total images/sec: ", "\u0663"]
)


@settings(max_examples=150)
@given(st.sampled_from(sorted(AZURE)), st.data())
def test_no_mutation_of_a_real_log_makes_the_parser_crash(test: int, data: st.DataObject) -> None:
    text = AZURE[test]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(_words | st.text(max_size=5)) + text[at + data.draw(st.integers(0, 80)) :]
    with suppress(DocumentError):
        (window,) = parse(text, "a.log", 64).windows
        assert 0 < window.seconds < math.inf
