"""The properties of a test case."""

from __future__ import annotations

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.features.ci.outputs import properties
from tests.helpers.measurements import KEY, baseline, interleaved, measurement, verdict


def test_a_judged_measurement_tells_its_figures() -> None:
    found = dict(properties([measurement(verdict=verdict(Outcome.REGRESSED, -0.13))]))
    assert found == {
        "tfperf_outcome": "REGRESSED",
        "tfperf_workload": "resnet50-b64-replicated-device",
        "tfperf_topology": "1x8",
        "tfperf_machine": "box",
        "tfperf_unit": "images/s",
        "tfperf_examples_per_sec": 1000.0,
        "tfperf_baseline": 1000.0,
        "tfperf_change": -0.13,
        "tfperf_threshold": -0.05,
    }


def test_the_second_call_of_a_test_is_numbered() -> None:
    names = [name for name, _ in properties([measurement(), measurement()])]
    assert names.count("tfperf_outcome") == names.count("tfperf_2_outcome") == 1


def test_an_invalid_result_has_no_throughput() -> None:
    assert "tfperf_examples_per_sec" not in dict(properties([measurement(verdict=verdict(Outcome.INVALID))]))


def test_no_text_has_a_password() -> None:
    assert dict(properties([measurement(machine="postgresql://ann:secret@db")]))["tfperf_machine"].endswith(
        "ann:***@db"
    )


def test_a_comparison_tells_its_ratio() -> None:
    assert dict(properties([interleaved()]))["tfperf_ratio"] == 0.9


def test_each_figure_is_told_by_its_name_its_change_as_a_fraction() -> None:
    own = Verdict(
        figure=Figure("outcome", field="x"),
        outcome=Outcome.REGRESSED,
        value=5.0,
        baseline=baseline(4.0, key=KEY._replace(figure="outcome")),
        change=1.0,
        confirmed_change=1.0,
    )
    before, after = (dict(properties([measurement(verdict=verdict(), figures=figures)])) for figures in ((), (own,)))
    assert after == before | {
        "tfperf_outcome": "REGRESSED",
        "tfperf_figure.outcome": 5.0,
        "tfperf_figure.outcome.outcome": "REGRESSED",
        "tfperf_figure.outcome.baseline": 4.0,
        "tfperf_figure.outcome.confirmed_change": 0.25,
    }
