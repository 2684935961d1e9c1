"""From a record to an image that a model takes: crop, decode, flip, resize, distort, scale; as tf_cnn_benchmarks does.

Every random choice is drawn from the seed and the record's index in reading order. So runs with one seed do the same
work, however many threads do it: the position of a crop decides how long decoding takes.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from pytest_tfperf.core.data_sets import BOX, IMAGE, IMAGES, LABEL, shards
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.training.devices import max_threads
from pytest_tfperf.training.input_spec import InputSpec

_SHARDS_AT_ONCE = 10  # as tf_cnn_benchmarks reads them
_RECORDS_IN_A_ROW = 16
_READ_BUFFER_BYTES = 1 << 20
_SHUFFLED = 1024  # records, or 110 MB of them; tf_cnn_benchmarks' 10,000 take a gigabyte
_BATCHES_AHEAD_EACH = 2
_METHODS = ("bilinear", "nearest", "bicubic", "area")
_OVERSHOOTING = ("bicubic", "area")  # bicubic at edges, area by rounding

_SEARCH_SECONDS = 60.0

# TensorFlow quotes a record that it can't parse, and Python then can't decode the quotation.
_CORRUPT = (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError)

# The parts of TensorFlow's text that name its graph's nodes and iterators, and that quote a record.
_INTERNAL = re.compile(
    r"\{\{function_node [^}]*\}\} |Error in user-defined function .*? with iterator: \S+: |"
    r", value: .*|\s*\[\[.*| \[Op:.*",
    re.DOTALL,
)


def photographs(
    spec: InputSpec, *, distortions: bool = False, consistent: bool = False, cached: bool = False
) -> tf.data.Dataset:
    """Endless batches of the data set's photographs; of the same one again and again if `cached`.

    `distortions` change brightness, saturation, hue and contrast. With `consistent` they are resized by bilinear,
    nearest, bicubic and area in turn, not by bilinear alone.

    Raises:
        NoData, MeasurementError: there is no data set, see `data_sets.shards`.
    """
    records, threads = read_once(spec), max_threads()
    records = records.take(1).cache().repeat() if cached else records.repeat().shuffle(_SHUFFLED, seed=spec.seed)
    images = records.enumerate().map(process(spec, distortions, consistent), num_parallel_calls=threads)
    batches = images.batch(spec.batch_size, drop_remainder=True)
    return batches.prefetch(_BATCHES_AHEAD_EACH * spec.replicas).with_options(_options(threads))


def read_once(spec: InputSpec) -> tf.data.Dataset:
    """Each record of the data set once, serialised; the seed draws the shards' order, and several are read in turn."""
    paths = _in_reading_order(spec)
    # Two threads read fast enough for many cores; more of them spend more time on handing over than on reading.
    return tf.data.Dataset.from_tensor_slices(paths).interleave(
        lambda path: tf.data.TFRecordDataset(path, buffer_size=_READ_BUFFER_BYTES),
        cycle_length=min(_SHARDS_AT_ONCE, len(paths)),
        block_length=_RECORDS_IN_A_ROW,
        num_parallel_calls=min(2, len(paths)),
    )


