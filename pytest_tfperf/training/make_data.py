"""Writes a small data set: photographs of ImageNet's schema, or token ids with the features of BERT's classifier.

`tfperf make-imagenet` and `tfperf make-tokens` run it where TensorFlow can be loaded. The photographs are
scikit-image's, in colour and large enough to be cropped without enlarging: the cost of an input pipeline depends on the
JPEGs' sizes, in pixels and in bytes, and on their texture. The cost of reading texts depends on the number and size of
the ids, which are BERT's: 128 of a vocabulary of 30,522. Texts of class 1 often have a word that others never have.
"""

from __future__ import annotations

import io
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from pytest_tfperf.core.data_sets import BOX, IMAGE, IMAGES, LABEL, TEXT_LABEL, TOKENS, DataSet
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_USAGE
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.lines import printable

if TYPE_CHECKING:
    import tensorflow as tf
    from PIL.Image import Image

_PHOTOGRAPHS = (
    "astronaut.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "ihc.png",  # tissue under a microscope
    "motorcycle_left.png",
    "motorcycle_right.png",
)
_SIZES = ((500, 375), (500, 375), (500, 375), (375, 500), (500, 333))  # three in five are 500x375
# Gives about 110 kB on average, as ImageNet's training images have: 1.28 million in 138 GB, without the largest.
_QUALITY = 97
_LENGTH, _SHORTEST = 128, 16
_WORDS = range(1000, 30522)  # below are BERT's special tokens
_START, _END, _TELLING = 101, 102, 999


def make_data(kind: str, folder: Path, count: int, shards: int, seed: int) -> str:
    """Write `count` examples of `kind`, "imagenet" or "tokens", in `shards` files; one seed gives the same files.

    The folder may hold the other kind. Returns a sentence about what was written.

    Raises:
        TfperfError: impossible counts, missing packages, or a folder that can't be written or has such files already.
    """
    is_images = kind == "imagenet"
    data, example = (IMAGES, "image") if is_images else (TOKENS, "text")
    if not 1 <= shards <= count:
        raise TfperfError(f"--{example}s {count} --shards {shards}: give at least one {example} for each shard")
    with worded(folder, "written", "Name another folder"):  # before seconds go by in which TensorFlow is imported
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob(f"{data.prefix}-*")):
            raise TfperfError(f"{folder} has files {data.prefix}-...: name another folder, or remove them first")
    try:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no device is used, so nothing that it logs matters
        import tensorflow as tf  # noqa: F401

        photographs = _photographs() if is_images else []
    except (ImportError, OSError) as error:
        needed = "TensorFlow, scikit-image and pillow" if is_images else "TensorFlow"
        raise TfperfError(
            f"make-{kind} needs {needed}, and {sys.executable} can't load {'one' if is_images else 'it'}: {error}",
            next_step="pip install 'pytest-tfperf[data]'",
        ) from error
    rng = random.Random(seed)
    examples = _image_examples(photographs, rng) if is_images else _text_examples(rng)
    size = _write(folder, data, examples, count, shards)
    written = f"{folder}: {count:,} {example}s{'' if is_images else f' of {_LENGTH} tokens'} in {shards} shard(s)"
    average = f"; a record has {size / count / 1000:.1f} kB on average" if is_images else ""
    return f"{written}, {size / 1e6:,.1f} MB{average}"


def _photographs() -> list[Image]:
    """In RGB; each is large enough for at least one of the sizes."""
    from PIL import Image

    package = find_spec("skimage")  # not imported: that takes a second, and only its files are needed
    if package is None or package.origin is None:
        raise ImportError("No module named 'skimage'")
    folder = Path(package.origin).parent / "data"
    return [Image.open(folder / name).convert("RGB") for name in _PHOTOGRAPHS]


def _image_examples(photographs: Sequence[Image], rng: random.Random) -> Iterator[tf.train.Example]:
    """Random crops, each with a random label and box; endless."""
    import tensorflow as tf

    while True:
        example = tf.train.Example()
        feature = example.features.feature
        feature[IMAGE].bytes_list.value.append(_jpeg(rng.choice(photographs), rng))
        feature[LABEL].int64_list.value.append(rng.randint(1, 1000))
        ymin, xmin = rng.uniform(0, 0.5), rng.uniform(0, 0.5)
        for side, value in zip(BOX, (ymin, xmin, ymin + 0.5, xmin + 0.5), strict=True):
            feature[side].float_list.value.append(value)
        yield example


def _jpeg(photograph: Image, rng: random.Random) -> bytes:
    """A random crop of one of the sizes."""
    width, height = rng.choice(
        [size for size in _SIZES if size[0] <= photograph.width and size[1] <= photograph.height]
    )
    left, top = rng.randint(0, photograph.width - width), rng.randint(0, photograph.height - height)
    file = io.BytesIO()
    crop = photograph.crop((left, top, left + width, top + height))
    crop.save(file, "JPEG", quality=_QUALITY, subsampling="4:2:0")
    return file.getvalue()


def _text_examples(rng: random.Random) -> Iterator[tf.train.Example]:
    """Texts of random words and lengths; endless."""
    import tensorflow as tf

    while True:
        label, length = rng.randrange(2), rng.randint(_SHORTEST, _LENGTH)
        words = [_TELLING if label and rng.random() < 0.125 else rng.choice(_WORDS) for _ in range(length - 2)]
        padding = [0] * (_LENGTH - length)
        example = tf.train.Example()
        feature = example.features.feature
        feature["input_ids"].int64_list.value.extend([_START, *words, _END, *padding])
        feature["input_mask"].int64_list.value.extend([1] * length + padding)
        feature["segment_ids"].int64_list.value.extend([0] * _LENGTH)
        feature[TEXT_LABEL].int64_list.value.append(label)
        yield example


def _write(folder: Path, data: DataSet, examples: Iterator[tf.train.Example], count: int, shards: int) -> int:
    """Write the files, all or none; returns their bytes."""
    import tensorflow as tf

    try:
        with (
            worded(folder, "written", "Name another folder"),
            tempfile.TemporaryDirectory(prefix=f".{data.prefix}-", dir=folder) as unfinished,
        ):
            for shard in range(shards):
                path = Path(unfinished) / f"{data.prefix}-{shard:05d}-of-{shards:05d}"
                with tf.io.TFRecordWriter(str(path)) as file:
                    for example in islice(examples, (shard + 1) * count // shards - shard * count // shards):
                        file.write(example.SerializeToString(deterministic=True))
            files = sorted(Path(unfinished).iterdir())
            size = sum(file.stat().st_size for file in files)
            for path in files:
                path.rename(folder / path.name)
    except tf.errors.OpError as error:
        raise TfperfError(f"{folder} can't be written: {error}", next_step="Name another folder") from error
    return size


def main(kind: str, folder: str, *counts: str) -> int:
    """Do as `make_data`, and print its sentence; returns the exit status, 4 if nothing was written."""
    try:
        print(printable(make_data(kind, Path(folder), *map(int, counts))))
    except TfperfError as error:
        print(printable(f"tfperf: {error}"), file=sys.stderr)
        return EXIT_USAGE
    print(printable(f"use it: pytest perf_tests --tfperf-data-dir={quote(str(Path(folder).resolve()))}"))
    return EXIT_GREEN


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
