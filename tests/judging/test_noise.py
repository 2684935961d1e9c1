from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.verdict import Noise
from pytest_tfperf.judging.noise import ASSUMED_BETWEEN_RUNS, noise_of, with_assumption, without_slow_runs
from tests.helpers.measurements import KEY, baseline

deviations = st.floats(0.002, 0.5)


def rows(*known: tuple[float | None, int]) -> list[Baseline]:
    """Rows of one machine by deviation and runs; most tests look at the first."""
    keys = [Key(KEY.workload, f"1x{i}") for i in range(1, len(known) + 1)]
    return [
        baseline(key=key, between_runs=deviation, runs=runs) for key, (deviation, runs) in zip(keys, known, strict=True)
    ]


def noise_of_first(*known: tuple[float | None, int]) -> Noise:
    machine = rows(*known)
    return noise_of(machine[0], machine)


def limma(variances: Sequence[float], dfs: Sequence[int]) -> tuple[float, float]:
    """fitFDist of Bioconductor's limma, for a finite prior: its degrees of freedom and its variance."""
    e = [math.log(v) - digamma(d / 2) + math.log(d / 2) for v, d in zip(variances, dfs, strict=True)]
    mean = sum(e) / len(e)
    evar = sum((x - mean) ** 2 for x in e) / (len(e) - 1) - sum(polygamma(1, d / 2) for d in dfs) / len(dfs)
    d0 = 2 * brentq(lambda x: polygamma(1, x) - evar, 1e-3, 1e3)
    return float(d0), float(math.exp(mean + digamma(d0 / 2) - math.log(d0 / 2)))


UNEQUAL = [(0.004, 5), (0.012, 5), (0.02, 8), (0.03, 5), (0.15, 6)]


def test_where_nothing_was_measured_the_dgx1_documents_twin_columns_are_assumed() -> None:
    assert noise_of_first((None, 1), (None, 1)) == Noise(
        between_runs=ASSUMED_BETWEEN_RUNS, degrees_of_freedom=math.inf, rows=0
    )
    assert pytest.approx(0.0127, abs=5e-5) == ASSUMED_BETWEEN_RUNS


def test_rows_that_do_not_know_theirs_do_not_count() -> None:
    assert noise_of_first((0.013, 5), (None, 5), (0.9, 1)) == noise_of_first((0.013, 5))


def test_a_row_that_does_not_know_its_own_borrows_the_machines_only_one() -> None:
    assert noise_of_first((None, 1), (0.013, 5)) == Noise(
        between_runs=pytest.approx(0.013), degrees_of_freedom=4, rows=1
    )


@pytest.mark.parametrize("between_runs", [0.03, 0.07, 0.5])
def test_a_row_that_does_not_know_its_own_keeps_a_gate_where_the_others_differ_much(between_runs: float) -> None:
    noise = noise_of_first((None, 1), (0.001, 5), (between_runs, 5))
    assert noise.degrees_of_freedom >= 8
    assert 0.001 < noise.between_runs < between_runs


def test_a_documents_row_borrows_the_machines() -> None:
    published = baseline(
        machine="dgx1-p100", key=Key(KEY.workload, "9x9"), between_runs=None, runs=1, provenance=Provenance.PUBLISHED
    )
    assert noise_of(published, rows((0.01, 5), (0.01, 5))).between_runs == pytest.approx(0.01)


def test_the_noise_is_moderated_as_limma_does() -> None:
    d0, s0 = limma([s**2 for s, _ in UNEQUAL], [n - 1 for _, n in UNEQUAL])
    borrowed, own = noise_of_first((None, 1), *UNEQUAL), noise_of_first(*UNEQUAL)
    between_runs, runs = UNEQUAL[0]
    expected = with_assumption(s0, d0)
    assert borrowed.degrees_of_freedom == pytest.approx(expected.degrees_of_freedom, rel=1e-6)
    assert borrowed.between_runs == pytest.approx(expected.between_runs, rel=1e-6)
    pooled = (d0 * s0 + (runs - 1) * between_runs**2) / (d0 + runs - 1)
    assert (own.degrees_of_freedom, own.between_runs**2) == pytest.approx((d0 + runs - 1, pooled), rel=1e-6)


