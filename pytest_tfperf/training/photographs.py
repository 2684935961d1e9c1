"""From a record to an image that a model takes: crop, decode, flip, resize, distort, scale; as tf_cnn_benchmarks does.

Every random choice is drawn from the seed and the record's place in the order of reading, so that runs with one seed do
the same work, however many threads do it: where a crop lies decides what decoding costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from pytest_tfperf.core.image_data import BOX, IMAGE, LABEL, OnCorrupt
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.training.devices import cores_for_threads
from pytest_tfperf.training.inputs import InputSpec
from pytest_tfperf.training.records import Places, Work, located, payloads, shuffled, work_on_located

_SHUFFLED = 1024
"""Records among which the next one is drawn: 110 MB of them; tf_cnn_benchmarks' 10,000 take a gigabyte."""

_BATCHES_AHEAD_EACH = 2
_METHODS = ("bilinear", "nearest", "bicubic", "area")
_OVERSHOOTING = ("bicubic", "area")  # at edges the one, in the last bits the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """What is done to each photograph.

    Args:
        distortions: change brightness, saturation, hue and contrast.
        consistent: resize by bilinear, nearest, bicubic and area in turns, not by bilinear alone.
    """

    distortions: bool = False
    consistent: bool = False


def photographs(spec: InputSpec, processing: Processing, *, cached: bool = False) -> tf.data.Dataset:
    """Endless batches of the data set's photographs; of one of them over and over where `cached`.

    Raises:
        NoData, MeasurementError: there is no data set, see `Data.shards`; or none of its records can be decoded.
    """
    shards = shuffled(spec)
    cores = cores_for_threads()
    work = _work(spec, processing)
    if spec.data.on_corrupt is OnCorrupt.STOP:
        records = _endless(payloads(shards), spec, cached)
        images = records.enumerate().map(work, num_parallel_calls=cores)
    else:
        places = Places(shards, spec.skipped.add)
        records = located(shards, places)
        _require_one(work_on_located(records.enumerate(), work, 1, places), spec)
        images = work_on_located(_endless(records, spec, cached).enumerate(), work, cores, places)
    batches = images.batch(spec.batch_size, drop_remainder=True)
    return batches.prefetch(_BATCHES_AHEAD_EACH * spec.replicas).with_options(_options(cores))


def _endless(records: tf.data.Dataset, spec: InputSpec, cached: bool) -> tf.data.Dataset:
    return records.take(1).cache().repeat() if cached else records.repeat().shuffle(_SHUFFLED, seed=spec.seed)


def _require_one(images: tf.data.Dataset, spec: InputSpec) -> None:
    # Else a run would look for a good record for ever.
    if next(iter(images), None) is None:
        raise MeasurementError(f"{spec.data.folder}: all records are corrupt ({spec.skipped}). Write the data anew")


def _options(cores: int) -> tf.data.Options:
    options = tf.data.Options()
    # Each core works on a photograph of its own, and nothing tunes itself while it is measured.
    options.threading.private_threadpool_size = cores
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    options.deterministic = True
    return options


def _work(spec: InputSpec, processing: Processing) -> Work:
    height, width, _ = spec.image_shape

    def work(index: tf.Tensor, payload: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        position = index % spec.batch_size
        seed = tf.stack([tf.constant(spec.seed, tf.int64), index])
        jpeg, label, boxes = _parsed(payload)
        image = tf.image.decode_and_crop_jpeg(jpeg, _window(jpeg, boxes, seed), channels=3)
        # All of a photograph's draws in one operation: each costs as much as a small resize.
        flip, *draws = tf.unstack(tf.random.stateless_uniform([5], seed))
        image = tf.cond(flip < 0.5, lambda: image, lambda: tf.reverse(image, [1]))
        if processing == Processing():
            # Scaled where pixels become floats anyway: the weights of bilinear resizing add up to 1.
            image = tf.image.resize(_scaled(image), (height, width))
        else:
            image = _resized(image, (height, width), position if processing.consistent else None)
            image = _distorted(image, draws, position) if processing.distortions else image * (2 / 255) - 1
        return tf.ensure_shape(image, spec.image_shape), _label(label, spec.num_classes)

    return work


def check(spec: InputSpec) -> Work:
    """What a pipeline does to a record, and the whole photograph decoded: where a crop lies must not decide.

    Gives a number that means nothing.
    """
    work = _work(spec, Processing())

    def thorough(index: tf.Tensor, payload: tf.Tensor) -> tuple[tf.Tensor]:
        image, _ = work(index, payload)
        with tf.control_dependencies([image]):  # of two faults the pipeline's own is told, each time
            whole = tf.io.decode_jpeg(_parsed(payload)[0], channels=3)
        return (tf.reduce_max(image) + tf.cast(tf.reduce_max(whole), tf.float32),)

    return thorough


def _parsed(payload: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """JPEG, label, and boxes [1, n, (ymin, xmin, ymax, xmax)]."""
    box_side = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
    form = {IMAGE: tf.io.FixedLenFeature([], tf.string), LABEL: tf.io.FixedLenFeature([], tf.int64)}
    found = tf.io.parse_single_example(payload, form | dict.fromkeys(BOX, box_side))
    return found[IMAGE], found[LABEL], tf.stack([found[side] for side in BOX], axis=-1)[tf.newaxis]


def _window(jpeg: tf.Tensor, boxes: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A random crop that holds a part of a box: (y, x, height, width), in pixels; the rest is never decoded whole."""
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(jpeg),
        boxes,
        seed,
        min_object_covered=0.1,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(0.05, 1.0),
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.concat([begin[:2], size[:2]], axis=0)


