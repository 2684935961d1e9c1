"""The documents' ratios: which one a measured ratio is compared with."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.features.comparing.ratios import published_ratio

EIGHT, ONE = Key("resnet50-b64-replicated-device", "1x8"), Key("resnet50-b64-replicated-device", "1x1")


def row(machine: str, key: Key, reference: float, **more: Any) -> Baseline:
    given = {"provenance": Provenance.PUBLISHED, "source": f"{machine}.md, row 1", "gpu": "Tesla K80"} | more
    return Baseline(machine=machine, key=key, reference=reference, **given)


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
