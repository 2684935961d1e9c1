"""`--tfperf-smoke`: one window of each test, nothing judged."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from inner import Finished, Project

from pytest_tfperf.core.baseline import Key


@pytest.fixture(scope="module")
def smoke(shared: Project) -> Finished:
    shared.write(
        "test_it.py",
        """
        import pytest
        from pytest_tfperf import Workload

        @pytest.mark.cpu
        @pytest.mark.parametrize("batch_size", [1, 2])
        def test_it(throughput, gpu_topology, batch_size):
            measured = throughput.check(Workload(model="nets:tiny", batch_size=batch_size), on=gpu_topology.take(1))
            assert measured.windows == 1

        @pytest.mark.cpu
        def test_ratio(throughput, gpu_topology):
            one, two = Workload(model="nets:tiny", batch_size=1), Workload(model="nets:tiny", batch_size=2)
            throughput.check_ratio(one, over=two, on=gpu_topology.take(1))

        @pytest.mark.cpu
        def test_comparison(throughput, gpu_topology):
            workload = Workload(model="nets:tiny", batch_size=1)
            throughput.compare(workload, workload, on=gpu_topology.take(1), tolerance=0.3)

        @pytest.mark.cpu
        def test_broken(throughput, gpu_topology):
            throughput.check(Workload(model="nets:raising", batch_size=1), on=gpu_topology.take(1))

        @pytest.mark.cpu
        def test_too_large(throughput, gpu_topology):
            throughput.check(Workload(model="nets:out_of_memory", batch_size=64), on=gpu_topology.take(1))
        """,
    )
    shared.baseline("nets:tiny-b1-replicated-device", reference=1e12)
    figures = {"nets:tiny-b1-replicated-device": 1e12, "nets:tiny-b2-replicated-device": 1.0}
    shared.publish("paper", {Key(workload, "1x1"): value for workload, value in figures.items()})
    return shared.run("--tfperf-smoke")


def test_one_window_is_measured_and_nothing_judged(smoke: Finished) -> None:
    assert smoke.kinds == {
        "test_it[1]": "passed",
        "test_it[2]": "passed",
        "test_ratio": "passed",
        "test_comparison": "passed",
        "test_broken": "error",
        "test_too_large": "error",
    }


def test_a_smoke_run_says_that_nothing_is_judged(smoke: Finished) -> None:
    assert "tfperf: smoke: one window of each test, nothing judged" in smoke.text


def test_the_table_calls_a_smoke_run_measured(smoke: Finished) -> None:
    assert "box: 4 measured in " in smoke.text


def test_a_smoke_run_compares_one_pair(smoke: Finished) -> None:
    assert "1 compared in" in smoke.text


def test_a_smoke_run_finds_what_would_break_tonight(smoke: Finished) -> None:
    assert "the layers do not fit" in smoke.cases["test_broken"].text


def test_a_smoke_run_looks_for_no_batch_that_fits(smoke: Finished) -> None:
    assert "without --tfperf-smoke the largest that fits is sought" in smoke.cases["test_too_large"].text


def test_a_smoke_run_leaves_no_record(smoke: Finished, shared: Project) -> None:
    """One window would tell tomorrow's estimate and next month's reader a throughput that was never measured."""
    with closing(sqlite3.connect(shared.folder / ".tfperf" / "history.sqlite")) as database:
        counts = [database.execute(f"select count(*) from {table}").fetchone() for table in ("records", "comparisons")]
    assert counts == [(0,), (0,)]