def _scaled(image: tf.Tensor) -> tf.Tensor:
    """uint8 to float32 from -1 to 1, in one pass."""
    pixels = tf.bitcast(image, tf.quint8)
    return tf.raw_ops.Dequantize(input=pixels, min_range=-1.0, max_range=1.0, mode="MIN_COMBINED")


def _resized(image: tf.Tensor, size: tuple[int, int], position: tf.Tensor | None) -> tf.Tensor:
    """float32, 0 to 255; the method goes by `position` in the batch where there is one."""
    if position is None:
        # As floats, because the operation converts each pixel four times otherwise.
        return tf.image.resize(tf.cast(image, tf.float32), size)

    def by(method: str) -> tf.Tensor:
        resized = tf.cast(tf.image.resize(image, size, method), tf.float32)
        return tf.clip_by_value(resized, 0.0, 255.0) if method in _OVERSHOOTING else resized

    return tf.switch_case(tf.cast(position % len(_METHODS), tf.int32), [lambda m=m: by(m) for m in _METHODS])


def _distorted(image: tf.Tensor, draws: list[tf.Tensor], position: tf.Tensor) -> tf.Tensor:
    """From 0 to 255 to -1 to 1, with other colours; contrast comes last at even positions, second at odd ones."""
    brightness, saturation, hue, contrast = draws
    image = image * (1 / 255) + (brightness * 2 - 1) * (32 / 255)

    def coloured(image: tf.Tensor) -> tf.Tensor:
        image = tf.image.adjust_saturation(image, saturation + 0.5)
        return tf.image.adjust_hue(image, (hue * 2 - 1) * 0.2)

    def contrasted(image: tf.Tensor) -> tf.Tensor:
        return tf.image.adjust_contrast(image, contrast + 0.5)

    image = tf.cond(position % 2 == 0, lambda: contrasted(coloured(image)), lambda: coloured(contrasted(image)))
    return tf.clip_by_value(image * 2 - 1, -1.0, 1.0)


def _label(label: tf.Tensor, num_classes: int) -> tf.Tensor:
    """1 to 1000 as it is where there is a class 0 for the background (1001 classes), from 0 where there are 1000.

    Fewer classes share the labels.
    """
    first = 1 if num_classes == 1000 else 0
    return tf.cast(tf.math.floormod(label - first, num_classes), tf.int32)
