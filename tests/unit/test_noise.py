from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import KEY, baseline
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.judging.noise import PUBLISHED_SPREAD, Noise, noise_of, without_spells

spreads = st.floats(0.002, 0.5)


def rows(*known: tuple[float | None, int]) -> list[Baseline]:
    """Rows of one machine by spread and runs; the first is the one that is asked for in most tests."""
    keys = [Key(KEY.workload, f"1x{i}") for i in range(1, len(known) + 1)]
    return [baseline(key=key, spread=spread, runs=runs) for key, (spread, runs) in zip(keys, known, strict=True)]


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


def test_without_any_spread_it_is_what_the_dgx1_document_shows() -> None:
    assert noise_of_first((None, 1), (None, 1)) == Noise(
        PUBLISHED_SPREAD, math.inf, "assumed, as the DGX-1 document's runs do"
    )


def test_the_documents_two_runs_differ_by_its_spread_times_the_root_of_two() -> None:
    assert pytest.approx(0.0127, abs=5e-5) == PUBLISHED_SPREAD


def test_a_row_alone_keeps_its_own_spread() -> None:
    assert noise_of_first((0.013, 5)) == Noise(pytest.approx(0.013), 4, "this row's own runs")


def test_rows_without_a_spread_do_not_count() -> None:
    assert noise_of_first((0.013, 5), (None, 5), (0.9, 1)) == noise_of_first((0.013, 5))


def test_a_row_without_a_spread_borrows_the_machines_only_one() -> None:
    assert noise_of_first((None, 1), (0.013, 5)) == Noise(
        pytest.approx(0.013), 4, "the one row of this machine that has several runs"
    )


def test_a_documents_row_borrows_the_machines_spread() -> None:
    published = baseline(
        machine="dgx1-p100", key=Key(KEY.workload, "9x9"), spread=None, runs=1, provenance=Provenance.PUBLISHED
    )
    assert noise_of(published, rows((0.01, 5), (0.01, 5))).spread == pytest.approx(0.01)


def test_a_row_without_a_spread_borrows_the_prior() -> None:
    known = [(s, n) for s, n in UNEQUAL]
    d0, s0 = limma([s**2 for s, _ in known], [n - 1 for _, n in known])
    found = noise_of_first((None, 1), *UNEQUAL)
    assert (found.degrees_of_freedom, found.spread**2) == pytest.approx((d0, s0), rel=1e-6)


def test_an_own_spread_is_moderated_as_limma_does() -> None:
    d0, s0 = limma([s**2 for s, _ in UNEQUAL], [n - 1 for _, n in UNEQUAL])
    own_spread, runs = UNEQUAL[0]
    found = noise_of_first(*UNEQUAL)
    assert found.spread**2 == pytest.approx((d0 * s0 + (runs - 1) * own_spread**2) / (d0 + runs - 1), rel=1e-6)


def test_the_moderated_spread_is_known_by_the_priors_degrees_and_its_own() -> None:
    d0, _ = limma([s**2 for s, _ in UNEQUAL], [n - 1 for _, n in UNEQUAL])
    assert noise_of_first(*UNEQUAL).degrees_of_freedom == pytest.approx(d0 + UNEQUAL[0][1] - 1, rel=1e-6)


def test_rows_that_differ_by_chance_alone_share_one_variance() -> None:
    known = [(0.01, 5), (0.011, 9), (0.012, 5)]
    pooled = (4 * 0.01**2 + 8 * 0.011**2 + 4 * 0.012**2) / 16
    assert noise_of_first(*known).spread == pytest.approx(math.sqrt(pooled))


def test_a_shared_variance_is_known_by_all_runs() -> None:
    assert noise_of_first((0.01, 5), (0.011, 9), (0.012, 5)).degrees_of_freedom == 16


# limma::eBayes caps df.total by the pooled degrees of freedom: a prior that is nearly certain of itself was learnt from
# these rows and no others.
@given(st.lists(st.tuples(spreads, st.integers(2, 12)), min_size=1, max_size=8))
def test_nothing_is_known_better_than_by_all_runs_of_the_machine(known: list[tuple[float, int]]) -> None:
    assert 0 < noise_of_first(*known).degrees_of_freedom <= sum(runs - 1 for _, runs in known)


