"""Logs of tf_cnn_benchmarks: which lines count, the windows that are computed from them, and what is refused."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores.tf_cnn_log import Step, parse, read

LOGS = Path(__file__).parents[1] / "data" / "logs"
AZURE = {int(path.stem.removeprefix("azure-test")): path.read_text() for path in LOGS.glob("azure-test*.log")}
SHORT = "1\timages/sec: 50.0 +/- 0.0 (jitter = 0.0)\t7.5\n10\timages/sec: 40.0 +/- 0.1 (jitter = 0.2)\t7.4\n"
TOTAL = "total images/sec: 39.90\n"


def step_line(step: int, images_per_sec: float, loss: float) -> str:
    return f"{step}\timages/sec: {images_per_sec:.1f} +/- 0.0 (jitter = 0.0)\t{loss:.3f}"


def log_of(*lines: str, total: float) -> str:
    return "\n".join([*lines, f"total images/sec: {total:.2f}", ""])


def steps(text: str) -> list[tuple[int, float, float | None]]:
    return [(step.number, step.images_per_sec, step.loss) for step in parse(text, "a.log").steps]


def speeds(text: str, images_per_step: int = 64) -> list[float]:
    """Images per second of each window."""
    run = parse(text, "a.log").run(images_per_step)
    return [window.steps * images_per_step / window.seconds for window in run.windows]


# Step lines and totals


def test_a_step_line_is_read_with_its_place() -> None:
    assert parse(SHORT + TOTAL, "a.log").steps[1] == Step(10, 40.0, 7.4, line=2)


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
    assert steps(text + TOTAL) == steps(SHORT + TOTAL) == [(1, 50.0, 7.5), (10, 40.0, 7.4)]


def test_a_line_may_end_before_the_loss() -> None:
    assert steps("1\timages/sec: 40.0 +/- 0.0 (jitter = 0.0)\n" + TOTAL) == [(1, 40.0, None)]


def test_a_loss_of_nan_is_kept() -> None:
    run = parse(SHORT.replace("7.4", "nan") + TOTAL, "a.log").run(64)
    assert math.isnan(run.windows[-1].loss or 0.0)


def test_interleaved_footers_give_one_total_each() -> None:
    assert parse(AZURE[4], "a.log").totals == (209.86, 209.86, 209.87, 209.86)


@pytest.mark.parametrize(("test", "workers"), [(1, 1), (2, 2), (3, 2), (4, 4), (5, 2), (6, 4), (7, 4)])
def test_a_real_log_is_read_whole(test: int, workers: int) -> None:
    log = parse(AZURE[test], "a.log")
    assert (log.workers, len(log.steps)) == (workers, AZURE[test].count("jitter"))


# The run


@pytest.mark.parametrize("test", range(1, 8))
def test_a_real_logs_run_has_its_total_and_all_its_steps(test: int) -> None:
    log = parse(AZURE[test], "a.log")
    run = log.run(64 * log.workers)
    printed = [float(text) for text in re.findall(r"total images/sec: (\S+)", AZURE[test])]
    assert (run.stated_images_per_sec, run.log) == (median(printed), "a.log")  # totals are never added up
    assert sum(window.steps for window in run.windows) == 100
    seconds = sum(window.seconds for window in run.windows)
    assert 100 * run.images_per_step / seconds == pytest.approx(log.images_per_sec, rel=0.002)


@pytest.mark.parametrize("images_per_step", [1, 64, 256])
def test_windows_are_computed_from_the_averaged_speeds(images_per_step: int) -> None:
    # 10 steps at 40 on average, the first at 50: the nine others ran at 9 / (10/40 - 1/50).
    assert speeds(SHORT + TOTAL, images_per_step) == pytest.approx([50.0, 9 / (10 / 40 - 1 / 50)])


def test_the_slow_window_of_azures_test_4_is_found() -> None:
    assert min(speeds(AZURE[4], 4 * 64)) / 4 == pytest.approx(50.8, abs=0.05)


def test_a_window_has_the_median_loss_of_the_workers() -> None:
    workers = [step_line(1, 40, loss) for loss in (1.0, 2.0, 9.0)]
    (window,) = parse(log_of(*workers, total=120), "a.log").run(3).windows
    assert window.loss == 2.0


def test_windows_that_are_mostly_rounding_are_joined() -> None:
    # At 0.3 +/- 0.05 images/s the time of step 11 is known to some 6 s, and could even lie before that of step 10.
    text = log_of(step_line(10, 0.3, 1.0), step_line(11, 0.4, 1.0), total=0.35)
    assert [window.steps for window in parse(text, "a.log").run(1).windows] == [11]


def test_a_log_of_totals_alone_is_one_window() -> None:
    assert speeds(TOTAL) == pytest.approx([39.9])


# Garbage


@pytest.mark.parametrize(
    ("text", "place", "fact"),
    [
        pytest.param("", "a.log: ", "no line was printed by tf_cnn_benchmarks", id="empty"),
        pytest.param("hello\nworld\n", "a.log: ", "A step line reads", id="prose"),
        pytest.param(SHORT, "a.log, line 2: ", "without 'total images/sec:'", id="cut-off"),
        pytest.param(SHORT + "total images/sec: 0.00\n", "a.log, line 3: ", "not a throughput", id="zero"),
        pytest.param(SHORT + "total images/sec: nan\n", "a.log, line 3: ", "not a throughput", id="nan"),
        pytest.param(SHORT + "total images/sec: -4\n", "a.log, line 3: ", "not a throughput", id="negative"),
        pytest.param(SHORT + "total images/sec:\n", "a.log, line 3: ", "not a throughput", id="nothing"),
        pytest.param(SHORT + "20\timages/sec: 4\n" + TOTAL, "a.log, line 3: ", "a broken step line", id="broken"),
        pytest.param(SHORT.replace("40.0", "nan") + TOTAL, "a.log, line 2: ", "nan images/sec", id="nan-step"),
        pytest.param(SHORT.replace("40.0", "0.0") + TOTAL, "a.log, line 2: ", "it was rounded", id="zero-step"),
        pytest.param(SHORT * 2 + TOTAL * 2, "a.log, line 4: ", "several runs", id="two-runs"),
        pytest.param(SHORT + "total images/sec: 159.6\n", "a.log, line 2: ", "some workers", id="rank-0-alone"),
    ],
)
def test_garbage_is_refused_with_file_and_line(text: str, place: str, fact: str) -> None:
    with pytest.raises(DocumentError) as error:
        parse(text, "a.log")
    assert str(error.value).startswith(place)
    assert fact in str(error.value)


def test_a_log_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none\.log can't be read: No such file"):
        read(tmp_path / "none.log")


def test_bytes_that_are_no_text_do_not_hide_a_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\xff\xfe progress\n" + (SHORT + TOTAL).encode())
    assert read(tmp_path / "a.log").images_per_sec == 39.9


def check(text: str) -> None:
    """Either a clear error, or windows that take time."""
    with suppress(DocumentError):
        windows = parse(text, "a.log").run(64).windows
        assert all(window.seconds > 0 and math.isfinite(window.seconds) for window in windows)


@given(st.text() | st.text("0123456789 \t\n./+-()=:abcdefgijlmnorstu", max_size=300))
def test_no_text_makes_the_parser_crash(text: str) -> None:
    check(text)


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
    check(text)


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0.1, 1e4)), min_size=1, max_size=30), st.floats(0.1, 1e4))
def test_every_window_takes_time(points: list[tuple[int, float]], total: float) -> None:
    check(log_of(*(step_line(step, speed, 1.0) for step, speed in points), total=total))
