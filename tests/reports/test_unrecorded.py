"""The paragraph about tests without a recorded baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import UnrecordedTests
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.baselines import unrecorded
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import baseline, measurement, throughput

FIRST = UnrecordedTests(
    tests=3,
    judged=0,
    disturbances=(),
    within_runs=0.012,
    between_runs=None,
    detectable=0.07,
    detectable_recorded=0.05,
)
COMMAND = "pytest perf_tests --update-baselines"


SERVER = Workload(model="resnet50", batch_size=64, variable_update="parameter_server")
DISTURBANCES = (DisturbanceKind.OTHER_PROCESSES, DisturbanceKind.STEAL, DisturbanceKind.STEAL)


def said(found: UnrecordedTests, *measurements: Measurement) -> list[Line]:
    return unrecorded(found, measurements, baselines="baselines/", command=COMMAND, seconds=130.0)


def published(rate: float, document: float, topology: str = "1x1", **more: Any) -> Measurement:
    row = baseline(document, machine="dgx1-p100")
    return measurement(throughput(rate), topology=topology, document=row, **more)


SAID = {
    "a first session": said(FIRST),
    "a later session": said(replace(FIRST, judged=2, between_runs=0.023)),
    "too noisy to record": said(replace(FIRST, detectable_recorded=0.67, too_noisy_to_record=True)),
    "disturbed, most by steal time": said(
        replace(FIRST, disturbances=DISTURBANCES, within_runs=None, detectable=None, detectable_recorded=None)
    ),
    "a published figure": said(FIRST, published(657.0, 219.0)),
    "ratios": said(
        FIRST,
        published(600.0, 200.0),
        published(1080.0, 380.0, "1x2"),
        published(540.0, 190.0, workload=SERVER),
    ),
}


def test_what_a_session_says_of_tests_without_a_baseline(same_texts: SameTexts) -> None:
    same_texts("unrecorded", SAID)
