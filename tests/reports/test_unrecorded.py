"""The paragraph about tests without a recorded baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from measurements import baseline, measurement, throughput

from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import UnrecordedTests
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.reports.unrecorded import unrecorded

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


def said(found: UnrecordedTests, *measurements: Measurement) -> list[str]:
    return unrecorded(found, measurements, baselines="baselines/", command=COMMAND, seconds=130.0)


def test_a_first_session_says_what_to_do() -> None:
    assert said(FIRST) == [
        "without a row in baselines/: 3 measured and not judged, because no earlier session here serves as a reference",
        "  noise       within a run 1.2 % (standard error); between runs shown after a later session",
        "  detectable  the next session warns of slowdowns from 7 %; with recorded baselines tests fail from 5 % "
        "(95 % power, median over tests)",
        "  record      pytest perf_tests --update-baselines    (about 2 min 10 s; then commit baselines/)",
    ]


def test_a_later_session_says_that_outcomes_only_warn() -> None:
    fact, noise, *_ = said(replace(FIRST, judged=2, between_runs=0.023))
    assert fact == (
        "without a row in baselines/: 1 measured and not judged, because no earlier session here serves as a "
        "reference; 2 judged against earlier sessions here (provisional), which warn and never fail"
    )
    assert noise.endswith("between runs 2.3 % (standard deviation)")


def test_a_machine_too_noisy_to_record_is_told_so_before() -> None:
    assert said(replace(FIRST, detectable_recorded=0.67, too_noisy_to_record=True))[2] == (
        "  detectable  the next session warns of slowdowns from 7 %; most runs differ too much for a baseline: free "
        "the machine of other work before you record (95 % power, median over tests)"
    )


def test_disturbed_runs_are_named_with_the_remedy_of_what_disturbed_most() -> None:
    disturbances = (DisturbanceKind.OTHER_PROCESSES, DisturbanceKind.STEAL, DisturbanceKind.STEAL)
    nothing = replace(FIRST, disturbances=disturbances, within_runs=None, detectable=None, detectable_recorded=None)
    assert said(nothing)[1:3] == [
        "  noise       within a run unknown (standard error); between runs shown after a later session",
        "  disturbed   3 of 3 (steal time, other processes), which are no reference for the next session: use a "
        "machine that is not shared, or accept steal time: -o tfperf_steal=1 (default 0.25)",
    ]


def published(rate: float, document: float, topology: str = "1x1", **more: Any) -> Measurement:
    row = baseline(document, machine="dgx1-p100")
    return measurement(throughput(rate), topology=topology, document=row, **more)


def documents(*measurements: Measurement) -> list[str]:
    lines = said(FIRST, *measurements)
    return [line.strip() for line in lines[2 : lines.index(next(one for one in lines if "detectable" in one))]]


def test_a_published_figure_is_set_beside_this_machines() -> None:
    assert documents(published(657.0, 219.0)) == [
        "documents   3.00 times the 1 published figure of dgx1-p100 for these workloads"
    ]


def test_ratios_stand_beside_the_documents() -> None:
    server = Workload(model="resnet50", batch_size=64, variable_update="parameter_server")
    found = documents(
        published(600.0, 200.0), published(1080.0, 380.0, "1x2"), published(540.0, 190.0, workload=server)
    )
    assert found == [
        "documents   2.84 to 3.00 times the 3 published figures of dgx1-p100 for these workloads",
        "resnet50-b64-replicated-device on 1x2 over 1x1: 1.80 here, 1.90 there",
        "resnet50-b64-parameter_server-device on 1x1 over resnet50-b64-replicated-device: 0.90 here, 0.95 there",
    ]
