"""`measure.reference_for`: which baseline a measurement is held against."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machines import linked, load
from measurements import baseline

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.judging.reference import Reference, floor_rate, reference_for, refuse_other_devices
from pytest_tfperf.stores.baselines import BaselineStore

KEY = Key("resnet50-b64-replicated-device", "1x8")
H200_TFLOPS = 67.0


class Shelf:
    """Published baselines and the user's own."""

    def __init__(self, folder: Path) -> None:
        self._published = BaselineStore(folder / "published", published=None)
        self.store = BaselineStore(folder / "own", published=folder / "published")

    def publish(self, machine: str, reference: float, key: Key = KEY, tflops: float | None = 10.6) -> None:
        row = Baseline(
            machine=machine,
            key=key,
            reference=reference,
            provenance=Provenance.PUBLISHED,
            source="a document",
            gpu="Tesla P100",
            gpu_fp32_tflops=tflops,
        )
        self._published.update(machine, {key: row})

    def record(self, reference: float, key: Key = KEY, machine: str = "h200", **more: Any) -> None:
        given: dict[str, Any] = {"machine": machine, "key": key, "reference": reference, "runs": 5, "spread": 0.01}
        row = Baseline(**given | more)
        self.store.update(machine, {key: row})

    def find(self, machine: str = "h200", key: Key = KEY, tflops: float | None = H200_TFLOPS) -> Reference:
        return reference_for(self.store, machine, key, gpu_fp32_tflops=tflops)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def reference(found: Reference) -> float | None:
    return found.baseline and found.baseline.reference


def test_without_any_row_there_is_none(shelf: Shelf) -> None:
    assert shelf.find() == Reference(baseline=None, floor=False, noise=None, document=None)


def test_the_machines_own_row_is_the_reference(shelf: Shelf) -> None:
    shelf.record(20_000)
    assert reference(shelf.find()) == 20_000


def test_the_machines_own_row_is_no_floor(shelf: Shelf) -> None:
    shelf.record(20_000)
    assert not shelf.find().floor