def process(
    spec: InputSpec, distortions: bool = False, consistent: bool = False
) -> Callable[[tf.Tensor, tf.Tensor], Any]:
    """A function from a record's index in reading order and its bytes to image and label; see `photographs`."""
    height, width, _ = spec.image_shape

    def work(index: tf.Tensor, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        position = index % spec.batch_size
        seed = tf.stack([tf.constant(spec.seed, tf.int64), index])
        jpeg, label, boxes = _parsed(record)
        image = tf.image.decode_and_crop_jpeg(jpeg, _crop(jpeg, boxes, seed), channels=3)
        # All of a photograph's random numbers in one operation, which costs as much as a small resize.
        flip, *draws = tf.unstack(tf.random.stateless_uniform([5], seed))
        image = tf.cond(flip < 0.5, lambda: image, lambda: tf.reverse(image, [1]))
        if distortions or consistent:
            image = _resized(image, (height, width), position if consistent else None)
            image = _distorted(image, draws, position) if distortions else image * (2 / 255) - 1
        else:
            # Scaled where pixels become floats anyway: the weights of bilinear resizing add up to 1.
            image = tf.image.resize(_scaled(image), (height, width))
        return tf.ensure_shape(image, spec.image_shape), _label(label, spec.num_classes)

    return work


@contextmanager
def naming_corrupt(spec: InputSpec) -> Iterator[None]:
    """Raise a MeasurementError that names record and shard if TensorFlow stops at a corrupt record in this block.

    TensorFlow's error names neither; so the shards are read again, for at most a minute, until a record fails.
    """
    try:
        yield
    except _CORRUPT as error:
        if corrupt := _first_corrupt(spec):
            raise MeasurementError(f"{corrupt}", *IMAGES.expected, next_step="Write the data set again.") from error
        raise


def _first_corrupt(spec: InputSpec) -> str:
    """Shard, number and TensorFlow's text of the first record that can't be read, parsed, cropped or decoded."""
    work = process(spec)

    def check(index: tf.Tensor, record: tf.Tensor) -> tuple[Any, tf.Tensor]:
        # The whole image as well, because another crop of it may have failed.
        return work(index, record), tf.shape(tf.io.decode_jpeg(_parsed(record)[0], channels=3))

    ends = time.monotonic() + _SEARCH_SECONDS
    for path in map(Path, _in_reading_order(spec)):
        number = 0
        records = tf.data.TFRecordDataset(str(path)).enumerate().map(check, num_parallel_calls=max_threads())
        try:
            for _ in records:
                number += 1
                if time.monotonic() > ends:
                    return ""
        except _CORRUPT as error:
            return f"record {number} of {path.name} in {path.parent} is corrupt: {_tensorflows_text(error)}"
    return ""


def _tensorflows_text(error: Any) -> str:
    text = error.object.decode(errors="backslashreplace") if isinstance(error, UnicodeDecodeError) else error.message
    return " ".join(_INTERNAL.sub("", text).split()).rstrip(".")[:200]


def _in_reading_order(spec: InputSpec) -> list[str]:
    paths = list(shards(spec.data_dir, IMAGES))
    random.Random(spec.seed).shuffle(paths)
    return paths


def _options(threads: int) -> tf.data.Options:
    options = tf.data.Options()
    # Each core processes one photograph at a time, and nothing tunes itself while it is measured.
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    options.deterministic = True
    return options


def _parsed(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """JPEG, label, and boxes [1, n, (ymin, xmin, ymax, xmax)]."""
    box_side = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
    features = {IMAGE: tf.io.FixedLenFeature([], tf.string), LABEL: tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_single_example(record, features | dict.fromkeys(BOX, box_side))
    return parsed[IMAGE], parsed[LABEL], tf.stack([parsed[side] for side in BOX], axis=-1)[tf.newaxis]


def _crop(jpeg: tf.Tensor, boxes: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A random crop that contains a part of a box: (y, x, height, width), in pixels; only the crop is decoded."""
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
    """float32, 0 to 255; `position` in the batch selects the method, None is bilinear."""
    if position is None:
        # As floats, because the operation converts each pixel four times otherwise.
        return tf.image.resize(tf.cast(image, tf.float32), size)

    def by(method: str) -> tf.Tensor:
        resized = tf.cast(tf.image.resize(image, size, method), tf.float32)
        return tf.clip_by_value(resized, 0.0, 255.0) if method in _OVERSHOOTING else resized

    return tf.switch_case(tf.cast(position % len(_METHODS), tf.int32), [lambda m=m: by(m) for m in _METHODS])


def _distorted(image: tf.Tensor, draws: list[tf.Tensor], position: tf.Tensor) -> tf.Tensor:
    """From [0, 255] to [-1, 1], with changed colours; contrast changes last at even positions, second at odd ones."""
    brightness, saturation, hue, contrast = draws
    image = image * (1 / 255) + (brightness * 2 - 1) * (32 / 255)

    def change_colour(image: tf.Tensor) -> tf.Tensor:
        image = tf.image.adjust_saturation(image, saturation + 0.5)
        return tf.image.adjust_hue(image, (hue * 2 - 1) * 0.2)

    def change_contrast(image: tf.Tensor) -> tf.Tensor:
        return tf.image.adjust_contrast(image, contrast + 0.5)

    image = tf.cond(
        position % 2 == 0,
        lambda: change_contrast(change_colour(image)),
        lambda: change_colour(change_contrast(image)),
    )
    return tf.clip_by_value(image * 2 - 1, -1.0, 1.0)


def _label(label: tf.Tensor, num_classes: int) -> tf.Tensor:
    """The label 1 to 1000 where class 0 is the background (1001 classes), 0 to 999 for 1000 classes, else modulo."""
    first = 1 if num_classes == 1000 else 0
    return tf.cast(tf.math.floormod(label - first, num_classes), tf.int32)
