"""Tolerances that noise does not let a row keep."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import KEY, baseline

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import Noise, noise_of
from pytest_tfperf.judging.resolution import rows_too_tight, too_tight, without_spread
from pytest_tfperf.judging.thresholds import resolvable
from pytest_tfperf.reports import resolution as said

NOISY = Noise(0.03, 4.0, "this row's own runs")
QUIET = Noise(0.002, 4.0, "this row's own runs")


def row(batch: int = 64, **more: Any) -> Baseline:
    return baseline(key=Key(f"resnet50-b{batch}-replicated-device", KEY.topology), **more)


def keys(rows: list[Baseline], tolerance: float = 0.02, tests: int = 1) -> list[str]:
    return [found.key.workload for found in rows_too_tight(rows, Tolerance.of(tolerance), tests)]


def test_a_quiet_row_keeps_its_tolerance() -> None:
    assert too_tight(baseline(), QUIET, Tolerance.of(0.02), 1) is None


def test_a_noisy_row_does_not() -> None:
    found = too_tight(baseline(), NOISY, Tolerance.of(0.02), 1)
    assert found is not None
    assert found.tolerance == 0.02 < found.threshold < found.smallest_loss


def test_a_drop_without_bound_is_always_kept() -> None:
    assert too_tight(baseline(), NOISY, Tolerance(None, 0.02), 1) is None


def test_more_tests_make_a_tolerance_too_tight() -> None:
    noise = Noise(0.012, 30.0, "")
    assert too_tight(baseline(), noise, Tolerance.of(0.02), 1) is None
    assert too_tight(baseline(), noise, Tolerance.of(0.02), 500) is not None


@given(st.floats(0.001, 0.5), st.floats(0.001, 0.3), st.integers(1, 100))
def test_what_fails_is_never_less_than_the_tolerance(tolerance: float, spread: float, tests: int) -> None:
    threshold, loss = resolvable(baseline(), Tolerance.of(tolerance), Noise(spread, 9.0, ""), tests=tests)
    assert tolerance - 1e-9 <= threshold <= loss


def test_the_threshold_is_the_one_that_eight_runs_are_judged_by() -> None:
    from measurements import throughput

    eight = throughput(*[1000.0] * 8, runs=tuple(RunValue(6.9, 0.0001, 100) for _ in range(8)))
    verdict = judge(eight, baseline(), Tolerance(), NOISY, tests=7)
    assert resolvable(baseline(), Tolerance(), NOISY, tests=7)[0] == pytest.approx(verdict.threshold)


def test_a_rows_own_tolerance_is_told_from_the_sessions() -> None:
    rows = [row(1, spread=0.05, lower=-0.01), row(2, spread=0.05)]
    assert [found.own for found in rows_too_tight(rows, Tolerance(), 1)] == [True, False]


def test_a_row_that_accepts_enough_is_not_named() -> None:
    assert keys([row(1, spread=0.05), row(2, spread=0.05, lower=-0.5)]) == ["resnet50-b1-replicated-device"]


def test_a_documents_figure_is_not_named() -> None:
    assert keys([row(spread=0.2, provenance=Provenance.PUBLISHED)]) == []


@pytest.mark.parametrize(("more", "unknown"), [({}, 0), ({"spread": None}, 1), ({"runs": 1}, 1)])
def test_a_row_of_one_run_or_without_spread_is_unknown(more: dict[str, Any], unknown: int) -> None:
    assert len(without_spread([row(**more)])) == unknown


# What is said


def before(rows: list[Baseline], *, asked: bool = False) -> list[str]:
    unknown = without_spread(rows)
    noise = noise_of(unknown[0], rows) if unknown else None
    return said.before(list(rows_too_tight(rows, Tolerance(), 1)), unknown, noise, asked=asked)


def test_nothing_is_said_of_rows_that_keep_theirs() -> None:
    assert before([row(spread=0.002)], asked=True) == []


def test_the_default_that_nobody_chose_takes_one_line() -> None:
    (line,) = before([row(1, spread=0.05), row(2, spread=0.06), row(3, spread=0.04)])
    assert line.startswith("noise widens the default tolerance of 2 % on 3 baselines: losses are seen from ")


def test_losses_that_read_the_same_are_said_once() -> None:
    (line,) = before([row(1, spread=0.05), row(2, spread=0.05)])
    assert line.count("%") == 2  # the tolerance, and the loss


def test_a_tolerance_that_was_asked_for_is_told_row_by_row() -> None:
    lines = before([row(1, spread=0.05), row(2, spread=0.05)], asked=True)
    assert [line.partition(": a tolerance of 2 %")[0] for line in lines] == [
        "box.csv: resnet50-b1-replicated-device 1x8",
        "box.csv: resnet50-b2-replicated-device 1x8",
    ]


def test_a_sentence_has_row_tolerance_loss_and_next_step() -> None:
    found = too_tight(baseline(), NOISY, Tolerance.of(0.02), 1)
    assert found is not None
    assert said.sentence(found) == (
        "box.csv: resnet50-b64-replicated-device 1x8: a tolerance of 2 % is tighter than this row can resolve: runs "
        "differ by 3 % (this row's own runs), so drops fail from 5.6 % on, and losses are seen from 11.1 % on, 95 "
        "times in 100. Accept more, or record the row with more runs on a quieter machine"
    )


def test_rows_without_a_spread_say_what_is_assumed() -> None:
    *_, line = before([row(runs=1, spread=None)])
    assert line == (
        "box.csv: resnet50-b64-replicated-device 1x8: no spread between runs is known; 1.3 % is reckoned with "
        "(assumed, as the DGX-1 document's runs do). Measurement anew with --update-baselines"
    )
