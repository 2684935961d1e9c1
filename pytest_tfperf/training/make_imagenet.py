"""Writes a small data set with ImageNet's schema and sizes, made of real photographs; `tfperf make-imagenet` runs it.

The photographs are those in colour that scikit-image ships and that are large enough to be cropped without enlarging.
What an input pipeline costs depends on the JPEGs' sizes, in pixels and in bytes, and on their texture.
"""

from __future__ import annotations

import io
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.data_sets import BOX, IMAGE, LABEL
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.data_set_command import run

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


def make_imagenet(folder: Path, images: int, shards: int, seed: int) -> str:
    """Write `images` photographs into `folder`, in `shards` files, all or nothing; one seed gives the same files.

    Returns a sentence about what was written.

    Raises:
        TfperfError: impossible counts, a folder that isn't empty or can't be written, or missing packages.
    """
    if not 1 <= shards <= images:
        raise TfperfError(f"--images {images} --shards {shards}: give at least one image for each shard")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TfperfError(f"{folder} exists and is not an empty folder: name a new one, or remove it first")
    try:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no device is used, so nothing that it logs matters
        import tensorflow as tf

        photographs = _photographs()
    except (ImportError, OSError) as error:
        raise TfperfError(
            f"make-imagenet needs TensorFlow, scikit-image and pillow, and {sys.executable} can't load one: {error}. "
            "pip install 'scikit-image>=0.22' 'pillow>=10.3', or in a checkout pip install -e '.[data]'"
        ) from error
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
            unfinished = Path(temporary) / "set"
            unfinished.mkdir()
            jpeg_bytes = _write(unfinished, photographs, images, shards, random.Random(seed))
            unfinished.replace(folder)  # also replaces an empty folder
    except (OSError, tf.errors.OpError) as error:
        raise TfperfError(f"{folder} can't be written: {error}. Name another folder") from error
    return (
        f"{folder}: {images:,} images in {shards} shard(s), {jpeg_bytes / 1e6:,.1f} MB; "
        f"a JPEG has {jpeg_bytes / images / 1000:.1f} kB on average"
    )


def _photographs() -> list[Image]:
    """In RGB; each is large enough for one of the sizes."""
    from PIL import Image

    found = find_spec("skimage")  # not imported: that takes a second, and only its files are needed
    if found is None or found.origin is None:
        raise ImportError("No module named 'skimage'")
    folder = Path(found.origin).parent / "data"
    return [Image.open(folder / name).convert("RGB") for name in _PHOTOGRAPHS]


def _write(folder: Path, photographs: Sequence[Image], images: int, shards: int, rng: random.Random) -> int:
    """Write all shards; returns the bytes of all JPEGs."""
    import tensorflow as tf

    jpeg_bytes = 0
    for shard in range(shards):
        path = folder / f"train-{shard:05d}-of-{shards:05d}"
        with tf.io.TFRecordWriter(str(path)) as file:
            for _ in range(shard * images // shards, (shard + 1) * images // shards):
                jpeg = _jpeg(rng.choice(photographs), rng)
                file.write(_example(jpeg, rng).SerializeToString(deterministic=True))
                jpeg_bytes += len(jpeg)
    return jpeg_bytes


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


def _example(jpeg: bytes, rng: random.Random) -> tf.train.Example:
    """The JPEG with a random label and box."""
    import tensorflow as tf

    example = tf.train.Example()
    feature = example.features.feature
    feature[IMAGE].bytes_list.value.append(jpeg)
    feature[LABEL].int64_list.value.append(rng.randint(1, 1000))
    ymin, xmin = rng.uniform(0, 0.5), rng.uniform(0, 0.5)
    for side, value in zip(BOX, (ymin, xmin, ymin + 0.5, xmin + 0.5), strict=True):
        feature[side].float_list.value.append(value)
    return example


if __name__ == "__main__":
    sys.exit(run(make_imagenet, *sys.argv[1:]))
