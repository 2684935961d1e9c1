"""Images/s of the ImageNet input pipelines by themselves, against the decoder alone and tf_cnn_benchmarks' own.

    python benchmarks/pipelines.py DIR [--rounds 3] [--tf-cnn-benchmarks CHECKOUT]

DIR is a data set; `tfperf make-imagenet DIR` writes one. A checkout is one of github.com/tensorflow/benchmarks. Each
figure is the median over rounds of fresh processes that alternate. All use all cores.

decode          libjpeg-turbo's fused decode and crop by TensorFlow's operation, of the same photographs and crops, held
                in memory; nothing else: what a pipeline can reach at most
decode-resize   the same, and resized by TensorFlow's bilinear operation, which no pipeline of its can do without
others          ours by name; tf-cnn and tf-cnn-distortions are tf_cnn_benchmarks'
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OURS = ("imagenet", "imagenet-cached", "imagenet-consistent", "imagenet-distortions")
THEIRS = ("tf-cnn", "tf-cnn-distortions")
BATCH = 64
CORES = len(os.sched_getaffinity(0))
PARTNER = {"imagenet-distortions": "tf-cnn-distortions"}


def spec(data: str, side: int) -> Any:
    from pytest_tfperf import InputSpec

    shape = (side, side, 3)
    return InputSpec.of_images(shape, 1001, batch_size=BATCH, replicas=1, seed=1, data_dir=data)


def ours(name: str, data: str, side: int) -> Callable[[], object]:
    """The pipeline as a window of imagenet-only reads it, a batch a call."""
    import tensorflow as tf

    from pytest_tfperf.core.workload import Workload
    from pytest_tfperf.training.inputs import feed
    from pytest_tfperf.training.loading import load_pipeline
    from pytest_tfperf.training.loop import InputLoop
    from pytest_tfperf.workers import catalogue

    assert name in catalogue.names("pipelines")
    workload = Workload(model="trivial", batch_size=BATCH, input_pipeline=name)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    loop = InputLoop(strategy, feed(strategy, load_pipeline(workload, spec(data, side))), workload, BATCH, "images")
    return lambda: loop.run(1)


def decode(data: str, side: int, resize: bool = False) -> Callable[[], object]:
    """Fused decode and crop alone, over the photographs and crops of our pipeline's first images."""
    import tensorflow as tf

    from pytest_tfperf.training import photographs

    asked = spec(data, side)
    found = []
    for index, record in photographs.read_once(asked).take(2048).enumerate():
        jpeg, _, boxes = photographs._parsed(record)
        seed = tf.stack([tf.constant(asked.seed, tf.int64), index])
        found.append((jpeg, photographs._crop(jpeg, boxes, seed)))
    held = [tf.stack(part) for part in zip(*found, strict=True)]

    def work(index: tf.Tensor) -> tf.Tensor:
        image = tf.image.decode_and_crop_jpeg(held[0][index], held[1][index], channels=3)
        # One pixel is kept: what is not used would not be computed.
        return tf.image.resize(tf.cast(image, tf.float32), (side, side))[0, 0, 0] if resize else image[0, 0, 0]

    numbers = tf.data.Dataset.range(len(found)).repeat()
    options = photographs._options(CORES)
    return steps(numbers.map(work, num_parallel_calls=CORES).batch(BATCH).prefetch(2).with_options(options))


def steps(dataset: Any) -> Callable[[], object]:
    batches = iter(dataset)
    return lambda: next(batches)


def theirs(checkout: str, data: str, side: int, distortions: bool) -> Callable[[], object]:
    """tf_cnn_benchmarks' preprocessor for ImageNet, with its defaults for training."""
    sys.path.insert(0, str(Path(checkout) / "scripts" / "tf_cnn_benchmarks"))
    import preprocessing
    import tensorflow.compat.v1 as tf

    class Folder:
        def tf_record_pattern(self, subset: str) -> str:
            return str(Path(data) / f"{subset}-*-of-*")

    tf.disable_v2_behavior()
    preprocessor = preprocessing.RecordInputImagePreprocessor(
        BATCH,
        [(BATCH, side, side, 3)],
        1,
        dtype=tf.float32,
        train=True,
        distortions=distortions,
        resize_method="bilinear",
        shift_ratio=0,
        summary_verbosity=0,
        distort_color_in_yiq=False,  # in TensorFlow 2 there is only the way by HSV
        fuse_decode_and_crop=True,
        match_mlperf=False,
    )
    dataset = preprocessor.create_dataset(
        BATCH, 1, BATCH, Folder(), "train", True, datasets_repeat_cached_sample=False, num_threads=CORES
    )
    iterator = preprocessor.create_iterator(dataset)
    images, labels = iterator.get_next()
    session = tf.Session()
    session.run(iterator.initializer)
    fetched = tf.group(images, labels)
    return lambda: session.run(fetched)


def measure(side: str, options: argparse.Namespace) -> tuple[float, float]:
    """Warm up, then batches for so many seconds, without a pause: images/s, and CPU time in ms an image."""
    step = {
        "decode": lambda: decode(options.data, options.size),
        "decode-resize": lambda: decode(options.data, options.size, resize=True),
        "tf-cnn": lambda: theirs(options.tf_cnn_benchmarks, options.data, options.size, False),
        "tf-cnn-distortions": lambda: theirs(options.tf_cnn_benchmarks, options.data, options.size, True),
    }.get(side, lambda: ours(side, options.data, options.size))()
    for _ in range(6):
        step()
    done, started, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() < started + options.seconds:
        step()
        done += 1
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return BATCH * done / seconds, 1000 * cpu / (BATCH * done)


def alternate(sides: list[str], options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Medians over rounds of fresh processes; every other round goes backwards."""
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    for number in range(options.rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            command = [sys.executable, __file__, *sys.argv[1:], "--one", side]
            legacy = {"TF_USE_LEGACY_KERAS": "1"} if side in THEIRS else {}
            done = subprocess.run(command, capture_output=True, text=True, env=environment | legacy, check=False)
            if done.returncode:
                sys.exit(f"{side}:\n{done.stderr[-3000:]}")
            found[side].append(json.loads(done.stdout.splitlines()[-1]))
    return {
        side: (statistics.median(r for r, _ in runs), statistics.median(c for _, c in runs))
        for side, runs in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--size", type=int, default=224, help="pixels a side that the model takes")
    parser.add_argument("--sides", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--tf-cnn-benchmarks", metavar="CHECKOUT")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options)))
        return
    sides = options.sides or ["decode", "decode-resize", *OURS, *(THEIRS if options.tf_cnn_benchmarks else ())]
    found = alternate(sides, options)
    print(f"{CORES} cores, {options.size} pixels a side, {options.rounds} rounds of {options.seconds:g} s, medians")
    ratios = f"{'of decode':>10} {'of tf-cnn':>10}"
    print(f"{'':<21} {'images/s':>9} {ratios}   {'CPU ms/image':>12} {ratios}")
    for side, (rate, cpu) in found.items():
        theirs_rate, theirs_cpu = found.get(PARTNER.get(side, "tf-cnn"), (0, 0)) if side in OURS else (0, 0)
        decode_rate, decode_cpu = found.get("decode", (0, 0))
        pairs = (rate, decode_rate), (rate, theirs_rate), (decode_cpu, cpu), (theirs_cpu, cpu)
        shown = [f"{one / other:.3f}" if one and other else "" for one, other in pairs]
        print(f"{side:<21} {rate:>9.1f} {shown[0]:>10} {shown[1]:>10}   {cpu:>12.3f} {shown[2]:>10} {shown[3]:>10}")


if __name__ == "__main__":
    main()
