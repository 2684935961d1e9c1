"""The documents' ratios: which one a measured ratio is compared with."""

from __future__ import annotations

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.judging.published_ratios import published_ratio

EIGHT, ONE = Key("resnet50-b64-replicated-device", "1x8"), Key("resnet50-b64-replicated-device", "1x1")


def row(machine: str, key: Key, reference: float, provenance: Provenance = Provenance.PUBLISHED) -> Baseline:
    return Baseline(machine=machine, key=key, reference=reference, provenance=provenance)


def test_the_lowest_ratio_of_several_machines_counts() -> None:
    rows = [row("a", EIGHT, 700), row("a", ONE, 100), row("b", EIGHT, 60), row("b", ONE, 10), row("c", ONE, 1)]
    assert published_ratio(rows, EIGHT, ONE).value == 6


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row("a", EIGHT, 700), row("b", ONE, 100)],
        [row("a", EIGHT, 700, Provenance.MEASURED), row("a", ONE, 100, Provenance.MEASURED)],
    ],
    ids=["no rows", "two machines", "measured rows"],
)
def test_only_two_published_figures_of_one_machine_make_a_ratio(rows: list[Baseline]) -> None:
    with pytest.raises(BaselineError, match=r"no document gives both .* on 1x8 and .* on 1x1.*throughput\.compare"):
        published_ratio(rows, EIGHT, ONE)
