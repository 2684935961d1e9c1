"""`--tfperf-smoke`: one window of each test, nothing judged, nothing kept."""

from __future__ import annotations

import pytest

from pytest_tfperf.core.baseline import Key
from tests.helpers.inner import NOT_MEASURED, Finished, Project


@pytest.fixture(scope="module")
def smoke(played: Project) -> Finished:
    """With pytest-benchmark switched off, which changes nothing."""
    played.tests(
        """
        @pytest.mark.parametrize("batch_size", [1, 2])
        def test_check(throughput, on, batch_size):
            assert throughput.check(tiny(batch_size), on=on).windows == 1

        def test_ratio(throughput, on):
            throughput.compare(tiny(2), tiny(1), on=on, at_least="published")

        def test_any_ratio(throughput, on):
            throughput.compare(tiny(2), tiny(1), on=on, at_least="published", tolerance=(None, 0.1))

        def test_no_ratio(throughput, on):
            throughput.compare(tiny(2), tiny(1), on=on, at_least=-1)

        def test_comparison(throughput, on):
            throughput.compare(tiny(), tiny(), on=on, tolerance=0.3)

        def test_broken(throughput, on):
            throughput.check(tiny(model="nets:raising"), on=on)
        """
    )
    played.baseline("nets:tiny-b1-replicated-device", value=1e12)
    figures = {"nets:tiny-b1-replicated-device": 1e12, "nets:tiny-b2-replicated-device": 1.0}
    played.publish("paper", {Key(workload, "1x1"): value for workload, value in figures.items()})
    return played.run("--tfperf-smoke", "--benchmark-disable")


def test_one_window_is_measured_and_nothing_judged(smoke: Finished) -> None:
    measured = ["test_check[1]", "test_check[2]", "test_ratio", "test_any_ratio", "test_comparison"]
    broken = dict.fromkeys(["test_broken", "test_no_ratio"], "error")
    assert (smoke.kinds, smoke.status) == (dict.fromkeys(measured, "passed") | broken, NOT_MEASURED), smoke.text


@pytest.mark.parametrize(
    "line", ["tfperf: smoke run: one window of each test, no verdicts", "box: 2 measured in *", "box: 3 compared in *"]
)
def test_a_smoke_run_says(smoke: Finished, line: str) -> None:
    pytest.LineMatcher(smoke.text.splitlines()).fnmatch_lines([line])


def test_a_smoke_run_finds_what_would_break(smoke: Finished) -> None:
    assert "the layers do not fit" in smoke.cases["test_broken"].text
    assert "at_least=-1" in smoke.cases["test_no_ratio"].text


def test_a_smoke_run_leaves_no_history(smoke: Finished, played: Project) -> None:
    """One window would give later estimates and readers a throughput that was never measured."""
    assert list(played.history.measurements()) == []
