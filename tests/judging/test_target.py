"""What a measurement is judged against: the machine's own row, a document's floor, or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.measurement import BY_OUTPUT, MEASURED
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.judging.noise import ASSUMED_BETWEEN_RUNS
from pytest_tfperf.judging.target import Target, peak_rates, refuse_other_devices, require_same_way, target_for
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.machines import linked, load
from tests.helpers.measurements import baseline

KEY = Key("resnet50-b64-replicated-device", "1x8")
H200_TFLOPS = 67.0
DOCUMENTS = Path(__file__).parents[2] / "baselines"


def published(machine: str, value: float, key: Key = KEY, tflops: float | None = 10.6) -> Baseline:
    return Baseline(
        machine=machine,
        key=key,
        value=value,
        provenance=Provenance.PUBLISHED,
        gpu="Tesla P100",
        gpu_fp32_tflops=tflops,
    )


def recorded(value: float, key: Key = KEY, **more: Any) -> Baseline:
    return baseline(value, machine="h200", key=key, **more)


def find(
    *rows: Baseline,
    machine: str = "h200",
    key: Key = KEY,
    tflops: float | None = H200_TFLOPS,
    memory: float | None = None,
) -> Target:
    """What is found where the machine's file and the documents hold these rows."""
    own = {row.key: row for row in rows if row.machine == machine}
    others = [row for row in rows if row.provenance is Provenance.PUBLISHED]
    return target_for(own, others, machine, key, gpu_fp32_tflops=tflops, gpu_memory_gb_per_sec=memory)


P100 = published("dgx1-p100", 1612)


def test_without_any_row_there_is_none() -> None:
    assert find() == Target(baseline=None, is_floor=False, noise=None, document=None)


def test_the_machines_own_row_comes_before_a_floor() -> None:
    own = recorded(900)
    found = find(P100, own)
    assert (found.baseline, found.is_floor, found.document) == (own, False, P100)


def test_the_documents_machine_has_the_documents_row() -> None:
    found = find(P100, machine="dgx1-p100", tflops=None)
    assert (found.baseline, found.is_floor) == (P100, False)


@pytest.mark.parametrize("tflops", [H200_TFLOPS, 10.6])
def test_a_documents_row_for_a_gpu_that_is_no_stronger_is_a_floor(tflops: float) -> None:
    found = find(P100, tflops=tflops)
    assert (found.baseline, found.is_floor) == (P100, True)


def test_the_highest_of_the_weaker_machines_is_the_floor() -> None:
    assert (
        find(published("azure-nc6", 50, tflops=4.1), P100, published("future", 99_999, tflops=999.0)).baseline == P100
    )


@pytest.mark.parametrize(
    ("memory", "is_floor"), [(4917.0, True), (732.2, True), (None, True), (300.1, False), (360.0, False)]
)
def test_a_gpu_with_slower_memory_than_the_documents_has_no_floor(memory: float | None, is_floor: bool) -> None:
    """As an L4 (300 GB/s) or an RTX 3060 (360), which compute faster than a P100 (732)."""
    p100 = replace(P100, gpu="Tesla P100-SXM2-16GB")
    assert find(p100, tflops=30.3, memory=memory).is_floor is is_floor


@pytest.mark.parametrize(("machine", "gb_per_sec"), [("dgx1-p100", 732), ("h200", 4917), ("4x-gtx-1080-ti", 484)])
def test_the_memory_rate_of_a_gpu_is_its_data_sheets(machine: str, gb_per_sec: int) -> None:
    assert peak_rates(load(machine).take(1))[1] == pytest.approx(gb_per_sec, abs=1)


def test_the_memory_rate_of_unknown_gpus_and_of_cpus_is_not_known() -> None:
    assert peak_rates(linked(2, {}).take(2))[1] is None
    assert peak_rates(load("no-gpu").on_cpu().take(1)) == (None, None)


REAL_DATA = Key("resnet50-b64-replicated-python", "1x8")


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        (P100, {"tflops": 10.5}),
        (P100, {"tflops": None}),
        (published("dgx1-p100", 1612, tflops=None), {}),
        (published("dgx1-p100", 1612, REAL_DATA), {"key": REAL_DATA}),
        (published("dgx1-p100", 228, Key(KEY.workload, "1x1")), {}),
        (baseline(1612, machine="other", key=KEY, gpu_fp32_tflops=10.6), {}),
    ],
    ids=["weaker GPU", "no rate here", "no rate in the document", "real data", "other GPU count", "measured elsewhere"],
)
def test_other_rows_make_no_floor(row: Baseline, asked: dict[str, Any]) -> None:
    assert find(row, **asked).baseline is None


def test_the_document_that_is_shown_is_this_machines_or_else_the_highest() -> None:
    small, large = published("azure-nc12", 106.4), published("azure-nc6", 109.7, tflops=999.0)
    assert find(small, large, machine="azure-nc12").document == small
    assert find(small, large).document == large


