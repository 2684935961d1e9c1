"""What the imagenet pipelines do to photographs."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pytest_tfperf.core.image_data import Data, OnCorrupt
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, WorkloadError
from pytest_tfperf.training import photographs as module
from pytest_tfperf.training.corrupt import naming_corrupt
from pytest_tfperf.training.input_loop import InputLoop
from pytest_tfperf.training.inputs import Alone, InputSpec
from pytest_tfperf.training.loading import load_pipeline
from pytest_tfperf.training.pipelines import imagenet as pipelines
from pytest_tfperf.training.tfrecord import Value, example, features, framed, records
from pytest_tfperf.training.trainers import trainer_for

Images = np.ndarray[Any, Any]


@pytest.fixture
def spec(cpus: list[str], photographs: Path) -> InputSpec:
    data = Data(folder=str(photographs))
    return InputSpec(image_shape=(32, 40, 3), num_classes=1001, batch_size=8, replicas=1, seed=3, data=data)


def batches(dataset: tf.data.Dataset, count: int = 2) -> tuple[Images, Images]:
    images, labels = zip(*islice(dataset, count), strict=True)
    return np.concatenate(images), np.concatenate(labels)


PLAIN = ["imagenet", "imagenet_distortions", "imagenet_consistent", "imagenet_distortions_consistent"]


@pytest.mark.parametrize("name", [*PLAIN, "imagenet_cached"])
def test_images_are_scaled_to_minus_1_to_1(spec: InputSpec, name: str) -> None:
    images, _ = batches(getattr(pipelines, name)(spec))
    assert images.dtype == np.float32
    assert -1 <= images.min() < -0.8
    assert 0.8 < images.max() <= 1


@pytest.mark.parametrize("name", PLAIN)
def test_one_seed_gives_the_same_images_in_the_same_order(spec: InputSpec, name: str) -> None:
    first, second = (batches(getattr(pipelines, name)(spec)) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_another_seed_gives_other_images(spec: InputSpec) -> None:
    assert (batches(pipelines.imagenet(spec))[0] != batches(pipelines.imagenet(replace(spec, seed=4)))[0]).any()


@pytest.mark.parametrize(
    ("one", "other"), [(PLAIN[0], PLAIN[1]), (PLAIN[0], PLAIN[2]), (PLAIN[1], PLAIN[3]), (PLAIN[2], PLAIN[3])]
)
def test_the_pipelines_differ_in_their_pixels_only(spec: InputSpec, one: str, other: str) -> None:
    (images, labels), (others, other_labels) = (batches(getattr(pipelines, name)(spec)) for name in (one, other))
    np.testing.assert_array_equal(labels, other_labels)
    assert 0.001 < np.abs(images - others).mean() < 0.5


def test_consistent_resizing_takes_bilinear_for_every_fourth_image_only(spec: InputSpec) -> None:
    images, _ = batches(pipelines.imagenet(spec))
    others, _ = batches(pipelines.imagenet_consistent(spec))
    same = [bool(np.allclose(one, other, atol=1e-5)) for one, other in zip(images, others, strict=True)]
    assert same == [True, False, False, False] * 4


def test_the_cached_record_is_one_and_cropped_anew_each_time(spec: InputSpec) -> None:
    images, labels = batches(pipelines.imagenet_cached(spec))
    assert len(set(labels)) == 1
    assert len({image.tobytes() for image in images}) == len(images)


def test_an_epoch_holds_each_record_once(spec: InputSpec) -> None:
    shards = module.shuffled(spec)
    read = [payload.numpy() for payload in module.payloads(shards)]
    assert sorted(read) == sorted(payload for shard in shards for payload in _payloads(Path(shard)))


def test_replicas_get_batches_of_their_own(spec: InputSpec) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    alone = pipelines.imagenet_only(replace(spec, replicas=2))
    loop = InputLoop(strategy, alone, Workload(model="trivial", batch_size=8, input_pipeline="imagenet-only"))
    images, _ = loop._next_batch()
    one, other = images.values
    assert (np.array(one) != np.array(other)).any()


def test_images_are_mirrored_half_of_the_times(spec: InputSpec) -> None:
    rising = np.repeat(np.arange(0, 256, 4, dtype=np.uint8)[None, :, None], 64, 0).repeat(3, 2)
    whole = tf.io.encode_jpeg(rising)
    work = module._work(spec, module.Processing())
    payload = _example(whole.numpy(), 1)
    brighter_right = [
        bool(image[:, -1].mean() > image[:, 0].mean())
        for image in (work(tf.constant(i, tf.int64), payload)[0].numpy() for i in range(40))
    ]
    assert 8 < sum(brighter_right) < 32


@pytest.mark.parametrize(
    ("classes", "label", "wanted"),
    [(1001, 1, 1), (1001, 1000, 1000), (1000, 1, 0), (1000, 1000, 999), (11, 10, 10), (11, 11, 0), (10, 1000, 0)],
)
def test_labels_are_moved_where_the_classes_have_no_background(
    spec: InputSpec, classes: int, label: int, wanted: int
) -> None:
    assert int(module._label(tf.constant(label, tf.int64), classes)) == wanted


def test_tensorflow_reads_what_was_written(photographs: Path, spec: InputSpec) -> None:
    for path in photographs.iterdir():
        ours = list(_payloads(path))
        theirs = [payload.numpy() for payload in tf.data.TFRecordDataset(str(path))]
        assert ours == theirs
        found = tf.train.Example.FromString(ours[0]).features.feature
        assert features(ours[0])["image/class/label"] == list(found["image/class/label"].int64_list.value)
        assert tf.io.decode_jpeg(found["image/encoded"].bytes_list.value[0]).shape[-1] == 3


@pytest.mark.parametrize("name", ["imagenet", "imagenet_distortions"])
def test_a_pipeline_alone_gives_the_same_batches(spec: InputSpec, name: str) -> None:
    alone = getattr(pipelines, f"{name}_only")(spec)
    assert isinstance(alone, Alone)
    assert isinstance(alone.inputs, tf.data.Dataset)
    np.testing.assert_array_equal(batches(alone.inputs)[0], batches(getattr(pipelines, name)(spec))[0])


def test_a_window_of_the_pipeline_alone_has_no_loss(spec: InputSpec) -> None:
    workload = Workload(model="trivial", batch_size=8, input_pipeline="imagenet-only")
    alone = load_pipeline(workload, spec)
    assert isinstance(alone, Alone)
    loop = InputLoop(tf.distribute.OneDeviceStrategy("CPU:0"), alone, workload)
    assert (loop.run(2), loop.images_per_step) == (None, 8)


def test_a_users_own_pipeline_alone_takes_no_optimizer_either() -> None:
    workload = Workload(model="trivial", batch_size=1, input_pipeline="mine:alone", optimizer="momentum")
    alone = Alone((tf.zeros((1, 1, 1, 1)), tf.zeros(1, tf.int32)))
    with pytest.raises(WorkloadError, match="nothing trained: leave out optimizer"):
        trainer_for(tf.distribute.OneDeviceStrategy("CPU:0"), None, alone, workload)


def test_a_window_of_the_pipeline_alone_takes_a_batch_each_step(cpus: list[str]) -> None:
    numbered = tf.data.Dataset.counter().map(lambda i: (tf.fill((1, 1, 1, 1), tf.cast(i, tf.float32)), tf.zeros(1)))
    loop = InputLoop(tf.distribute.OneDeviceStrategy("CPU:0"), Alone(numbered), Workload(model="trivial", batch_size=1))
    assert float(loop._window(tf.constant(7))) == sum(range(7))


@pytest.fixture
def damaged(spec: InputSpec, photographs: Path, tmp_path: Path) -> InputSpec:
    """The set, to be damaged by a test, in a folder of its own."""
    folder = tmp_path / "set"
    shutil.copytree(photographs, folder)
    return replace(spec, data=Data(folder=str(folder)))


def skipping(spec: InputSpec) -> InputSpec:
    return replace(spec, data=replace(spec.data, on_corrupt=OnCorrupt.SKIP))


def bad_jpeg(payload: bytes) -> bytes:
    """The JPEG's data gone after the header; the record is as good as any."""
    image = features(payload)["image/encoded"][0]
    assert isinstance(image, bytes)
    return payload.replace(image, image[:300] + bytes(len(image) - 300))


