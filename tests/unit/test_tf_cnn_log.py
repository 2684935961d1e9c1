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
from pytest_tfperf.stores import tf_cnn_log
from pytest_tfperf.stores.tf_cnn_log import Step, footer, header, line, parse, read

LOGS = Path(__file__).parents[1] / "data" / "logs"
AZURE = {int(path.stem.removeprefix("azure-test")): path.read_text() for path in LOGS.glob("azure-test*.log")}
SHORT = "1\timages/sec: 50.0 +/- 0.0 (jitter = 0.0)\t7.5\n10\timages/sec: 40.0 +/- 0.1 (jitter = 0.2)\t7.4\n"
TOTAL = "total images/sec: 39.90\n"


def steps(text: str) -> tuple[Step, ...]:
    return parse(text, "a.log").steps


def shown_windows(text: str, images_per_step: int = 64) -> list[float]:
    """Images per second of each window."""
    attempt = parse(text, "a.log").attempt(images_per_step)
    return [window.steps * images_per_step / window.seconds for window in attempt.windows]


# Step lines and totals


def test_a_line_with_tabs_is_read_whole() -> None:
    assert steps(SHORT + TOTAL)[1] == Step(10, 40.0, 0.1, 0.2, 7.4, line=2)


def test_spaces_say_the_same_as_tabs() -> None:
    assert steps(SHORT.replace("\t", "       ") + TOTAL) == steps(SHORT + TOTAL)


def test_a_header_is_not_needed() -> None:
    with_header = steps(f"{header()}\n{SHORT}{TOTAL}")
    assert [step.images_per_sec for step in with_header] == [step.images_per_sec for step in steps(SHORT + TOTAL)]


def test_windows_line_ends_are_accepted() -> None:
    assert steps((SHORT + TOTAL).replace("\n", "\r\n")) == steps(SHORT + TOTAL)


def test_lines_of_other_programs_are_passed_over() -> None:
    noisy = "WARNING: jitter = none\n" + SHORT.replace("\n", "\nnvidia-smi: 98 % | 10 images\n", 1) + "Done warm up\n"
    assert len(steps(noisy + TOTAL)) == 2


def test_accuracy_columns_are_read() -> None:
    text = line(1, 50.0, 0.0, 0.0, 7.5, top_1=0.001, top_5=0.006)
    (step,) = steps(f"{text}\n{TOTAL.replace('39', '49')}")
    assert (step.top_1, step.top_5, step.extra) == (0.001, 0.006, ())


def test_fields_that_a_wrapper_appends_are_kept_apart() -> None:
    (step,) = steps("1\timages/sec: 40.0 +/- 0.0 (jitter = 0.0)\t7.5\t1539673200\thost-a\n" + TOTAL)
    assert (step.loss, step.top_1, step.extra) == (7.5, None, ("1539673200", "host-a"))


def test_fields_after_the_accuracy_are_kept_apart() -> None:
    (step,) = steps(line(1, 40, 0, 0, 7.5, top_1=0.5, top_5=0.75) + "\t1539673200\n" + TOTAL)
    assert (step.top_5, step.extra) == (0.75, ("1539673200",))


def test_a_header_without_accuracy_makes_fractions_trailing_fields() -> None:
    (step,) = steps(f"{header()}\n" + line(1, 40, 0, 0, 7.5) + "\t0.500\t0.750\n" + TOTAL)
    assert (step.top_1, step.extra) == (None, ("0.500", "0.750"))


def test_a_launchers_label_before_the_step_is_passed_over() -> None:
    text = SHORT.replace("1\t", "[1,0]<stdout>:1\t", 1).replace("10\t", "2018-10-16T12:00:00Z 10\t")
    assert [step.number for step in steps(text + TOTAL)] == [1, 10]


def test_a_line_may_end_before_the_loss() -> None:
    (step,) = steps("1\timages/sec: 40.0 +/- 0.0 (jitter = 0.0)\n" + TOTAL)
    assert step.loss is None


def test_a_loss_of_nan_is_kept() -> None:
    attempt = parse(SHORT.replace("7.4", "nan") + TOTAL, "a.log").attempt(64)
    assert math.isnan(attempt.windows[-1].loss or 0.0)


def test_interleaved_footers_give_one_total_each() -> None:
    assert [total.images_per_sec for total in parse(AZURE[4], "a.log").totals] == [209.86, 209.86, 209.87, 209.86]


