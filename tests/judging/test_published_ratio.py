"""Ratios of published figures: which of the documents' is required, and of whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.judging.target import PublishedRatio, published_ratio
from tests.helpers.machines import load

EIGHT, ONE = Key("resnet50-b64-replicated-device", "1x8"), Key("resnet50-b64-replicated-device", "1x1")


def row(machine: str, key: Key, value: float, **more: Any) -> Baseline:
    given = {"provenance": Provenance.PUBLISHED, "source": f"{machine}.md, row 1", "gpu": "Tesla K80"} | more
    return Baseline(machine=machine, key=key, value=value, **given)


def test_the_lowest_ratio_of_several_machines_counts() -> None:
    rows = [row("a", EIGHT, 700), row("a", ONE, 100), row("b", EIGHT, 60), row("b", ONE, 10), row("c", ONE, 1)]
    assert published_ratio(rows, ONE, EIGHT).value == 6


AZURE = {"source": "azure.md, row 1"}


def test_machines_of_one_document_with_the_same_gpu_serve_where_none_has_both_figures() -> None:
    rows = [row("nc12", EIGHT, 190, **AZURE), row("nc6", ONE, 100, source="azure.md, row 2")]
    assert published_ratio(rows, ONE, EIGHT).value == 1.9


def test_a_machine_that_has_both_figures_goes_before_pairs_of_machines() -> None:
    rows = [row("a", EIGHT, 700, **AZURE), row("a", ONE, 100, **AZURE), row("b", ONE, 350, **AZURE)]
    assert published_ratio(rows, ONE, EIGHT).value == 7


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row("a", EIGHT, 700), row("b", ONE, 100)],
        [row("a", EIGHT, 700, **AZURE), row("b", ONE, 100, **AZURE, gpu="Tesla P100")],
    ],
    ids=["no rows", "two documents", "two GPUs"],
)
def test_only_two_published_figures_of_one_document_and_gpu_make_a_ratio(rows: list[Baseline]) -> None:
    with pytest.raises(BaselineError, match=r"no document gives both .* on 1x8 and .* on 1x1.*at_least=3\.6"):
        published_ratio(rows, ONE, EIGHT)


# Whom a ratio binds

OF_P100 = {"gpu": "Tesla P100-SXM2-16GB", "gpu_fp32_tflops": 10.6}
SEVEN = PublishedRatio(row("dgx1-p100", ONE, 100, **OF_P100), row("dgx1-p100", EIGHT, 700, **OF_P100))
P100, H200 = load("dgx1-p100").take(8), load("h200").take(1)


def test_the_warning_of_another_gpu_names_the_documents_ratio_and_gpu() -> None:
    warning = SEVEN.is_not_required(5.0, H200)
    assert "5.000, below the 7.000 of dgx1-p100 (Tesla P100-SXM2-16GB). It is not required here" in warning


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
    assert PublishedRatio(row("a", ONE, 100, gpu=""), row("a", EIGHT, 700, gpu="")).binds(
        load("no-gpu").on_cpu().take(1)
    )