def damage(spec: InputSpec, shard: int, number: int, *, jpeg: bool) -> str:
    """Damage one record's JPEG, or its bytes in the file; gives the place."""
    path = sorted(Path(spec.data.folder).iterdir())[shard]
    whole = [framed(payload) for payload in _payloads(path)]
    if jpeg:
        whole[number] = framed(bad_jpeg(list(_payloads(path))[number]))
    else:
        whole[number] = whole[number][:5000] + b"\0\0\0\0\0\0\0\0" + whole[number][5008:]
    path.write_bytes(b"".join(whole))
    return f"{path.name} record {number}"


@pytest.mark.parametrize("jpeg", [True, False], ids=["JPEG", "record"])
def test_a_run_stops_at_a_corrupt_record_and_names_it(damaged: InputSpec, jpeg: bool) -> None:
    place = damage(damaged, 1, 5, jpeg=jpeg)
    with (
        pytest.raises(MeasurementError, match=rf"{place} in .* is corrupt: .*--tfperf-corrupt=skip"),
        naming_corrupt(damaged),
    ):
        batches(pipelines.imagenet(damaged), 6)


BOX = "image/object/bbox/"
FAULTS: dict[str, tuple[dict[str, Value | None], str]] = {
    "no label": ({"image/class/label": None}, r"Feature: image/class/label .* is required but could not be found"),
    "a text for a label": ({"image/class/label": [b"cat"]}, r"Key: image/class/label\..*expected type: int64"),
    "sides of unequal length": ({f"{BOX}xmin": [0.1, 0.2]}, r"Shapes of all inputs must match"),
    "a box outside": ({f"{BOX}xmax": [1.5]}, r"All bounding box coordinates must be in \[0\.0, 1\.0\]: 1\.5"),
    "no image": ({"image/encoded": None}, r"Feature: image/encoded .* is required"),
    "no JPEG": ({"image/encoded": [b"GIF89a"]}, r"Invalid JPEG data, size 6"),
}


