"""What a worker measures of its own step: its pipeline's rate, its model's arithmetic, its device's matrix products."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf
from building import build, workload_of

from pytest_tfperf.core.plain_json import build as build_from_json
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.training import profiling
from pytest_tfperf.training.loop import InputLoop
from pytest_tfperf.training.profiling import pipeline_rate, profile_step

layers = keras.layers


def profiled(cpus: list[str], **choices: Any) -> StepProfile:
    """Of a loop that has run."""
    loop, model = build(cpus[:1], **choices)
    loop.run(2)
    return profile_step(
        loop,
        tf.distribute.OneDeviceStrategy(cpus[0]),
        model,
        workload_of(**choices),
        matrix_products=True,
        multiply_adds=True,
    )


@pytest.fixture(autouse=True)
def measure_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "PIPELINE_SECONDS", 0.01)
    monkeypatch.setattr(profiling, "PRODUCTS_SECONDS", 0.01)


@pytest.mark.parametrize("trainer", ["loop", "keras"])
def test_every_figure_is_found_and_the_driver_can_read_them(cpus: list[str], trainer: str) -> None:
    found = profiled(cpus, input_pipeline="host", trainer=trainer, precision="mixed_bfloat16")
    assert found.input is Input.FETCHED
    for figure in (
        found.pipeline_examples_per_sec,
        found.pipeline_core_seconds_per_example,
        found.forward_multiply_adds,
        found.products_multiply_adds_per_sec,
    ):
        assert figure is not None
        assert figure > 0
    assert build_from_json(StepProfile, plain(found), "") == found


def test_batches_come_from_the_loops_own_iterator_one_in_each_step(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], input_pipeline="feeds:numbered")
    loop.run(3)
    InputLoop(tf.distribute.OneDeviceStrategy(cpus[0]), loop.fetch, workload_of(), 4, "images").run(5)
    images, _ = loop.fetch()
    assert float(images[0, 0, 0, 0]) == 9.0


def test_a_batch_that_stays_on_the_devices_has_no_pipeline(cpus: list[str]) -> None:
    found = profiled(cpus, input_pipeline="device")
    assert (found.input, found.pipeline_examples_per_sec) == (Input.RESIDENT, None)


def test_a_pipeline_that_ends_leaves_only_its_own_figures_out(cpus: list[str]) -> None:
    found = profiled(cpus, input_pipeline="feeds:generated")
    assert found.pipeline_examples_per_sec is None
    assert found.forward_multiply_adds is not None


def test_a_pipeline_without_training_has_no_model_to_profile(cpus: list[str]) -> None:
    loop = InputLoop(tf.distribute.OneDeviceStrategy(cpus[0]), lambda: None, workload_of(), 4, "images")
    found = profile_step(
        loop, tf.distribute.OneDeviceStrategy(cpus[0]), None, workload_of(), matrix_products=True, multiply_adds=True
    )
    assert found == StepProfile(input=Input.ALONE)


class Buffered:
    """A fake loop and its clock: batches of 2 at 50 a second, after 16 that are ready."""

    examples_per_step = 2

    def __init__(self) -> None:
        self.seconds = 0.0
        self.taken = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.taken += 1
            self.seconds += 0.02 if self.taken > 16 else 1e-6


class InFiles(Buffered):
    """Reads a file of 40 batches of 2 in a second, and then gives them at once."""

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.seconds += 1.0 if self.taken % 40 == 0 else 1e-4
            self.taken += 1


@pytest.fixture
def rate_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """`pipeline_rate` by the fake loop's own clock; a quarter of its time is CPU time."""

    def measure(loop: Any) -> Any:
        clock = SimpleNamespace(perf_counter=lambda: loop.seconds, process_time=lambda: loop.seconds / 4)
        monkeypatch.setattr("pytest_tfperf.training.profiling.time", clock)
        return pipeline_rate(loop, 0.6)

    return measure


def test_batches_that_were_ready_do_not_count(rate_of: Callable[[Any], Any]) -> None:
    assert rate_of(Buffered()) == (pytest.approx(100.0), pytest.approx(0.01 / 4))


def test_a_pipeline_that_reads_whole_files_is_measured_over_whole_files(rate_of: Callable[[Any], Any]) -> None:
    assert rate_of(InFiles())[0] == pytest.approx(80.0, rel=0.1)


class Products:
    """A fake device of 10^12 multiply-adds a second, with room for matrices up to a side."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.sides: list[int] = []

    def seconds_of(self, device: str, dtype: str, side: int, products: int) -> float:
        if side > self.largest:
            raise tf.errors.ResourceExhaustedError(None, None, "no room")
        self.sides.append(side)
        return side**3 / 1e12


@pytest.mark.parametrize(("room", "largest"), [(8192, 4096), (1024, 1024)])
def test_the_side_grows_until_a_product_takes_long_enough_or_memory_is_short(
    monkeypatch: pytest.MonkeyPatch, room: int, largest: int
) -> None:
    device = Products(room)
    monkeypatch.setattr(profiling, "_seconds_of_product", device.seconds_of)
    assert profiling.matrix_product_rate("GPU:0", "float32", 0.0) == pytest.approx(1e12)
    assert max(device.sides) == largest


def test_only_the_fastest_window_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([1.0, 3.0, 2.0])
    monkeypatch.setattr(profiling, "_seconds_of_product", lambda *_: next(seconds))
    assert profiling.matrix_product_rate("CPU:0", "float32", 0.0) == 512**3 / 2.0


class Attended(layers.Layer):
    """Each pixel's channels times each other pixel's."""

    def call(self, images: Any) -> Any:
        rows = keras.ops.reshape(images, (-1, 64, 3))
        return keras.ops.matmul(rows, keras.ops.transpose(rows, (0, 2, 1)))


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        pytest.param(layers.Conv2D(5, 3, padding="same"), 8 * 8 * 5 * 3 * 3 * 3, id="convolution"),
        pytest.param(layers.Conv2D(6, 3, padding="same", groups=3), 8 * 8 * 6 * 3 * 3 * 1, id="in-groups"),
        pytest.param(layers.DepthwiseConv2D(3, padding="same"), 8 * 8 * 3 * 3 * 3, id="depthwise"),
        pytest.param(Attended(), 64 * 64 * 3, id="batches-of-products"),
        pytest.param(layers.Dense(10), 64 * 3 * 10, id="dense"),
        pytest.param(layers.MaxPooling2D(), 0, id="no-products"),
    ],
)
def test_a_layers_multiply_adds_are_those_counted_by_hand(cpus: list[str], layer: Any, wanted: int) -> None:
    images = keras.Input((8, 8, 3))
    assert profiling.forward_multiply_adds(keras.Model(images, layer(images))) == wanted
