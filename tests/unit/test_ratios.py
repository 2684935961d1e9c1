"""A document's ratio, and what a measured one that falls short is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.judging.published_ratios import PublishedRatio, published_ratio
from pytest_tfperf.reports.ratios import message
from pytest_tfperf.stores.baselines import BaselineStore

ROOT = Path(__file__).parents[2]
EIGHT, ONE = Key("resnet50-b64-replicated-device", "1x8"), Key("resnet50-b64-replicated-device", "1x1")


def published(machine: str, key: Key, reference: float, provenance: Provenance = Provenance.PUBLISHED) -> Baseline:
    return Baseline(machine=machine, key=key, reference=reference, provenance=provenance, source=f"{machine}.md")


def store(folder: Path, *rows: Baseline) -> BaselineStore:
    made = BaselineStore(folder, published=None)
    for row in rows:
        made.update(row.machine, {row.key: row})
    return made


def test_the_dgx1s_scaling_is_the_documents(tmp_path: Path) -> None:
    found = published_ratio(BaselineStore(tmp_path, published=ROOT / "baselines"), EIGHT, ONE)
    assert found.value == pytest.approx(1580.58 / 225.73)


def test_the_lowest_of_several_machines_holds(tmp_path: Path) -> None:
    rows = [published("a", EIGHT, 700), published("a", ONE, 100), published("b", EIGHT, 60), published("b", ONE, 10)]
    assert published_ratio(store(tmp_path, *rows), EIGHT, ONE).value == 6


def test_figures_of_different_machines_make_no_ratio(tmp_path: Path) -> None:
    rows = [published("a", EIGHT, 700), published("b", ONE, 100)]
    with pytest.raises(BaselineError, match=r"no document gives both .* on 1x8 and .* on 1x1.*throughput\.compare"):
        published_ratio(store(tmp_path, *rows), EIGHT, ONE)


def test_measured_rows_make_no_ratio(tmp_path: Path) -> None:
    rows = [published("a", key, 100, Provenance.MEASURED) for key in (EIGHT, ONE)]
    with pytest.raises(BaselineError):
        published_ratio(store(tmp_path, *rows), EIGHT, ONE)


def test_a_ratio_that_falls_short_reads_as_a_regression_does() -> None:
    ratio = PublishedRatio(published("dgx1-p100", EIGHT, 1612), published("dgx1-p100", ONE, 228))
    pairs = [(6000.0, 1000.0), (5900.0, 1000.0), (6100.0, 1000.0)]
    assert message(pairs, ratio, ratio.value * 0.9, "pytest 'perf_tests/t.py::test_a[8]'").splitlines() == [
        "resnet50-b64-replicated-device on 1x8 over resnet50-b64-replicated-device on 1x1: 6.000, "
        "15.1 % below the documents' 7.070",
        "  measured    6,000 / 1,000 = 6.000  5,900 / 1,000 = 5.900  6,100 / 1,000 = 6.100",
        "  least       6.363    (7.070, tolerance 10 %)",
        "  document    1,612 / 228.0 on dgx1-p100: dgx1-p100.md; over dgx1-p100.md",
        "  rerun       pytest 'perf_tests/t.py::test_a[8]'",
    ]