def test_the_documents_machine_has_the_documents_row(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    found = shelf.find("dgx1-p100", tflops=None)
    assert (reference(found), found.floor) == (1612, False)


def test_a_documents_row_for_a_weaker_gpu_is_a_floor(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    found = shelf.find()
    assert (reference(found), found.floor) == (1612, True)


def test_an_equal_gpu_makes_a_floor_too(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    assert shelf.find(tflops=10.6).floor


def test_a_stronger_gpu_makes_no_floor(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    assert shelf.find(tflops=10.5).baseline is None


def test_the_highest_of_the_weaker_machines_is_the_floor(shelf: Shelf) -> None:
    shelf.publish("azure-nc6", 50, tflops=4.1)
    shelf.publish("dgx1-p100", 1612)
    shelf.publish("future", 99_999, tflops=999.0)
    assert reference(shelf.find()) == 1612


def test_a_measured_row_replaces_the_floor(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    shelf.record(900)
    found = shelf.find()
    assert (reference(found), found.floor) == (900, False)


def test_a_gpu_of_unknown_rate_gets_no_floor(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    assert shelf.find(tflops=None).baseline is None


def test_a_document_without_a_rate_makes_no_floor(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612, tflops=None)
    assert shelf.find().baseline is None


def test_real_data_makes_no_floor(shelf: Shelf) -> None:
    key = Key("resnet50-b64-replicated-python", "1x8")
    shelf.publish("dgx1-p100", 1612, key)
    assert shelf.find(key=key).baseline is None


def test_another_number_of_gpus_makes_no_floor(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 228, Key(KEY.workload, "1x1"))
    assert shelf.find().baseline is None


def test_somebody_elses_measured_row_makes_no_floor(shelf: Shelf) -> None:
    shelf.record(1612, machine="other", gpu_fp32_tflops=10.6)
    assert shelf.find().baseline is None


def test_a_model_with_a_dash_in_its_name_has_a_reference(shelf: Shelf) -> None:
    key = Key("my-net-b64-replicated-device", "1x8")
    shelf.record(5, key)
    assert reference(shelf.find(key=key)) == 5


def test_the_document_is_shown_beside_a_measured_row(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    shelf.record(20_000)
    document = shelf.find().document
    assert document is not None
    assert document.reference == 1612


def test_the_highest_document_is_shown_whatever_its_gpu(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    shelf.publish("future", 99_999, tflops=999.0)
    document = shelf.find().document
    assert document is not None
    assert document.machine == "future"


def test_another_machines_broken_file_costs_no_figure_of_a_third(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    (shelf.store.folder).mkdir()
    (shelf.store.folder / "dgx2.csv").write_text("garbage\n")
    assert reference(shelf.find()) == 1612


def test_this_machines_broken_file_is_an_error(shelf: Shelf) -> None:
    (shelf.store.folder).mkdir()
    (shelf.store.folder / "h200.csv").write_text("garbage\n")
    with pytest.raises(BaselineError, match=r"h200\.csv, line 1: "):
        shelf.find()


def test_this_machines_own_document_is_shown_before_a_higher_one(shelf: Shelf) -> None:
    shelf.publish("azure-nc6", 109.7)
    shelf.publish("azure-nc12", 106.4)
    document = shelf.find("azure-nc12").document
    assert document is not None
    assert document.machine == "azure-nc12"


def test_every_row_of_the_documents_is_shown_beside_itself(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path, published=Path(__file__).parents[2] / "baselines")
    rows = store.published()
    shown = [reference_for(store, row.machine, row.key, gpu_fp32_tflops=None).document for row in rows]
    assert (len(rows), shown) == (291, rows)


def test_the_noise_is_the_machines(shelf: Shelf) -> None:
    shelf.record(20_000)
    shelf.record(5_000, Key(KEY.workload, "1x2"))
    noise = shelf.find().noise
    assert noise is not None
    assert (noise.spread, noise.source) == (pytest.approx(0.01), "2 rows of this machine")


def test_a_floor_borrows_the_noise_of_the_only_row_that_was_measured_here(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    shelf.record(5_000, Key(KEY.workload, "1x2"))
    noise = shelf.find().noise
    assert noise is not None
    assert noise.spread == pytest.approx(0.01)


def test_a_floor_on_a_machine_without_rows_has_the_documents_noise(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    noise = shelf.find().noise
    assert noise is not None
    assert noise.source.startswith("assumed")


def of_the_documents(folder: Path, *, device: bool) -> list[tuple[Key, Reference]]:
    """What eight H200 GPUs are held against for each published row of one machine, on device data or on any other."""
    store = BaselineStore(folder, published=Path(__file__).parents[2] / "baselines")
    gpu = load("h200").gpus[0]
    eight = linked(8, {})
    machine = replace(eight, gpus=tuple(replace(gpu, index=i, uuid=f"GPU-{i}") for i in range(8)))
    return [
        (
            row.key,
            reference_for(store, "h200", row.key, gpu_fp32_tflops=floor_rate(machine.take(int(row.key.topology[2])))),
        )
        for row in store.published()
        if row.key.topology.startswith("1x") and ("-device" in row.key.workload) is device
    ]


def test_every_synthetic_row_of_the_documents_is_a_floor_on_stronger_gpus(tmp_path: Path) -> None:
    found = of_the_documents(tmp_path, device=True)
    assert len(found) == 2 + 16 + 84  # Azure's with one node, the DGX-1's two columns of four, a third of Lambda's
    assert [key for key, reference in found if not reference.floor] == []


def test_no_row_that_depends_on_its_host_is_a_floor(tmp_path: Path) -> None:
    found = of_the_documents(tmp_path, device=False)
    assert len(found) == 16 + 168
    assert [key for key, reference in found if reference.baseline is not None] == []


DEFAULT = Tolerance(-0.02, 0.02)


def test_a_tests_own_tolerance_comes_first(shelf: Shelf) -> None:
    shelf.record(20_000, lower=-0.1, upper=0.1)
    assert shelf.find().tolerance(Tolerance(-0.3, None), DEFAULT) == Tolerance(-0.3, None)


def test_the_rows_tolerance_comes_before_the_default(shelf: Shelf) -> None:
    shelf.record(20_000, lower=-0.1, upper=0.1)
    assert shelf.find().tolerance(None, DEFAULT) == Tolerance(-0.1, 0.1)


def test_a_floor_has_the_documents_tolerance(shelf: Shelf) -> None:
    shelf.publish("dgx1-p100", 1612)
    assert shelf.find().tolerance(None, DEFAULT) == Tolerance(-0.05, 0.05)


def test_without_a_row_the_default_holds(shelf: Shelf) -> None:
    assert shelf.find().tolerance(None, DEFAULT) == DEFAULT


# Rows of GPUs


def test_a_row_of_gpus_is_none_for_cpus() -> None:
    with pytest.raises(
        BaselineError, match=r"box\.csv: .* 1x8 was measured on Tesla P100, and this test runs on CPUs: there is no"
    ):
        refuse_other_devices(baseline(gpu="Tesla P100"), load("no-gpu").on_cpu().take(8))


def test_a_row_of_gpus_is_one_for_gpus() -> None:
    refuse_other_devices(baseline(gpu="NVIDIA H200"), load("h200").take(1))


def test_a_newer_drivers_longer_name_for_a_gpu_is_the_same_gpu() -> None:
    refuse_other_devices(baseline(gpu="H200"), load("h200").take(1))


def test_a_row_of_other_gpus_is_none_for_these() -> None:
    with pytest.raises(
        BaselineError, match=r"box\.csv: .* was measured on Tesla P100, and this machine, .* has NVIDIA H200\. Give it"
    ):
        refuse_other_devices(baseline(gpu="Tesla P100"), load("h200").take(1))


def test_a_documents_row_of_other_gpus_may_be_held_against_these() -> None:
    row = baseline(gpu="Tesla P100", provenance=Provenance.PUBLISHED)
    refuse_other_devices(row, load("h200").take(1))


def test_a_row_of_cpus_is_one_for_cpus() -> None:
    refuse_other_devices(baseline(), load("no-gpu").on_cpu().take(8))