def test_rows_that_differ_by_chance_alone_share_one_variance_known_by_all_runs() -> None:
    pooled = (4 * 0.01**2 + 8 * 0.011**2 + 4 * 0.012**2) / 16
    found = noise_of_first((0.01, 5), (0.011, 9), (0.012, 5))
    assert (found.between_runs, found.degrees_of_freedom) == (pytest.approx(math.sqrt(pooled)), 16)


# limma::eBayes caps df.total by the pooled degrees of freedom: a prior that is nearly certain of itself was learnt from
# these rows and no others.
@given(st.lists(st.tuples(deviations, st.integers(2, 12)), min_size=1, max_size=8))
def test_nothing_is_known_better_than_by_all_runs_of_the_machine(known: list[tuple[float, int]]) -> None:
    assert 0 < noise_of_first(*known).degrees_of_freedom <= sum(runs - 1 for _, runs in known)


def test_rows_that_barely_differ_more_than_by_chance_are_no_certainty() -> None:
    # One variance 6.05 times the other leaves an excess over trigamma(2) of about 1e-9 and a prior of 1e9 degrees.
    def excess(ratio: float) -> float:
        return math.log(ratio) ** 2 / 2 - float(polygamma(1, 2))

    ratio = brentq(lambda r: excess(r) - 1e-9, 2, 9)
    assert noise_of_first((0.01, 5), (0.01 * math.sqrt(ratio), 5)).degrees_of_freedom == pytest.approx(8)


@given(st.lists(deviations, min_size=2, max_size=8), st.integers(2, 12))
def test_pooling_never_drives_rows_of_equally_many_runs_further_apart(known: list[float], runs: int) -> None:
    machine = rows(*((deviation, runs) for deviation in known))
    pooled = [noise_of(row, machine).between_runs for row in machine]
    assert max(pooled) / min(pooled) <= max(known) / min(known) * (1 + 1e-9)


def test_equal_readings_are_no_proof_of_a_noiseless_machine() -> None:
    assert noise_of_first((0.0, 5)).between_runs == pytest.approx(0.001)


@given(st.lists(st.tuples(deviations, st.integers(2, 9)), min_size=1, max_size=6), st.floats(1, 10))
def test_a_machine_that_is_noisier_by_a_factor_has_a_deviation_larger_by_it(
    known: list[tuple[float, int]], factor: float
) -> None:
    noisier = noise_of_first(*((s * factor, runs) for s, runs in known))
    assert noisier.between_runs == pytest.approx(noise_of_first(*known).between_runs * factor, rel=1e-4)


# Slow runs. The figures are ten runs of resnet20 on a shared machine of two cores, in the order they were taken.

SLOW_RUNS = [984.1, 818.6, 969.7, 972.5, 629.6, 961.7, 1005.1, 1012.8, 821.9, 995.8]


def logs(rates: list[float]) -> list[float]:
    return [math.log(rate) for rate in rates]


def test_slow_runs_are_left_out() -> None:
    assert without_slow_runs(logs(SLOW_RUNS)) == logs([984.1, 969.7, 972.5, 961.7, 1005.1, 1012.8, 995.8])


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param([1000.0, 1001.0, 1002.0, 800.0, 801.0], id="slow is as usual as fast"),
        pytest.param([1000.0, 1000.0, 1000.0, 1000.0, 960.0], id="a little slow"),
        pytest.param([1000.0, 1000.0, 1000.0, 1000.0, 1200.0], id="a fast run"),
    ],
)
def test_all_other_runs_stay(rates: list[float]) -> None:
    assert without_slow_runs(logs(rates)) == logs(rates)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12))
def test_most_runs_stay(log_rates: list[float]) -> None:
    assert len(without_slow_runs(log_rates)) >= 2 / 3 * len(log_rates)
