"""Which tests run again, what their calls find then, and what of it the history keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.bench.rerun_queue import RerunQueue
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome, Want, Wants
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import TEST, WORKLOAD, interleaved, measurement, verdict

SIDE = WORKLOAD, "1x8"


def in_doubt() -> Measurement:
    return measurement(verdict=verdict(Outcome.INCONCLUSIVE, -0.1, wants=Wants(Want.RUNS, 3)))


def settled() -> Measurement:
    return measurement(verdict=verdict(Outcome.PASS))


def queue_with(*results: Measurement, history: History | None = None) -> RerunQueue:
    queue = RerunQueue(history)
    queue.begin(TEST)
    for index, result in enumerate(results):
        queue.keep(TEST, index, result)
    return queue


def test_a_test_with_a_call_that_wants_runs_is_not_decided() -> None:
    assert not queue_with(settled(), in_doubt()).is_decided(TEST)


def test_a_test_whose_calls_are_decided_is_decided() -> None:
    assert queue_with(settled(), settled()).is_decided(TEST)


def test_a_deferred_test_finds_what_each_call_measured() -> None:
    first, second = settled(), in_doubt()
    queue = queue_with(first, second)
    queue.defer(TEST)
    queue.begin(TEST)
    assert [queue.earlier(TEST, index, "box", SIDE) for index in (0, 1, 2)] == [first, second, None]


def test_a_test_that_was_not_deferred_starts_from_nothing() -> None:
    queue = queue_with(settled())
    queue.begin(TEST)
    assert queue.earlier(TEST, 0, "box", SIDE) is None


def test_a_test_that_makes_other_calls_is_refused_with_both_named() -> None:
    queue = queue_with(in_doubt())
    queue.defer(TEST)
    queue.begin(TEST)
    with pytest.raises(
        TfperfError, match=r"call 1 .* measured .* on 1x8 of box .* asks for .* against .* now"
    ) as caught:
        queue.earlier(TEST, 0, "box", SIDE, SIDE)
    assert "the same calls each time" in str(caught.value)


def test_a_rerun_that_makes_fewer_calls_is_refused() -> None:
    queue = queue_with(settled(), in_doubt())
    queue.defer(TEST)
    queue.begin(TEST)
    with pytest.raises(TfperfError, match="made 2 calls when it ran first, and 1 now"):
        queue.require_all_calls(TEST, 1)


def test_a_comparison_is_found_again() -> None:
    queue, done = RerunQueue(None), interleaved()
    queue.begin(TEST)
    queue.keep(TEST, 0, done)
    assert queue.earlier(TEST, 0, "box", SIDE, SIDE) is done


def test_the_history_keeps_the_latest_result_of_a_call_only(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    queue = queue_with(in_doubt(), history=history)
    queue.keep(TEST, 0, settled())
    assert [row["outcome"] for row in history.rows()] == ["PASS"]


def test_a_history_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    queue = queue_with(settled(), history=History(tmp_path / "file" / "history.sqlite"))
    assert "the history can't be used" in queue.history_fault
    assert list(queue.results) == [settled()]


def test_a_result_that_could_not_be_written_leaves_no_stale_row_later(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    queue = queue_with(in_doubt(), history=history)
    (tmp_path / "history.sqlite").rename(tmp_path / "away")
    (tmp_path / "history.sqlite").mkdir()
    queue.keep(TEST, 0, in_doubt())
    (tmp_path / "history.sqlite").rmdir()
    (tmp_path / "away").rename(tmp_path / "history.sqlite")
    queue.keep(TEST, 0, settled())
    assert [row["outcome"] for row in history.rows()] == ["PASS"]
