"""What a worker finds out about its own step."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from building import build

from pytest_tfperf.core.plain_json import build as read
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.training import products, step_profile
from pytest_tfperf.training.input_loop import InputLoop
from pytest_tfperf.training.inputs import Alone
from pytest_tfperf.training.step_profile import examine, pipeline_alone


def examined(cpus: list[str], monkeypatch: pytest.MonkeyPatch, **workload: Any) -> dict[str, Any]:
    """Of a loop that has run; the devices' rate is made up."""
    monkeypatch.setattr(examination, "PIPELINE_SECONDS", 0.01)
    monkeypatch.setattr(examination, "multiply_adds_per_sec", lambda device, dtype: (device, dtype))
    asked = Workload(**{"model": "nets:plain", "batch_size": 4} | workload)
    loop, model = build(cpus[:1], **workload)
    loop.run(2)
    strategy = tf.distribute.OneDeviceStrategy(cpus[0])
    return examine(loop, strategy, model, asked, products=True, multiply_adds=True)


@pytest.mark.parametrize("trainer", ["loop", "keras"])
@pytest.mark.parametrize("pipeline", ["host", "python", "feeds:sliced"])
def test_a_pipeline_is_read_without_training(
    cpus: list[str], monkeypatch: pytest.MonkeyPatch, trainer: str, pipeline: str
) -> None:
    found = examined(cpus, monkeypatch, input_pipeline=pipeline, trainer=trainer)
    assert found["input"] is Input.FETCHED
    assert found["pipeline_images_per_sec"] > 0


def test_batches_come_from_the_loops_own_iterator(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], input_pipeline="feeds:numbered")
    loop.run(3)
    alone = InputLoop(tf.distribute.OneDeviceStrategy(cpus[0]), loop.fetch, Workload(model="nets:plain", batch_size=4))
    alone.run(5)
    images, _ = loop.fetch()
    assert float(images[0, 0, 0, 0]) == 9.0


def test_a_batch_that_lies_on_the_devices_has_no_pipeline(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = examined(cpus, monkeypatch, input_pipeline="device")
    assert (found["input"], "pipeline_images_per_sec" in found) == (Input.RESIDENT, False)


def test_a_pipeline_that_ends_leaves_only_its_own_figures_out(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = examined(cpus, monkeypatch, input_pipeline="feeds:generated")
    assert "pipeline_images_per_sec" not in found
    assert found["forward_multiply_adds"] > 0


def test_a_pipeline_that_is_measured_alone_is_asked_for_no_model(cpus: list[str]) -> None:
    strategy = tf.distribute.OneDeviceStrategy(cpus[0])
    workload = Workload(model="nets:plain", batch_size=4)
    loop = InputLoop(strategy, Alone((tf.zeros((4, 8, 8, 3)), tf.zeros(4, tf.int32))), workload)
    assert examine(loop, strategy, None, workload, products=True, multiply_adds=True) == {"input": Input.ALONE}


@pytest.mark.parametrize(("precision", "dtype"), [("float32", "float32"), ("mixed_bfloat16", "bfloat16")])
def test_products_are_of_the_precision_and_on_the_first_device(
    cpus: list[str], monkeypatch: pytest.MonkeyPatch, precision: str, dtype: str
) -> None:
    found = examined(cpus, monkeypatch, precision=precision)
    assert found["products_multiply_adds_per_sec"][0].endswith("CPU:0")
    assert found["products_multiply_adds_per_sec"][1] == dtype


def test_what_is_found_is_what_the_driver_reads(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = examined(cpus, monkeypatch, input_pipeline="host") | {"products_multiply_adds_per_sec": 1e9}
    assert read(StepProfile, found, "").pipeline_images_per_sec == found["pipeline_images_per_sec"]


class Buffered:
    """Gives batches of 2 at 50 a second, after 16 that lie ready; plays the clocks as well."""

    images_per_step = 2

    def __init__(self) -> None:
        self.seconds = 0.0
        self.taken = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.taken += 1
            self.seconds += 0.02 if self.taken > 16 else 1e-6

    def perf_counter(self) -> float:
        return self.seconds

    def process_time(self) -> float:
        return self.seconds / 4


def test_batches_that_lay_ready_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = Buffered()
    monkeypatch.setattr(examination, "time", loop)
    found = pipeline_alone(loop, seconds=0.6)
    assert found["pipeline_images_per_sec"] == pytest.approx(100.0)
    assert found["pipeline_core_seconds_per_image"] == pytest.approx(0.01 / 4)


class InFiles(Buffered):
    """Reads a file of 40 batches of 2 in a second, and then gives them at once."""

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.seconds += 1.0 if self.taken % 40 == 0 else 1e-4
            self.taken += 1


def test_files_that_are_read_in_one_piece_are_told_at_their_own_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = InFiles()
    monkeypatch.setattr(examination, "time", loop)
    assert pipeline_alone(loop, seconds=0.6)["pipeline_images_per_sec"] == pytest.approx(80.0, rel=0.1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_products_are_timed_in_every_precision(cpus: list[str], monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(products, "_SMALLEST_SIDE", 16)
    monkeypatch.setattr(products, "_LARGEST_SIDE", 32)
    assert products.multiply_adds_per_sec("CPU:0", dtype, seconds=0.01) > 0


def played(monkeypatch: pytest.MonkeyPatch, *, largest: int) -> list[int]:
    """The sides that are tried on a device of 10^12 multiply-adds a second with room for `largest`."""
    tried: list[int] = []

    def seconds_of(device: str, dtype: str, side: int, count: int = 1) -> float:
        if side > largest:
            raise tf.errors.ResourceExhaustedError(None, None, "no room")
        tried.append(side)
        return side**3 / 1e12

    monkeypatch.setattr(products, "_seconds_of", seconds_of)
    assert products.multiply_adds_per_sec("GPU:0", "float32", seconds=0.0) == pytest.approx(1e12)
    return tried


def test_what_neighbours_took_of_some_windows_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([1.0, 3.0, 2.0])
    monkeypatch.setattr(products, "_seconds_of", lambda *_: next(taken))
    assert products.multiply_adds_per_sec("CPU:0", "float32", seconds=0.0) == 512**3 / 2.0


def test_the_side_grows_until_a_product_takes_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(played(monkeypatch, largest=8192)) == 4096


def test_the_side_grows_no_further_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(played(monkeypatch, largest=1024)) == 1024