def test_rows_that_barely_differ_more_than_by_chance_are_no_certainty() -> None:
    # One variance 6.05 times the other leaves an excess over trigamma(2) of about 1e-9 and a prior of 1e9 degrees.
    def excess(ratio: float) -> float:
        return math.log(ratio) ** 2 / 2 - float(polygamma(1, 2))

    ratio = brentq(lambda r: excess(r) - 1e-9, 2, 9)
    assert noise_of_first((0.01, 5), (0.01 * math.sqrt(ratio), 5)).degrees_of_freedom == pytest.approx(8)


@given(st.lists(st.tuples(spreads, st.integers(2, 12)), min_size=2, max_size=8))
def test_pooling_never_drives_rows_further_apart(known: list[tuple[float, int]]) -> None:
    machine = rows(*known)
    pooled = [noise_of(row, machine).spread for row in machine]
    assert max(pooled) / min(pooled) <= max(s for s, _ in known) / min(s for s, _ in known) * (1 + 1e-9)


def test_the_quietest_row_is_drawn_up_towards_the_machine() -> None:
    assert noise_of_first((0.004, 5), (0.02, 5), (0.03, 5), (0.025, 5)).spread > 0.004


def test_the_loudest_row_is_drawn_down_towards_the_machine() -> None:
    assert noise_of_first((0.2, 5), (0.02, 5), (0.03, 5), (0.025, 5)).spread < 0.2


def test_a_row_with_more_runs_keeps_more_of_its_own() -> None:
    rest = [(0.02, 5), (0.03, 5), (0.002, 5)]
    assert noise_of_first((0.2, 30), *rest).spread > noise_of_first((0.2, 5), *rest).spread


def test_equal_readings_are_no_proof_of_silence() -> None:
    assert noise_of_first((0.0, 5)).spread == pytest.approx(0.001)


@given(st.lists(st.tuples(spreads, st.integers(2, 9)), min_size=1, max_size=6), st.randoms())
def test_the_order_of_rows_means_nothing(known: list[tuple[float, int]], shuffler: random.Random) -> None:
    machine = rows(*known)
    mixed = machine.copy()
    shuffler.shuffle(mixed)
    assert noise_of(machine[0], mixed).spread == pytest.approx(noise_of(machine[0], machine).spread)


@given(st.lists(st.tuples(spreads, st.integers(2, 9)), min_size=1, max_size=6), st.floats(1, 10))
def test_a_machine_that_is_louder_by_a_factor_has_a_spread_larger_by_it(
    known: list[tuple[float, int]], factor: float
) -> None:
    louder = noise_of_first(*((s * factor, runs) for s, runs in known))
    assert louder.spread == pytest.approx(noise_of_first(*known).spread * factor, rel=1e-4)


def test_the_prior_is_found_again_in_rows_that_were_drawn_from_it() -> None:
    draw = random.Random(2)

    def chi2(df: float) -> float:
        return draw.gammavariate(df / 2, 2)

    # True variances are 0.0004 * 10 / chi2(10); each row sees its own by five runs.
    known = [(math.sqrt(0.0004 * 10 / chi2(10) * chi2(4) / 4), 5) for _ in range(3000)]
    found = noise_of_first((None, 1), *known)
    assert (found.degrees_of_freedom, found.spread) == pytest.approx((10, 0.02), rel=0.15)


# Slow spells. The figures are ten runs of resnet20 on a shared machine of two cores, in the order they were taken.

SPELLS = [984.1, 818.6, 969.7, 972.5, 629.6, 961.7, 1005.1, 1012.8, 821.9, 995.8]


def logs(rates: list[float]) -> list[float]:
    return [math.log(rate) for rate in rates]


def test_runs_in_slow_spells_are_left_out() -> None:
    assert without_spells(logs(SPELLS)) == logs([984.1, 969.7, 972.5, 961.7, 1005.1, 1012.8, 995.8])


def test_where_slow_is_as_usual_as_fast_all_runs_stay() -> None:
    uneven = logs([1000.0, 1001.0, 1002.0, 800.0, 801.0])
    assert without_spells(uneven) == uneven


def test_a_run_that_is_a_little_slow_stays() -> None:
    steady = logs([1000.0, 1000.0, 1000.0, 1000.0, 960.0])
    assert without_spells(steady) == steady


def test_a_fast_run_is_no_spell() -> None:
    lucky = logs([1000.0, 1000.0, 1000.0, 1000.0, 1200.0])
    assert without_spells(lucky) == lucky


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12))
def test_most_runs_stay(log_rates: list[float]) -> None:
    assert len(without_spells(log_rates)) >= 2 / 3 * len(log_rates)