def test_a_floor_borrows_the_noise_that_was_measured_here() -> None:
    assumed = find(P100).noise
    measured = find(P100, recorded(5_000, Key(KEY.workload, "1x2"))).noise
    assert assumed is not None
    assert measured is not None
    assert (assumed.between_runs, assumed.rows) == (ASSUMED_BETWEEN_RUNS, 0)
    assert (measured.between_runs, measured.rows) == (pytest.approx(0.01), 1)


# The documents themselves


def of_the_documents(folder: Path, *, device: bool) -> list[Target]:
    """What eight H200 GPUs are judged against for each published row of one node, on device data or on any other."""
    store = BaselineStore(folder, published=DOCUMENTS)
    gpu = load("h200").gpus[0]
    machine = replace(linked(8, {}), gpus=tuple(replace(gpu, index=i, uuid=f"GPU-{i}") for i in range(8)))
    keys = [
        row.key
        for row in store.published()
        if row.key.topology.startswith("1x") and ("-device" in row.key.workload) is device
    ]
    return [
        target_for(
            {},
            store.published(key),
            "h200",
            key,
            gpu_fp32_tflops=peak_rates(machine.take(int(key.topology[2])))[0],
            gpu_memory_gb_per_sec=peak_rates(machine.take(int(key.topology[2])))[1],
        )
        for key in keys
    ]


def test_every_synthetic_row_of_the_documents_is_a_floor_on_stronger_gpus(tmp_path: Path) -> None:
    found = of_the_documents(tmp_path, device=True)
    assert len(found) == 2 + 16 + 84  # Azure's with one node, the DGX-1's two columns of four, a third of Lambda's
    assert all(value.is_floor for value in found)


def test_no_row_that_depends_on_its_host_is_a_floor(tmp_path: Path) -> None:
    found = of_the_documents(tmp_path, device=False)
    assert len(found) == 16 + 168
    assert all(value.baseline is None for value in found)


# Whose tolerance holds


DEFAULT = Tolerance(-0.02, 0.02)


@pytest.mark.parametrize(
    ("rows", "asked", "holds"),
    [
        ([recorded(1, lower=-0.1, upper=0.1)], Tolerance(-0.3, None), Tolerance(-0.3, None)),
        ([recorded(1, lower=-0.1, upper=0.1)], None, Tolerance(-0.1, 0.1)),
        ([P100], None, Tolerance(-0.05, 0.05)),
        ([], None, DEFAULT),
    ],
    ids=["the test's own", "the row's", "a document's", "the default"],
)
def test_the_closest_tolerance_holds(rows: list[Baseline], asked: Tolerance | None, holds: Tolerance) -> None:
    assert find(*rows).tolerance(asked, DEFAULT) == holds


# Rows of other devices


@pytest.mark.parametrize(
    ("row", "topology", "says"),
    [
        (baseline(gpu="Tesla P100"), load("no-gpu").on_cpu().take(8), r"was measured on Tesla P100, .* runs on CPUs"),
        (baseline(gpu="Tesla P100"), load("h200").take(1), r"was measured on Tesla P100, .* has NVIDIA H200\. Give it"),
    ],
)
def test_a_row_of_other_devices_is_refused(row: Baseline, topology: Any, says: str) -> None:
    with pytest.raises(BaselineError, match=rf"box\.csv: .* 1x8 {says}"):
        refuse_other_devices(row, topology)


@pytest.mark.parametrize(
    ("row", "topology"),
    [
        (baseline(gpu="NVIDIA H200"), load("h200").take(1)),
        (baseline(gpu="H200"), load("h200").take(1)),  # an older driver's name for it
        (baseline(gpu="Tesla P100", provenance=Provenance.PUBLISHED), load("h200").take(1)),
        (baseline(), load("no-gpu").on_cpu().take(8)),
    ],
    ids=["the same GPU", "its shorter name", "a document's GPU", "CPUs"],
)
def test_a_row_of_these_devices_is_accepted(row: Baseline, topology: Any) -> None:
    refuse_other_devices(row, topology)


# The way in which a program was measured


def of_way(way: str, **more: Any) -> Baseline:
    return baseline(environment=f"python=3.11 {MEASURED}={way}" if way else "python=3.11", **more)


@pytest.mark.parametrize(("then", "now"), [(BY_OUTPUT, "told-steps"), ("told-steps", BY_OUTPUT)])
def test_a_row_of_the_other_way_to_measure_is_refused(then: str, now: str) -> None:
    with pytest.raises(BaselineError, match=f"was measured by {then}, and this test measures it by {now}"):
        require_same_way(of_way(then), {MEASURED: now})


@pytest.mark.parametrize(
    ("then", "now"),
    [(BY_OUTPUT, BY_OUTPUT), ("told-steps", "optimizer-steps"), ("", BY_OUTPUT), ("told-steps", ""), (BY_OUTPUT, "")],
)
def test_a_row_of_the_same_way_or_of_an_unknown_one_is_judged_against(then: str, now: str) -> None:
    require_same_way(of_way(then), {MEASURED: now} if now else {})


def test_a_provisional_row_of_the_other_way_is_no_error() -> None:
    require_same_way(of_way(BY_OUTPUT, provenance=Provenance.PROVISIONAL), {MEASURED: "told-steps"})
