"""Writes a small data set of ImageNet's schema and sizes, made of real photographs.

The photographs are those in colour that scikit-image ships and that are large enough to be cropped without being
enlarged. What an input pipeline costs depends on the JPEGs' sizes, in pixels and in bytes, and on their texture; so the
crops are encoded to the sizes that ImageNet's training images have, as far as a quality that cameras write allows.
"""

from __future__ import annotations

import io
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_tfperf.core.image_data import BOX, IMAGE, LABEL, TEXT
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.training.tfrecord import Value, example, framed

if TYPE_CHECKING:
    from PIL.Image import Image

LABELS = 1000
MEAN_BYTES = 110_000
"""Of ImageNet's training images: 1.28 million in 138 GB, a bit less where the largest are left out."""

_PHOTOGRAPHS = (
    "astronaut.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "ihc.png",  # tissue under a microscope
    "motorcycle_left.png",
    "motorcycle_right.png",
)
_SIZES = ((500, 375), (500, 375), (500, 375), (375, 500), (500, 333))  # as often as they stand here
_BYTES_SPREAD = 0.25  # standard deviation of a size's logarithm
_QUALITIES = (30, 97)
_MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was written."""

    folder: Path
    images: int
    shards: int
    jpeg_bytes: int
    width: float
    height: float

    def __str__(self) -> str:
        kilobytes = self.jpeg_bytes / self.images / 1000
        return (
            f"{self.folder}: {self.images:,} images in {self.shards} shard(s), {self.jpeg_bytes / 1e6:,.1f} MB; "
            f"a JPEG has {kilobytes:.1f} kB and {self.width:.0f}x{self.height:.0f} pixels in the mean"
        )


def make_imagenet(folder: Path, images: int = 512, shards: int = 8, seed: int = 1) -> Made:
    """Write `images` photographs into `folder`, in `shards` files; all or nothing. One seed gives the same files.

    Raises:
        TfperfError: counts that can't be, a folder that isn't empty or can't be written, or the packages are missing.
    """
    if not 1 <= shards <= images <= _MOST:
        raise TfperfError(
            f"--images {images} --shards {shards}: at least one image for each shard, and at most {_MOST:,}"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TfperfError(f"{folder} exists and is not an empty folder: name a new one, or remove it first")
    photographs = _photographs()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            sizes = _write(unfinished, photographs, images, shards, random.Random(seed))
            unfinished.chmod(0o755)
            unfinished.replace(folder)  # an empty folder gives way
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise TfperfError(f"{folder} can't be written: {error.strerror or error}. Name another folder") from error
    count = len(sizes)
    return Made(
        folder=folder,
        images=count,
        shards=shards,
        jpeg_bytes=sum(size for size, _, _ in sizes),
        width=sum(width for _, width, _ in sizes) / count,
        height=sum(height for _, _, height in sizes) / count,
    )


def _photographs() -> list[tuple[str, Image]]:
    """Name and picture, RGB; each is large enough for one of the sizes."""
    try:
        from PIL import Image

        found = find_spec("skimage")
    except ImportError:
        found = None
    if found is None or not found.submodule_search_locations:
        raise TfperfError(
            "the photographs come from scikit-image, and pillow encodes them: "
            "pip install 'scikit-image>=0.22' 'pillow>=10.3', or in a checkout pip install -e '.[data]'"
        )
    # Not imported: that takes a second, and only its files are wanted.
    folder = Path(found.submodule_search_locations[0]) / "data"
    there = [folder / name for name in _PHOTOGRAPHS if (folder / name).exists()]
    if not there:
        raise TfperfError(f"this scikit-image has none of {', '.join(_PHOTOGRAPHS)} in {folder}: take 0.22 or newer")
    return [(path.stem, Image.open(path).convert("RGB")) for path in there]


def _write(
    folder: Path, photographs: Sequence[tuple[str, Image]], images: int, shards: int, rng: random.Random
) -> list[tuple[int, int, int]]:
    """Bytes, width and height of each image, in their order; each label has one photograph, and several crops of it."""
    sizes = []
    made = _samples(photographs, images, rng)
    for shard in range(shards):
        name = f"train-{shard:05d}-of-{shards:05d}"
        with (folder / name).open("wb") as file:
            for _ in range(shard * images // shards, (shard + 1) * images // shards):
                features, size = next(made)
                file.write(framed(example(features)))
                sizes.append(size)
    return sizes


def _samples(
    photographs: Sequence[tuple[str, Image]], images: int, rng: random.Random
) -> Iterator[tuple[dict[str, Value], tuple[int, int, int]]]:
    for number in range(images):
        label = rng.randint(1, LABELS)
        name, photograph = photographs[label % len(photographs)]
        width, height = rng.choice([size for size in _SIZES if _holds(photograph.size, size)])
        jpeg = _encoded(_crop(photograph, width, height, rng), MEAN_BYTES * rng.lognormvariate(0, _BYTES_SPREAD))
        features: dict[str, Value] = {
            IMAGE: [jpeg],
            LABEL: [label],
            TEXT: [name.encode()],
            "image/class/synset": [f"n{label:08d}".encode()],
            "image/height": [height],
            "image/width": [width],
            "image/channels": [3],
            "image/colorspace": [b"RGB"],
            "image/format": [b"JPEG"],
            "image/filename": [f"{name}_{number:06d}.JPEG".encode()],
            "image/object/bbox/label": [label],
            **dict(zip(BOX, _box(rng), strict=True)),
        }
        yield features, (len(jpeg), width, height)


def _holds(whole: tuple[int, int], size: tuple[int, int]) -> bool:
    return whole[0] >= size[0] and whole[1] >= size[1]


def _crop(photograph: Image, width: int, height: int, rng: random.Random) -> Image:
    """A part of the photograph, with this shape, somewhere in it, mirrored half of the times."""
    from PIL.Image import Resampling, Transpose

    part = photograph.resize((width, height), Resampling.BICUBIC, box=_part(photograph.size, (width, height), rng))
    return part.transpose(Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part


def _part(whole: tuple[int, int], size: tuple[int, int], rng: random.Random) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of a part that has `size`'s shape and is at least as large: nothing is enlarged."""
    scale = rng.uniform(1, min(whole[0] / size[0], whole[1] / size[1]))
    width, height = size[0] * scale, size[1] * scale
    left, top = rng.uniform(0, whole[0] - width), rng.uniform(0, whole[1] - height)
    return left, top, min(left + width, whole[0]), min(top + height, whole[1])


def _encoded(image: Image, wanted_bytes: float) -> bytes:
    """The JPEG of the quality at which it has at least so many bytes, or the best that there is."""
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


def _box(rng: random.Random) -> tuple[list[float], list[float], list[float], list[float]]:
    """ymin, xmin, ymax, xmax of one box that takes at least a third of each side."""
    (ymin, ymax), (xmin, xmax) = ((start := rng.uniform(0, 0.6), rng.uniform(start + 0.33, 1)) for _ in range(2))
    return [ymin], [xmin], [ymax], [xmax]