@pytest.mark.parametrize(("test", "workers"), [(1, 1), (2, 2), (3, 2), (4, 4), (5, 2), (6, 4), (7, 4)])
def test_each_worker_prints_the_first_step_once(test: int, workers: int) -> None:
    assert parse(AZURE[test], "a.log").workers == workers


@pytest.mark.parametrize("test", range(1, 8))
def test_no_line_of_a_real_log_is_missed(test: int) -> None:
    assert len(steps(AZURE[test])) == AZURE[test].count("jitter")


@pytest.mark.parametrize("test", range(1, 8))
def test_totals_are_never_added_up(test: int) -> None:
    attempt = parse(AZURE[test], "a.log").attempt(64)
    printed = [float(text) for text in re.findall(r"total images/sec: (\S+)", AZURE[test])]
    assert attempt.stated_images_per_sec == median(printed)


# Windows


def test_windows_are_recovered_from_the_cumulated_speeds() -> None:
    # 10 steps at 40 on the whole, the first at 50: the nine others ran at 9 / (10/40 - 1/50).
    assert shown_windows(SHORT + TOTAL) == pytest.approx([50.0, 9 / (10 / 40 - 1 / 50)])


def test_the_slow_window_of_azures_test_4_is_found() -> None:
    slowest = min(shown_windows(AZURE[4], 4 * 64))
    assert slowest / 4 == pytest.approx(50.8, abs=0.05)


@pytest.mark.parametrize("test", range(1, 8))
def test_windows_of_a_real_log_hold_all_its_steps(test: int) -> None:
    assert sum(window.steps for window in parse(AZURE[test], "a.log").attempt(64).windows) == 100


@pytest.mark.parametrize("test", range(1, 8))
def test_windows_of_a_real_log_agree_with_its_total(test: int) -> None:
    log = parse(AZURE[test], "a.log")
    attempt = log.attempt(64 * log.workers)
    seconds = sum(window.seconds for window in attempt.windows)
    assert 100 * attempt.images_per_step / seconds == pytest.approx(log.images_per_sec, rel=0.002)


@pytest.mark.parametrize("images_per_step", [1, 256])
def test_speeds_do_not_depend_on_the_batch_that_the_caller_states(images_per_step: int) -> None:
    assert shown_windows(SHORT + TOTAL, images_per_step) == pytest.approx(shown_windows(SHORT + TOTAL, 64))


def test_a_window_has_the_median_loss_of_the_workers() -> None:
    workers = [line(1, 40, 0, 0, loss) for loss in (1.0, 2.0, 9.0)]
    (window,) = parse("\n".join([*workers, footer(120)]), "a.log").attempt(3).windows
    assert window.loss == 2.0


def test_windows_that_are_mostly_rounding_are_joined() -> None:
    # At 0.3 +/- 0.05 images/s the time of step 11 is known to some 6 s, and could even lie before that of step 10.
    text = "\n".join([line(10, 0.3, 0, 0, 1.0), line(11, 0.4, 0, 0, 1.0), footer(0.35)])
    assert [window.steps for window in parse(text, "a.log").attempt(1).windows] == [11]


def test_a_log_of_totals_alone_is_one_window() -> None:
    attempt = parse(TOTAL, "a.log").attempt(64)
    assert [window.steps * 64 / window.seconds for window in attempt.windows] == pytest.approx([39.9])


def test_an_attempt_names_its_log() -> None:
    assert parse(SHORT + TOTAL, "a.log").attempt(64).log == "a.log"


# Garbage


