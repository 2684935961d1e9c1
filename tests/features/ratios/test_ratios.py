"""Ratios: which of the documents' one is compared with, and what a ratio that falls short says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import BaselineError, ThroughputRegression, WorkloadError
from pytest_tfperf.features.ratios.ratios import (
    PublishedRatio,
    check_ratio,
    published_ratio,
    require_limit,
    require_ratio,
)
from tests.helpers.machines import linked, load
from tests.helpers.measurements import WORKLOAD, baseline

EIGHT, ONE = Key("resnet50-b64-replicated-device", "1x8"), Key("resnet50-b64-replicated-device", "1x1")


def row(machine: str, key: Key, value: float, **more: Any) -> Baseline:
    given = {"provenance": Provenance.PUBLISHED, "source": f"{machine}.md, row 1", "gpu": "Tesla K80"} | more
    return Baseline(machine=machine, key=key, value=value, **given)


def test_the_lowest_ratio_of_several_machines_counts() -> None:
    rows = [row("a", EIGHT, 700), row("a", ONE, 100), row("b", EIGHT, 60), row("b", ONE, 10), row("c", ONE, 1)]
    assert published_ratio(rows, EIGHT, ONE).value == 6


AZURE = {"source": "azure.md, row 1"}


def test_machines_of_one_document_with_the_same_gpu_serve_where_none_has_both_figures() -> None:
    rows = [row("nc12", EIGHT, 190, **AZURE), row("nc6", ONE, 100, source="azure.md, row 2")]
    assert published_ratio(rows, EIGHT, ONE).value == 1.9


def test_a_machine_that_has_both_figures_goes_before_pairs_of_machines() -> None:
    rows = [row("a", EIGHT, 700, **AZURE), row("a", ONE, 100, **AZURE), row("b", ONE, 350, **AZURE)]
    assert published_ratio(rows, EIGHT, ONE).value == 7


MEASURED = {"provenance": Provenance.MEASURED}


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row("a", EIGHT, 700), row("b", ONE, 100)],
        [row("a", EIGHT, 700, **AZURE), row("b", ONE, 100, **AZURE, gpu="Tesla P100")],
        [row("a", EIGHT, 700, **MEASURED), row("a", ONE, 100, **MEASURED)],
    ],
    ids=["no rows", "two documents", "two GPUs", "measured rows"],
)
def test_only_two_published_figures_of_one_document_and_gpu_make_a_ratio(rows: list[Baseline]) -> None:
    with pytest.raises(BaselineError, match=r"no document gives both .* on 1x8 and .* on 1x1.*throughput\.compare"):
        published_ratio(rows, EIGHT, ONE)


# Whom a ratio binds

OF_P100 = {"gpu": "Tesla P100-SXM2-16GB", "gpu_fp32_tflops": 10.6}
SEVEN = PublishedRatio(row("dgx1-p100", EIGHT, 700, **OF_P100), row("dgx1-p100", ONE, 100, **OF_P100))
P100, H200 = load("dgx1-p100").take(8), load("h200").take(1)


def eight_over_one(topology: Topology, ratio: float, published: PublishedRatio = SEVEN) -> tuple[float, str]:
    found = check_ratio(lambda _: (ratio, 1.0), published, Tolerance.of(0.1), "pytest t.py", topology)
    return found.value, found.warning


def test_a_ratio_that_a_gpu_like_the_documents_misses_fails_and_another_gpus_is_a_warning() -> None:
    with pytest.raises(ThroughputRegression):
        eight_over_one(P100, 5.0)
    value, warning = eight_over_one(H200, 5.0)
    assert (value, "5.000, below the 7.000 of dgx1-p100 (Tesla P100-SXM2-16GB). It is not req" in warning) == (
        5.0,
        True,
    )


@pytest.mark.parametrize("topology", [P100, H200], ids=["P100", "H200"])
def test_a_ratio_that_is_reached_says_nothing(topology: Topology) -> None:
    assert eight_over_one(topology, 6.9) == (6.9, "")


def of_clock(mhz: int) -> Topology:
    """A P100 with this clock; its own is 1,480 MHz."""
    return replace(P100, gpus=tuple(replace(gpu, max_sm_clock_mhz=mhz) for gpu in P100.gpus))


@pytest.mark.parametrize(
    ("topology", "binds"),
    [
        (P100, True),
        (of_clock(2200), True),
        (of_clock(2300), False),
        (of_clock(1000), True),
        (of_clock(900), False),
        (H200, False),
        (load("dgx1-p100").split().take(2), False),
        (load("no-gpu").on_cpu().take(2), False),
        (replace(P100, gpus=(replace(P100.gpus[0], cores=None),)), False),
    ],
    ids=["the same", "1.49 times", "1.55 times", "a 1.48th", "a 1.64th", "H200", "split", "CPUs", "unknown"],
)
def test_a_ratio_binds_whole_gpus_within_one_and_a_half_times_the_documents_rate(
    topology: Topology, binds: bool
) -> None:
    assert SEVEN.binds(topology) is binds


def test_a_ratio_of_a_document_without_gpus_binds_everyone() -> None:
    assert PublishedRatio(row("a", EIGHT, 700, gpu=""), row("a", ONE, 100, gpu="")).binds(
        load("no-gpu").on_cpu().take(1)
    )


def test_a_ratio_below_the_documents_reads_as_a_regression_does() -> None:
    eight = baseline(1612.0, machine="dgx1-p100", source="dgx1.md")
    one = baseline(228.0, machine="dgx1-p100", source="dgx1.md", key=Key(WORKLOAD.id, "1x1"))
    pairs = iter([(6000.0, 1000.0), (5900.0, 1000.0), (6100.0, 1000.0)] * 3)
    with pytest.raises(ThroughputRegression) as raised:
        check_ratio(
            lambda _: next(pairs), PublishedRatio(eight, one), Tolerance.of(0.1), "pytest t.py::test_a", linked(8, {})
        )
    lines = str(raised.value).splitlines()
    assert [lines[0], *lines[2:]] == [
        "resnet50-b64-replicated-device on 1x8 over resnet50-b64-replicated-device on 1x1: 5.999, "
        "15.1 % below the documents' 7.070",
        "  threshold   fails below 6.363    (7.070, tolerance 10 %)",
        "  document    1,612 / 228.0 on dgx1-p100: dgx1.md; over dgx1.md",
        "  rerun       pytest t.py::test_a",
    ]
    assert lines[1].startswith("  measured    6,000 / 1,000 = 6.000  5,900 / 1,000 = 5.900")


@pytest.mark.parametrize(
    ("ratios", "pairs", "warned"),
    [((7.5,), 2, False), ((6.9, 7.75), 20, False), ((7.4, 6.95), 20, True)],
    ids=["reached", "reached in the mean", "in doubt"],
)
def test_pairs_alternate_until_they_decide_and_a_doubt_is_a_warning(
    ratios: tuple[float, ...], pairs: int, warned: bool
) -> None:
    orders: list[bool] = []

    def measure(over_first: bool) -> tuple[float, float]:
        orders.append(over_first)
        return ratios[len(orders) % len(ratios)], 1.0

    found = require_ratio(measure, 7.2, EIGHT, ONE, "pytest t.py::test_a")
    assert orders == [bool(index % 2) for index in range(len(orders))]
    assert (len(orders) <= pairs, "again on a quieter machine" in found.warning) == (True, warned)


def test_a_ratio_below_a_limit_of_the_tests_own_names_the_limit() -> None:
    one, eight = Key(WORKLOAD.id, "1x1"), Key(WORKLOAD.id, "1x8")
    with pytest.raises(ThroughputRegression, match=r"6\.000, 16\.7 % below at_least=7\.2\n"):
        require_ratio(lambda _: (6000.0, 1000.0), 7.2, eight, one, "pytest t.py::test_a")


@pytest.mark.parametrize("at_least", [0, -1.0, math.nan, math.inf, True, "0.9"])
def test_a_limit_that_is_no_ratio_is_refused(at_least: object) -> None:
    with pytest.raises(WorkloadError, match="at_least="):
        require_limit(at_least)