def spoil(spec: InputSpec, payload: bytes) -> str:
    """Put another record into the set; gives the place."""
    path = sorted(Path(spec.data.folder).iterdir())[1]
    whole = _payloads(path)
    whole[5] = payload
    path.write_bytes(b"".join(map(framed, whole)))
    return f"{path.name} record 5"


def stopped(spec: InputSpec) -> str:
    with pytest.raises(MeasurementError) as error, naming_corrupt(spec):
        batches(pipelines.imagenet(spec), 6)
    return str(error.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_record_that_is_not_of_the_schema_is_named_with_its_fault(damaged: InputSpec, fault: str) -> None:
    changes, said = FAULTS[fault]
    changed = features(_payloads(min(Path(damaged.data.folder).iterdir()))[0]) | changes
    place = spoil(damaged, example({name: value for name, value in changed.items() if value is not None}))
    assert re.match(rf"{place} in \S+ is corrupt: {said}.*\. Write the data anew", stopped(damaged))


def test_a_record_that_is_no_example_is_named_with_its_fault(damaged: InputSpec) -> None:
    place = spoil(damaged, b"\xff" * 50)  # TensorFlow quotes it, and that is no UTF-8
    assert re.match(rf"{place} in \S+ is corrupt: Could not parse example input\. ", stopped(damaged))


def test_a_jpeg_that_is_cut_off_is_named_wherever_crops_lie(damaged: InputSpec) -> None:
    # A crop may end before the cut: what stops a run then is another record, or a later crop.
    whole = features(_payloads(min(Path(damaged.data.folder).iterdir()))[0])
    jpeg = whole["image/encoded"][0]
    assert isinstance(jpeg, bytes)
    place = spoil(damaged, example(whole | {"image/encoded": [jpeg[:-500]]}))
    with (
        pytest.raises(MeasurementError, match=rf"{place} in .*: jpeg::Uncompress failed\. Invalid JPEG data or crop"),
        naming_corrupt(damaged),
    ):
        raise tf.errors.InvalidArgumentError(None, None, "jpeg::Uncompress failed")


def test_a_record_whose_checksum_is_wrong_is_named_with_its_fault(damaged: InputSpec) -> None:
    place = damage(damaged, 1, 5, jpeg=False)
    assert re.match(rf"{place} in \S+ is corrupt: corrupted record at \d+\. ", stopped(damaged))


@pytest.mark.parametrize("jpeg", [True, False], ids=["JPEG", "record"])
def test_a_run_goes_on_without_a_corrupt_record_and_tells_of_it(
    damaged: InputSpec, jpeg: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    place = damage(damaged, 1, 5, jpeg=jpeg)
    asked = skipping(damaged)
    images, _ = batches(pipelines.imagenet(asked), 6)
    assert asked.skipped.first is not None
    assert (len(images), asked.skipped.first.record) == (48, place)
    assert f"skipped {place}" in capsys.readouterr().out


@pytest.mark.parametrize(("jpeg", "said"), [(True, "1 corrupt ("), (False, "1 corrupt and the rest of 1 shard (")])
def test_what_is_left_out_with_a_corrupt_record_is_told(damaged: InputSpec, jpeg: bool, said: str) -> None:
    damage(damaged, 1, 5, jpeg=jpeg)
    asked = skipping(damaged)
    batches(pipelines.imagenet(asked), 6)
    assert str(asked.skipped).startswith(said)


def test_without_a_corrupt_record_skipping_gives_the_same_images(spec: InputSpec) -> None:
    asked = skipping(spec)
    np.testing.assert_array_equal(batches(pipelines.imagenet(asked), 6)[0], batches(pipelines.imagenet(spec), 6)[0])
    assert not asked.skipped


def test_only_the_corrupt_record_is_left_out(damaged: InputSpec) -> None:
    damage(damaged, 1, 5, jpeg=True)
    _, labels = batches(pipelines.imagenet(skipping(damaged)), 12)
    everything = {
        int(features(p)["image/class/label"][0])
        for path in Path(damaged.data.folder).iterdir()
        for p in _payloads(path)
    }
    assert len(everything - set(labels.tolist())) <= 1


def test_a_set_of_corrupt_records_only_is_refused(damaged: InputSpec) -> None:
    for path in Path(damaged.data.folder).iterdir():
        path.write_bytes(b"".join(framed(bad_jpeg(payload)) for payload in _payloads(path)))
    with pytest.raises(MeasurementError, match="all records are corrupt"):
        pipelines.imagenet(skipping(damaged))


def test_a_fault_that_no_record_explains_stays_what_it_is(spec: InputSpec) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError), naming_corrupt(spec):
        raise tf.errors.InvalidArgumentError(None, None, "another fault")


def _payloads(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return list(records(file))


def _example(jpeg: bytes, label: int) -> bytes:
    return example({"image/encoded": [jpeg], "image/class/label": [label]})
