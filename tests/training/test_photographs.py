"""What the imagenet pipelines do to photographs, and what they say of a corrupt record."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.training.input_spec import InputSpec
from pytest_tfperf.training.inputs import PipelineOnly, feed
from pytest_tfperf.training.make_data import make_data
from pytest_tfperf.training.photographs import naming_corrupt, process, read_once
from pytest_tfperf.training.pipelines import imagenet as pipelines

Images = np.ndarray[Any, Any]
PLAIN = ["imagenet", "imagenet_distortions", "imagenet_consistent", "imagenet_distortions_consistent"]


@pytest.fixture
def spec(cpus: list[str], photographs: Path) -> InputSpec:
    return spec_of(1001, photographs)


def spec_of(classes: int, photographs: Path) -> InputSpec:
    return InputSpec.of_images((32, 40, 3), classes, batch_size=8, replicas=1, seed=3, data_dir=str(photographs))


def batches(dataset: tf.data.Dataset, count: int = 2) -> tuple[Images, Images]:
    images, labels = zip(*islice(dataset, count), strict=True)
    return np.concatenate(images), np.concatenate(labels)


@pytest.mark.parametrize("name", PLAIN)
def test_the_seed_decides_on_images_and_order_and_images_are_scaled_to_minus_1_to_1(spec: InputSpec, name: str) -> None:
    pipeline = getattr(pipelines, name)
    images, labels = batches(pipeline(spec))
    again, labels_again = batches(pipeline(spec))
    np.testing.assert_array_equal(images, again)
    np.testing.assert_array_equal(labels, labels_again)
    assert (images != batches(pipeline(replace(spec, seed=4)))[0]).any()
    assert images.dtype == np.float32
    assert -1 <= images.min() < -0.8
    assert 0.8 < images.max() <= 1


@pytest.mark.parametrize(("one", "other"), [(PLAIN[0], PLAIN[1]), (PLAIN[1], PLAIN[3]), (PLAIN[2], PLAIN[3])])
def test_the_pipelines_differ_in_their_pixels_only(spec: InputSpec, one: str, other: str) -> None:
    (images, labels), (others, other_labels) = (batches(getattr(pipelines, name)(spec)) for name in (one, other))
    np.testing.assert_array_equal(labels, other_labels)
    assert 0.001 < np.abs(images - others).mean() < 0.5


def test_consistent_resizing_is_bilinear_for_every_fourth_image_only(spec: InputSpec) -> None:
    images, _ = batches(pipelines.imagenet(spec))
    others, _ = batches(pipelines.imagenet_consistent(spec))
    same = [bool(np.allclose(one, other, atol=1e-5)) for one, other in zip(images, others, strict=True)]
    assert same == [True, False, False, False] * 4


def test_the_cached_pipeline_crops_one_record_anew_each_time(spec: InputSpec) -> None:
    images, labels = batches(pipelines.imagenet_cached(spec))
    assert len(set(labels)) == 1
    assert len({image.tobytes() for image in images}) == len(images)


def test_an_epoch_contains_each_record_once(spec: InputSpec) -> None:
    read = [record.numpy() for record in read_once(spec)]
    assert sorted(read) == sorted(record for path in Path(spec.data_dir).iterdir() for record in records(path))


def test_a_data_set_of_one_file_is_read(spec: InputSpec, tmp_path: Path) -> None:
    make_data("imagenet", tmp_path / "one", count=8, shards=1, seed=1)
    assert len(batches(pipelines.imagenet(replace(spec, data_dir=str(tmp_path / "one"))))[0]) == 16


def test_replicas_get_batches_of_their_own(spec: InputSpec) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    images, _ = feed(strategy, pipelines.imagenet(replace(spec, replicas=2)))()
    one, other = images.values
    assert (np.array(one) != np.array(other)).any()


@pytest.mark.parametrize("name", ["imagenet", "imagenet_distortions"])
def test_a_pipeline_without_training_gives_the_same_batches(spec: InputSpec, name: str) -> None:
    alone = getattr(pipelines, f"{name}_only")(spec)
    assert isinstance(alone, PipelineOnly)
    np.testing.assert_array_equal(batches(alone.inputs)[0], batches(getattr(pipelines, name)(spec))[0])


def example(**changed: Any) -> tf.train.Example:
    """A record whose photograph becomes brighter to the right; None leaves a feature out."""
    rising = np.repeat(np.arange(0, 256, 4, dtype=np.uint8)[None, :, None], 64, 0).repeat(3, 2)
    features = {"encoded": [tf.io.encode_jpeg(rising).numpy()], "label": [1]} | changed
    names = {"encoded": "image/encoded", "label": "image/class/label"}
    made = tf.train.Example()
    for name, values in features.items():
        if values is not None:
            feature = made.features.feature[names.get(name, f"image/object/bbox/{name}")]
            kind = {bytes: feature.bytes_list, float: feature.float_list, int: feature.int64_list}[type(values[0])]
            kind.value.extend(values)
    return made


def processed(spec: InputSpec, index: int, **changed: Any) -> tuple[Images, int]:
    image, label = process(spec)(tf.constant(index, tf.int64), tf.constant(example(**changed).SerializeToString()))
    return image.numpy(), int(label)


def test_images_are_mirrored_in_half_of_the_cases(spec: InputSpec) -> None:
    images = [processed(spec, i)[0] for i in range(40)]
    assert 8 < sum(bool(image[:, -1].mean() > image[:, 0].mean()) for image in images) < 32


@pytest.mark.parametrize(
    ("classes", "label", "wanted"),
    [(1001, 1, 1), (1001, 1000, 1000), (1000, 1, 0), (1000, 1000, 999), (11, 10, 10), (11, 11, 0)],
)
def test_labels_start_at_0_where_the_classes_have_no_background(
    cpus: list[str], photographs: Path, classes: int, label: int, wanted: int
) -> None:
    assert processed(spec_of(classes, photographs), 0, label=[label])[1] == wanted


def test_what_make_imagenet_writes_has_imagenets_features_and_sizes(photographs: Path) -> None:
    made = [tf.train.Example.FromString(record) for path in photographs.iterdir() for record in records(path)]
    features = [one.features.feature for one in made]
    labels = {one["image/class/label"].int64_list.value[0] for one in features}
    jpegs = [one["image/encoded"].bytes_list.value[0] for one in features]
    assert len(made) == 24
    assert labels <= set(range(1, 1001))
    assert len(labels) > 12
    assert 100_000 < sum(map(len, jpegs)) / len(jpegs) < 120_000
    assert {tuple(tf.io.decode_jpeg(jpeg).shape) for jpeg in jpegs} <= {(375, 500, 3), (500, 375, 3), (333, 500, 3)}
    for one in features:
        for low, high in (("ymin", "ymax"), ("xmin", "xmax")):
            sides = [one[f"image/object/bbox/{side}"].float_list.value[0] for side in (low, high)]
            assert 0 <= sides[0] < sides[1] <= 1


def records(path: Path) -> list[bytes]:
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def jpeg_of(record: bytes) -> bytes:
    jpeg: bytes = tf.train.Example.FromString(record).features.feature["image/encoded"].bytes_list.value[0]
    return jpeg


FAULTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut JPEG": (lambda record: record.replace(jpeg_of(record)[-500:], bytes(500)), r"jpeg::Uncompress failed"),
    "no Example": (lambda _: b"\xff" * 50, r"Could not parse example input\."),
    "no label": (lambda _: example(label=None).SerializeToString(), r"Feature: image/class/label .* is required"),
    "box outside": (
        lambda _: example(ymin=[0.0], xmin=[0.0], ymax=[1.0], xmax=[1.5]).SerializeToString(),
        r"All bounding box coordinates must be in \[0\.0, 1\.0\]: 1\.5",
    ),
}


@pytest.fixture
def damaged(spec: InputSpec, photographs: Path, tmp_path: Path) -> InputSpec:
    """A copy of the set, for a test to damage."""
    shutil.copytree(photographs, tmp_path / "set")
    return replace(spec, data_dir=str(tmp_path / "set"))


def fail_on(spec: InputSpec) -> None:
    batches(pipelines.imagenet(spec), 20)
    # A crop may miss the damage, which stops only another run.
    raise tf.errors.InvalidArgumentError(None, None, "jpeg::Uncompress failed")


def error_of(spec: InputSpec) -> str:
    with pytest.raises(MeasurementError) as error, naming_corrupt(spec):
        fail_on(spec)
    return str(error.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_corrupt_record_is_named_with_its_shard_and_tensorflows_error(damaged: InputSpec, fault: str) -> None:
    path = sorted(Path(damaged.data_dir).iterdir())[1]
    damage, said = FAULTS[fault]
    written = records(path)
    written[5] = damage(written[5])
    with tf.io.TFRecordWriter(str(path)) as file:
        for record in written:
            file.write(record)
    named = rf"record 5 of {path.name} in \S+ is corrupt: {said}.*Expected are TFRecord files named train-"
    assert re.match(named, error_of(damaged), re.DOTALL)


@pytest.mark.parametrize("content", [b"\x89PNG" * 9, None], ids=["no records", "damaged record"])
def test_a_damaged_file_is_named_with_tensorflows_error(damaged: InputSpec, content: bytes | None) -> None:
    path = sorted(Path(damaged.data_dir).iterdir())[1]
    whole = path.read_bytes()
    path.write_bytes(content or whole[:5000] + b"\0\0\0\0\0\0\0\0" + whole[5008:])
    assert re.match(rf"record 0 of {path.name} in \S+ is corrupt: corrupted record at \d+", error_of(damaged))


def test_an_error_that_no_record_explains_stays_as_it_is(spec: InputSpec) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError), naming_corrupt(spec):
        raise tf.errors.InvalidArgumentError(None, None, "another fault")
