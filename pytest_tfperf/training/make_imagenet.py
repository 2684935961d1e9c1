"""Writes a small data set with ImageNet's schema and sizes, made of real photographs; `tfperf make-imagenet` runs it.

The photographs are those in colour that scikit-image ships and that are large enough to be cropped without enlarging.
What an input pipeline costs depends on the JPEGs' sizes, in pixels and in bytes, and on their texture. So the crops are
encoded to the sizes of ImageNet's training images, as far as a quality that cameras write allows.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_tfperf.core.image_data import BOX, IMAGE, LABEL, TEXT
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    import tensorflow as tf
    from PIL.Image import Image

    Photograph = tuple[str, Image]

LABELS = 1000
MEAN_BYTES = 110_000
"""Of ImageNet's training images: 1.28 million in 138 GB, a bit less without the largest."""

_PHOTOGRAPHS = (
    "astronaut.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "ihc.png",  # tissue under a microscope
    "motorcycle_left.png",
    "motorcycle_right.png",
)
_SIZES = ((500, 375), (500, 375), (500, 375), (375, 500), (500, 333))  # three in five are 500x375
_BYTES_SPREAD = 0.25  # standard deviation of a size's logarithm
_QUALITIES = (30, 97)
_WRONG_ARGUMENTS = 4  # the exit status, as pytest's


def make_imagenet(folder: Path, images: int = 512, shards: int = 8, seed: int = 1) -> str:
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


def _photographs() -> list[Photograph]:
    """Name and picture, RGB; each is large enough for one of the sizes."""
    from PIL import Image

    found = find_spec("skimage")  # not imported: that takes a second, and only its files are needed
    if found is None or found.origin is None:
        raise ImportError("No module named 'skimage'")
    folder = Path(found.origin).parent / "data"
    return [(Path(name).stem, Image.open(folder / name).convert("RGB")) for name in _PHOTOGRAPHS]


def _write(folder: Path, photographs: Sequence[Photograph], images: int, shards: int, rng: random.Random) -> int:
    """Write all shards; returns the bytes of all JPEGs."""
    import tensorflow as tf

    jpeg_bytes = 0
    for shard in range(shards):
        path = folder / f"train-{shard:05d}-of-{shards:05d}"
        with tf.io.TFRecordWriter(str(path)) as file:
            for number in range(shard * images // shards, (shard + 1) * images // shards):
                example, size = _example(photographs, number, rng)
                file.write(example.SerializeToString(deterministic=True))
                jpeg_bytes += size
    return jpeg_bytes


def _example(photographs: Sequence[Photograph], number: int, rng: random.Random) -> tuple[tf.train.Example, int]:
    """A random crop as an Example, and its JPEG's bytes; each label has one photograph, and several crops of it."""
    import tensorflow as tf

    label = rng.randint(1, LABELS)
    name, photograph = photographs[label % len(photographs)]
    fitting = [size for size in _SIZES if size[0] <= photograph.width and size[1] <= photograph.height]
    width, height = rng.choice(fitting)
    jpeg = _encoded(_crop(photograph, width, height, rng), MEAN_BYTES * rng.lognormvariate(0, _BYTES_SPREAD))
    features: dict[str, bytes | int | float] = {
        IMAGE: jpeg,
        LABEL: label,
        TEXT: name.encode(),
        "image/class/synset": f"n{label:08d}".encode(),
        "image/height": height,
        "image/width": width,
        "image/channels": 3,
        "image/colorspace": b"RGB",
        "image/format": b"JPEG",
        "image/filename": f"{name}_{number:06d}.JPEG".encode(),
        "image/object/bbox/label": label,
        **dict(zip(BOX, _box(rng), strict=True)),
    }
    example = tf.train.Example()
    for key, value in features.items():
        feature = example.features.feature[key]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        elif isinstance(value, float):
            feature.float_list.value.append(value)
        else:
            feature.int64_list.value.append(value)
    return example, len(jpeg)


def _crop(photograph: Image, width: int, height: int, rng: random.Random) -> Image:
    """A random part of the photograph with this shape, mirrored in half of the cases; nothing is enlarged."""
    from PIL.Image import Resampling, Transpose

    scale = rng.uniform(1, min(photograph.width / width, photograph.height / height))
    left = rng.uniform(0, photograph.width - width * scale)
    top = rng.uniform(0, photograph.height - height * scale)
    right, bottom = min(left + width * scale, photograph.width), min(top + height * scale, photograph.height)
    part = photograph.resize((width, height), Resampling.BICUBIC, box=(left, top, right, bottom))
    return part.transpose(Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part


def _encoded(image: Image, wanted_bytes: float) -> bytes:
    """The JPEG of the lowest quality at which it has at least so many bytes, or of the highest quality."""
    low, high = _QUALITIES
    while low < high:
        middle = (low + high) // 2
        if len(_jpeg(image, middle)) < wanted_bytes:
            low = middle + 1
        else:
            high = middle
    return _jpeg(image, low)


def _jpeg(image: Image, quality: int) -> bytes:
    file = io.BytesIO()
    options: dict[str, Any] = {"quality": quality, "subsampling": "4:2:0"}
    image.save(file, "JPEG", **options)
    return file.getvalue()


def _box(rng: random.Random) -> tuple[float, float, float, float]:
    """ymin, xmin, ymax, xmax of one box that takes at least a third of each side."""
    (ymin, ymax), (xmin, xmax) = ((start := rng.uniform(0, 0.6), rng.uniform(start + 0.33, 1)) for _ in range(2))
    return ymin, xmin, ymax, xmax


def main() -> int:
    """Parse the command line and write the data set; returns the exit status, 4 if nothing was written."""
    parser = argparse.ArgumentParser(prog="tfperf make-imagenet", description="write a small set of photographs")
    parser.add_argument("folder", type=Path, metavar="DIR")
    for name, default in (("--images", 512), ("--shards", 8), ("--seed", 1)):
        parser.add_argument(name, type=int, default=default, metavar="N")
    arguments = parser.parse_args()
    try:
        print(make_imagenet(arguments.folder, arguments.images, arguments.shards, arguments.seed))
    except TfperfError as error:
        print(f"tfperf: {error}", file=sys.stderr)
        return _WRONG_ARGUMENTS
    print(f"use it: pytest perf_tests --tfperf-data-dir={arguments.folder.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