@pytest.mark.parametrize(
    ("text", "place", "fact"),
    [
        pytest.param("", "a.log: ", "no line is one of tf_cnn_benchmarks'", id="empty"),
        pytest.param("hello\nworld\n", "a.log: ", "A step line reads", id="prose"),
        pytest.param(SHORT, "a.log, line 2: ", "without 'total images/sec:'", id="cut-off"),
        pytest.param(SHORT + "total images/sec: 0.00\n", "a.log, line 3: ", "no throughput", id="zero"),
        pytest.param(SHORT + "total images/sec: nan\n", "a.log, line 3: ", "no throughput", id="nan"),
        pytest.param(SHORT + "total images/sec: inf\n", "a.log, line 3: ", "no throughput", id="infinite"),
        pytest.param(SHORT + "total images/sec: -4\n", "a.log, line 3: ", "no throughput", id="negative"),
        pytest.param(SHORT + "total images/sec:\n", "a.log, line 3: ", "no throughput", id="nothing"),
        pytest.param(SHORT + "20\timages/sec: 4\n" + TOTAL, "a.log, line 3: ", "a broken step line", id="broken"),
        pytest.param(SHORT.replace("40.0", "nan") + TOTAL, "a.log, line 2: ", "nan images/sec", id="nan-step"),
        pytest.param(SHORT.replace("40.0", "0.0") + TOTAL, "a.log, line 2: ", "'very slow'", id="zero-step"),
        pytest.param(SHORT * 2 + TOTAL * 2, "a.log, line 6: ", "several runs", id="two-runs"),
        pytest.param(SHORT + "total images/sec: 159.6\n", "a.log, line 3: ", "only some workers", id="rank-0-alone"),
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


def _check(text: str) -> None:
    with suppress(DocumentError):
        windows = parse(text, "a.log").attempt(64).windows
        assert all(window.seconds > 0 and math.isfinite(window.seconds) for window in windows)


@settings(deadline=None)
@given(st.text() | st.text("0123456789 \t\n./+-()=:abcdefgijlmnorstu", max_size=300))
def test_no_text_makes_the_parser_crash(text: str) -> None:
    _check(text)


_words = st.sampled_from(
    ["0", "-1", "nan", "inf", "1e9", "99999999999999999999", "\t", "\n", "images/sec:", "total images/sec: ", "\u0663"]
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(AZURE)), st.data())
def test_no_mutation_of_a_real_log_makes_the_parser_crash(test: int, data: st.DataObject) -> None:
    text = AZURE[test]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(_words | st.text(max_size=5)) + text[at + data.draw(st.integers(0, 80)) :]
    _check(text)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0.1, 1e4)), min_size=1, max_size=30), st.floats(0.1, 1e4))
def test_every_recovered_window_takes_time(points: list[tuple[int, float]], total: float) -> None:
    _check("\n".join([*(line(step, speed, 0, 0, 1.0) for step, speed in points), footer(total)]))


# Writing


def test_a_line_is_written_as_tf_cnn_benchmarks_writes_it() -> None:
    assert line(10, 56.91, 0.1, 0.2, 7.848) == "10\timages/sec: 56.9 +/- 0.1 (jitter = 0.2)\t7.848"


def test_a_footer_is_written_as_tf_cnn_benchmarks_writes_it() -> None:
    assert footer(56.57) == f"{'-' * 64}\ntotal images/sec: 56.57\n{'-' * 64}"


def test_headers_are_written_as_tf_cnn_benchmarks_writes_them() -> None:
    assert [header(), header(accuracy=True)] == ["Step\tImg/sec\ttotal_loss", "Step\tImg/sec\ttotal_loss\ttop_1\ttop_5"]


@pytest.mark.parametrize("test", [5, 6, 7])
def test_a_real_log_is_written_back_byte_for_byte(test: int) -> None:
    written = [line(s.number, s.images_per_sec, s.uncertainty, s.jitter, s.loss) for s in steps(AZURE[test])]
    assert written == [text for text in AZURE[test].split("\n") if "jitter" in text]


_speeds = st.integers(1, 10**6).map(lambda tenths: tenths / 10)
_thousandths = st.integers(0, 1000).map(lambda n: n / 1000)
_steps = st.builds(
    Step,
    number=st.just(1),
    images_per_sec=_speeds,
    uncertainty=_speeds,
    jitter=_speeds,
    loss=st.integers(0, 10**6).map(lambda n: n / 1000),
)


@settings(deadline=None)
@given(st.lists(_steps, min_size=1, max_size=4), st.none() | st.tuples(_thousandths, _thousandths))
def test_what_is_written_is_read_back(written: list[Step], accuracy: tuple[float, float] | None) -> None:
    top_1, top_5 = accuracy or (None, None)
    lines = [
        line(s.number, s.images_per_sec, s.uncertainty, s.jitter, s.loss, top_1=top_1, top_5=top_5) for s in written
    ]
    total = round(median(step.images_per_sec for step in written) * len(written), 2)
    log = parse("\n".join([header(accuracy=accuracy is not None), *lines, footer(total)]), "a.log")
    expected = [
        Step(s.number, s.images_per_sec, s.uncertainty, s.jitter, s.loss, top_1, top_5, line=number)
        for number, s in enumerate(written, start=2)
    ]
    assert log == tf_cnn_log.Log("a.log", tuple(expected), (tf_cnn_log.Total(total, len(written) + 3),))
