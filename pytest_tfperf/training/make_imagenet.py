"""Writes a small data set with ImageNet's schema and sizes, made of real photographs; `tfperf make-imagenet` runs it.

The photographs are those in colour that scikit-image ships and that are large enough to be cropped without enlarging.
What an input pipeline costs depends on the JPEGs' sizes, in pixels and in bytes, and on their texture.
"""

from __future__ import annotations

import io
import os
import random
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.data_sets import BOX, IMAGE, IMAGES, LABEL
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.data_set_command import run, write

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
    """Write `images` photographs into `folder`, in `shards` files; one seed gives the same files.

    Returns a sentence about what was written.

    Raises:
        TfperfError: impossible counts, missing packages, or a folder that can't be written or has such files already.
    """
    if not 1 <= shards <= images:
        raise TfperfError(f"--images {images} --shards {shards}: give at least one image for each shard")
    try:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no device is used, so nothing that it logs matters
        import tensorflow as tf  # noqa: F401

        photographs = _photographs()
    except (ImportError, OSError) as error:
        raise TfperfError(
            f"make-imagenet needs TensorFlow, scikit-image and pillow, and {sys.executable} can't load one: {error}. "
            "pip install 'scikit-image>=0.22' 'pillow>=10.3', or in a checkout pip install -e '.[data]'"
        ) from error
    size = write(folder, IMAGES, _examples(photographs, random.Random(seed)), images, shards)
    return (
        f"{folder}: {images:,} images in {shards} shard(s), {size / 1e6:,.1f} MB; "
        f"a record has {size / images / 1000:.1f} kB on average"
    )


def _photographs() -> list[Image]:
    """In RGB; each is large enough for one of the sizes."""
    from PIL import Image

    found = find_spec("skimage")  # not imported: that takes a second, and only its files are needed
    if found is None or found.origin is None:
        raise ImportError("No module named 'skimage'")
    folder = Path(found.origin).parent / "data"
    return [Image.open(folder / name).convert("RGB") for name in _PHOTOGRAPHS]


def _examples(photographs: Sequence[Image], rng: random.Random) -> Iterator[tf.train.Example]:
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


if __name__ == "__main__":
    sys.exit(run(make_imagenet, *sys.argv[1:]))
