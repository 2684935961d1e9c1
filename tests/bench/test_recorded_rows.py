"""What is recorded can be read again; a row that could not is refused, and leaves the others recorded."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.bench.recording import BaselineRecorder
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineRefused
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.measurements import measurement, run_at, throughput

FIGURES = (
    Figure("peak_memory"),
    Figure("first_step"),
    Figure("loss"),
    Figure("lag", unit="s", absolute=1e3),
    Figure("reward", absolute=1e9),
)


def record(folder: Path, rates: list[float], values: dict[Figure, list[float]], **more: Any) -> set[str]:
    """The figures whose rows a new session reads after these runs were recorded, "" for the throughput."""
    runs = tuple(
        run_at(1000.0, figures={figure.name: of_runs[number] for figure, of_runs in values.items()})
        for number in range(len(rates))
    )
    asked = tuple(Verdict(figure=figure, value=of_runs[0]) for figure, of_runs in values.items())
    recorded = measurement(throughput(*rates), runs=runs, figures=asked, **more)
    try:
        BaselineRecorder(BaselineStore(folder, published=None)).record(recorded)
    finally:
        store = BaselineStore(folder, published=None)
        read = {key.figure for key in (*store.load("box"), *store.figures("box"))}
    return read


some_runs = st.integers(2, 7).flatmap(
    lambda count: st.tuples(
        st.lists(st.floats(1e-9, 1e30), min_size=count, max_size=count)
        | st.floats(1e-6, 1e21).map(lambda rate: [rate] * count),
        st.dictionaries(
            st.sampled_from(FIGURES), st.lists(st.floats(1e-30, 1e30), min_size=count, max_size=count), max_size=5
        ),
    )
)


@given(some_runs, st.dictionaries(st.sampled_from(["python", "variables"]), st.text(min_size=1, max_size=9)))
def test_whatever_is_recorded_is_read_again(
    runs: tuple[list[float], dict[Figure, list[float]]], environment: dict[str, str]
) -> None:
    with TemporaryDirectory() as folder, suppress(BaselineRefused):
        record(Path(folder), *runs, environment=environment)


STEADY = [1000.0, 1010.0, 990.0, 1005.0, 995.0]


@pytest.mark.parametrize(
    ("figure", "values", "says"),
    [
        (Figure("peak_memory", unit="MiB"), [1e9] * 5, "unit 'MiB': peak_memory is in bytes"),
        (Figure("reward", absolute=1.0), [1e22] * 5, "value 1e+22 is none that can be measured"),
        (Figure("input_wait"), [1.5] * 5, "value 1.5: input_wait is a share, from 0 to 1"),
    ],
    ids=lambda value: value.name if isinstance(value, Figure) else "",
)
def test_a_figure_whose_row_could_not_be_read_is_refused_and_the_throughput_recorded(
    figure: Figure, values: list[float], says: str, tmp_path: Path
) -> None:
    with pytest.raises(BaselineRefused, match=f"^resnet50-b64-replicated-device 1x8 {figure.name}: {re.escape(says)}"):
        record(tmp_path, STEADY, {figure: values})
    assert [*BaselineStore(tmp_path, published=None).load("box")]


def test_a_count_that_differs_between_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaselineRefused, match="compilations is a count, which should be the same in each run"):
        record(tmp_path, STEADY, {Figure("compilations"): [0.0, 0.0, 1.0, 0.0, 0.0]})


@pytest.mark.parametrize("figure", [Figure("compilations"), Figure("input_wait")], ids=["count", "share"])
def test_a_count_or_a_share_of_0_is_recorded(figure: Figure, tmp_path: Path) -> None:
    assert record(tmp_path, STEADY, {figure: [0.0] * 5}) == {"", figure.name}


def test_a_clock_that_is_wrong_is_said_where_a_row_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(BaselineRefused, match="date '1970-01-01': write the day of the measurement"):
        record(tmp_path, STEADY, {}, time="1970-01-01T00:00:07+00:00")


def test_a_recording_that_is_refused_whole_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(BaselineRefused):
        record(tmp_path, [1000.0, 500.0, 1500.0, 700.0, 1200.0], {})
    assert list(tmp_path.iterdir()) == []


def of_workload(batch: int, first_steps: list[float]) -> Measurement:
    runs = tuple(run_at(1000.0, figures={"first_step": seconds}) for seconds in first_steps)
    figures = (Verdict(figure=Figure("first_step"), value=first_steps[0]),)
    workload = Workload(model="resnet50", batch_size=batch)
    return measurement(throughput(*STEADY), runs=runs, figures=figures, workload=workload)


CALM, RESTLESS = [20.0, 21.0, 19.0, 20.5, 19.5], [20.0, 35.0, 12.0, 27.0, 15.0]


@pytest.mark.parametrize(("refused", "kept"), [(0, True), (1, True), (2, False)])
def test_where_many_rows_of_a_time_are_refused_as_noisy_none_is_kept(refused: int, kept: bool, tmp_path: Path) -> None:
    store = BaselineStore(tmp_path, published=None)
    recorder = BaselineRecorder(store)
    recorder.record(of_workload(1, [30.0, 30.0, 30.0, 30.0, 30.0]))
    recorder = BaselineRecorder(store)
    for batch in range(1, 6):
        with suppress(BaselineRefused):
            recorder.record(of_workload(batch, RESTLESS if batch > 5 - refused else CALM))
    lines = recorder.refuse_calm_by_luck()
    values = [row.value for row in store.figures("box").values()]
    assert values == ([20.0] * (5 - refused) if kept else [30.0])
    assert len(store.load("box")) == 5
    said = "first_step on box: 2 of 5 rows were refused as too noisy, so the other 3 are not kept"
    assert [line.startswith(said) for line in lines] == ([] if kept else [True])
