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


def test_a_comparison_tells_its_ratio_the_required_ratio_and_where_each_side_ran() -> None:
    found = properties([interleaved(Outcome.PASS, ratio=3.7, a={"at_least": 3.6, "topology": "1x1"}, topology="1x4")])
    assert dict(found) == {
        "tfperf_outcome": "PASS",
        "tfperf_a": "resnet50-b64-replicated-device",
        "tfperf_a_topology": "1x1",
        "tfperf_b": "resnet50-b64-replicated-device",
        "tfperf_topology": "1x4",
        "tfperf_machine": "box",
        "tfperf_ratio": 3.7,
        "tfperf_required_ratio": 3.6,
    }


def test_no_change_is_a_zero_without_a_sign() -> None:
    found = dict(properties([measurement(verdict=verdict(Outcome.PASS, -0.0))]))
    assert str(found["tfperf_change"]) == "0.0"


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
