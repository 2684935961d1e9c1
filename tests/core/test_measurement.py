"""The noun Measurement: what identifies it, its JSON, and what changed since a baseline."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.measurement import Measurement, changes_since
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import Bound, Breakdown, Input, StepProfile
from pytest_tfperf.core.run import Pair, Run, Window
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry
from pytest_tfperf.core.throughput import DivergedAt
from pytest_tfperf.core.verdict import Outcome, Reason, Rule, Want, Wants
from pytest_tfperf.errors import TfperfError
from tests.helpers.measurements import BUSY, KEY, baseline, interleaved, measurement, pair, run, throughput, verdict

texts = st.text(max_size=20)
numbers = st.floats(allow_nan=False)
maybe = st.none() | numbers
facts = st.dictionaries(texts, texts, max_size=3)
profiles = st.builds(StepProfile, input=st.sampled_from(Input), cores=st.none() | st.integers(1, 99))
gpus = st.builds(
    GpuTelemetry,
    uuid=texts,
    power_watts_mean=maybe,
    throttled_fractions=st.none() | st.dictionaries(texts, numbers, max_size=2),
    other_processes=st.none() | st.dictionaries(texts, numbers, max_size=2),
)
telemetries = st.builds(Telemetry, seconds=numbers, gpus=st.lists(gpus, max_size=2).map(tuple))
windows = st.lists(st.builds(Window, st.integers(), numbers, maybe), max_size=3).map(tuple)
runs = st.builds(
    Run,
    windows,
    st.integers(),
    warmup=windows,
    compile_seconds=maybe,
    environment=facts,
    disturbance=st.none() | st.just(BUSY),
    telemetry=st.none() | telemetries,
    step_profile=st.none() | profiles,
    fetches=st.booleans(),
)
baselines = st.builds(
    Baseline,
    machine=texts,
    key=st.just(KEY),
    value=st.floats(1, 1e9),
    lower=st.none() | st.just(-math.inf),
    provenance=st.sampled_from(Provenance),
    note=texts,
)
verdicts = st.builds(
    verdict,
    st.sampled_from(Outcome),
    reason=st.sampled_from(Reason),
    rule=st.sampled_from(Rule),
    baseline=st.none() | baselines,
    lower=maybe,
    wants=st.builds(Wants, st.sampled_from(Want), st.integers(0, 12)),
)
breakdowns = st.builds(Breakdown, input=st.sampled_from(Input), bound=st.none() | st.sampled_from(Bound))
measurements = st.builds(
    lambda **fields: measurement(throughput(1000.0, high=math.inf, diverged=DivergedAt(1, 2, 3)), **fields),
    test=texts,
    session=texts,
    runs=st.lists(runs, max_size=2).map(tuple),
    discarded=st.lists(runs, max_size=2).map(tuple),
    pairs=st.lists(st.builds(Pair, runs, runs, numbers, numbers), max_size=1).map(tuple),
    verdict=st.none() | verdicts,
    breakdown=st.none() | breakdowns,
    document=st.none() | baselines,
    environment=facts,
)


def through_json(noun: Measurement) -> Any:
    """As strict readers see it, who know no NaN."""
    return json.loads(json.dumps(plain(noun), allow_nan=False))


@given(measurements)
def test_a_measurement_goes_through_json_and_back(one: Measurement) -> None:
    assert build(Measurement, through_json(one), "measurement") == one


def test_a_measurement_beside_another_side_goes_through_json_and_back() -> None:
    one = interleaved(interval=(-0.11, math.inf), session="monday", discarded_pairs=(pair(-0.3, disturbance=BUSY),))
    assert build(Measurement, through_json(one), "measurement") == one


def test_a_loss_that_is_not_a_number_is_a_word() -> None:
    found = build(Measurement, through_json(measurement(throughput(1.0, loss=math.nan))), "")
    assert math.isnan(found.throughput.loss or 0.0)


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("speed",), 1, "measurement: unknown field 'speed'"),
        (("workload",), "net-b64-all", "measurement.workload: 'net-b64-all' is not a workload id"),
        (("runs", 0, "windows", 1, "seconds"), "fast", r"measurement.runs\[0\].windows\[1\].seconds: expected float"),
        (
            ("verdicts", 0, "baseline", "value"),
            -1,
            r"measurement.verdicts\[0\].baseline: value -1.0 is not a throughput",
        ),
        (
            ("verdicts", 0, "baseline", "key"),
            ["a"],
            r"measurement.verdicts\[0\].baseline.key: expected 3 items, found 1",
        ),
        (("environment",), [], "measurement.environment: expected "),
    ],
)
def test_a_bad_field_is_refused_with_its_path(path: tuple[str | int, ...], value: object, fault: str) -> None:
    whole = through_json(measurement(runs=(run([0.1, 0.2]),), verdict=verdict()))
    *parents, last = path
    place = whole
    for name in parents:
        place = place[name]
    place[last] = value
    with pytest.raises(TfperfError, match=f"^{fault}"):
        build(Measurement, whole, "measurement")


def test_a_missing_field_is_refused_unless_it_has_a_default() -> None:
    whole = through_json(measurement())
    del whole["discarded"]
    assert build(Measurement, whole, "measurement") == measurement()
    del whole["test"]
    with pytest.raises(TfperfError, match=r"^measurement: the field 'test' is missing"):
        build(Measurement, whole, "measurement")


# What changed since a baseline


@pytest.mark.parametrize(
    ("then", "now", "changes"),
    [
        pytest.param(
            "tensorflow=1.3.0 cuda_build=12 keras=3.15.1",
            {"tensorflow": "2.21.0", "keras": "3.15.1", "cuda_build": "13"},
            ["cuda_build 12 -> 13", "tensorflow 1.3.0 -> 2.21.0"],
            id="versions, sorted by name",
        ),
        pytest.param("tensorflow=1.3.0", {"keras": "3"}, [], id="known to one side only"),
        pytest.param(
            "tensorflow=2.21.0 injected_slowdown=0.2",
            {"tensorflow": "2.21.0", "threads": "4"},
            ["injected_slowdown 0.2 -> (unset)", "threads (unset) -> 4"],
            id="a setting of one side only was set or unset",
        ),
        pytest.param(
            "numpy=2.4.1 environment_variables=MKL_CBWR=AVX2,OMP_PLACES={0},{1}",
            {"numpy": "2.4.2", "environment_variables": "OMP_NUM_THREADS=1,OMP_PLACES={0},{1}"},
            ["MKL_CBWR AVX2 -> (unset)", "OMP_NUM_THREADS (unset) -> 1", "numpy 2.4.1 -> 2.4.2"],
            id="each variable by its own name",
        ),
        pytest.param(
            "numpy=2.4.1",
            {"environment_variables": "OMP_NUM_THREADS=1"},
            [],
            id="an old row",
        ),
        pytest.param(
            "environment_variables=none",
            {"environment_variables": "LD_PRELOAD=/lib/x.so"},
            ["LD_PRELOAD (unset) -> /lib/x.so"],
            id="the first variable",
        ),
        pytest.param("", {"threads": "4"}, [], id="a row that recorded nothing"),
        pytest.param("matmul=1e+11", {"matmul": "1.1e+11"}, [], id="a rate that was measured"),
        pytest.param("options=a=1", {"options": "a=2"}, ["options a=1 -> a=2"], id="an equals sign in a value"),
    ],
)
def test_what_changed_since_a_baseline_is_listed(then: str, now: dict[str, str], changes: list[str]) -> None:
    assert list(map(str, changes_since(baseline(environment=then), now))) == changes


@given(st.text())
def test_any_text_of_a_baseline_is_read(environment: str) -> None:
    assert all(change.now is None for change in changes_since(baseline(environment=environment), {}))
