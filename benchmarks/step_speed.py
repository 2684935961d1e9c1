"""Images/s of training steps on CPU: our loop against three other ways, in fresh processes that take turns.

    python benchmarks/step_speed.py [--models resnet50 vgg16:4] [--rounds 3] [--seconds 10] [--tf-cnn-benchmarks DIR]

- plain: the same network in TensorFlow operations, one `tf.function` for a step (plain_ops.py)
- fit: Keras' `model.fit` with keras.applications' model, where there is one (keras_fit.py)
- tf_cnn: tf_cnn_benchmarks, from a checkout's folder `scripts/tf_cnn_benchmarks` (branch master runs on TensorFlow
  2.21; it needs the extra `benchmarks`), as tf_cnn.py calls it

Prints images/s (medians over the rounds), our ratio to each (medians of the rounds' ratios), the same of CPU time,
which says more on a machine that others use, and the share of what this machine's matrix products reach in TensorFlow
(3 x 2 x GMAC an image). With resnet50 also bfloat16 against float32, where the CPU has AVX512_BF16: not every CPU that
has it is faster by it, which the matrix products beside it show.
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
from dataclasses import dataclass
from pathlib import Path

# Name: image side, classes, default batch, GMAC of a forward pass.
MODELS = {
    "trivial": (227, 1001, 32, 0.0043),
    "resnet20": (32, 11, 32, 0.0406),
    "resnet56": (32, 11, 32, 0.1255),
    "alexnet": (227, 1001, 64, 0.839),
    "resnet50": (224, 1001, 8, 3.858),
    "resnet101": (224, 1001, 8, 7.570),
    "resnet152": (224, 1001, 8, 11.282),
    "inception3": (299, 1001, 8, 5.713),
    "inception4": (299, 1001, 4, 12.254),
    "vgg16": (224, 1001, 8, 15.470),
    "vgg19": (224, 1001, 8, 19.632),
}
OTHERS = ("plain", "fit", "tf_cnn")
WINDOW_SECONDS = 0.2
WARMUP_STEPS = 3


@dataclass(frozen=True)
class Case:
    model: str
    batch: int

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return (MODELS[self.model][0], MODELS[self.model][0], 3)

    @property
    def classes(self) -> int:
        return MODELS[self.model][1]

    def gflops(self, images_per_sec: float) -> float:
        """GFLOP/s of training: forward, and backward to inputs and to weights."""
        return 3 * 2 * MODELS[self.model][3] * images_per_sec

    @classmethod
    def parse(cls, text: str) -> Case:
        model, _, batch = text.partition(":")
        if model not in MODELS:
            raise argparse.ArgumentTypeError(f"{model!r} is none of {', '.join(MODELS)}")
        return cls(model, int(batch) if batch else MODELS[model][2])


class Stopwatch:
    """Is told of each step; knows when it was enough, and the median rate of windows of about a fifth of a second."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ticks: list[tuple[int, float, float]] = []
        self._warm = 0

    def tick(self, steps: int = 1) -> bool:
        """Note that so many more steps are done; returns whether that is enough."""
        if self._warm < WARMUP_STEPS:
            self._warm += steps
            steps = 0
            self._ticks.clear()
        self._ticks.append((steps, time.perf_counter(), time.process_time()))
        return len(self._ticks) > 3 and self._ticks[-1][1] - self._ticks[0][1] >= self._seconds

    def result(self, batch: int) -> dict[str, float]:
        rates, steps, start = [], 0, self._ticks[0][1]
        for done, now, _ in self._ticks[1:]:
            steps += done
            if now - start >= WINDOW_SECONDS:
                rates.append(batch * steps / (now - start))
                steps, start = 0, now
        images = batch * sum(done for done, _, _ in self._ticks[1:])
        cpu = self._ticks[-1][2] - self._ticks[0][2]
        return {"images_per_sec": statistics.median(rates), "cpu_ms_per_image": 1000 * cpu / images}


def ours(case: Case, watch: Stopwatch, precision: str = "float32") -> None:
    """The project's own loop, several steps a call."""
    from pytest_tfperf.topology import DeviceKind, Devices
    from pytest_tfperf.training.devices import configure
    from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline
    from pytest_tfperf.training.loop import TrainingLoop
    from pytest_tfperf.training.strategies import strategy_for
    from pytest_tfperf.workload import Precision, Workload

    workload = Workload(model=case.model, batch_size=case.batch, precision=Precision(precision))
    strategy = strategy_for(workload, configure(Devices(kind=DeviceKind.CPU, count=1)))
    model = load_model(workload, strategy)
    inputs = load_pipeline(workload, input_spec(workload, model, strategy))
    _drive(TrainingLoop(strategy, model, inputs, workload).run, watch)


def bfloat16(case: Case, watch: Stopwatch) -> None:
    ours(case, watch, "mixed_bfloat16")


def plain(case: Case, watch: Stopwatch) -> None:
    """Hand-written operations, one call a step."""
    import plain_ops

    step = plain_ops.step(getattr(plain_ops, case.model), *batch_of(case))

    def run(steps: int) -> None:
        for _ in range(steps):
            step()

    _drive(run, watch)


def fit(case: Case, watch: Stopwatch) -> None:
    import keras_fit

    keras_fit.train(case.model, *batch_of(case), watch.tick)


def tf_cnn(case: Case, watch: Stopwatch) -> None:
    import tf_cnn as program

    program.train(case.model, case.batch, watch.tick)


def matmul(_: Case, watch: Stopwatch, dtype: str = "float32") -> None:
    """Products of square matrices: an 'image' is one batch-th of 2048^3 multiply-adds here."""
    import tensorflow as tf

    factor = tf.cast(tf.random.normal((2048, 2048)), dtype)
    product = tf.function(lambda: tf.reduce_sum(tf.matmul(factor, factor)))
    _drive(lambda steps: [product() for _ in range(steps)], watch)


def matmul_bfloat16(case: Case, watch: Stopwatch) -> None:
    matmul(case, watch, "bfloat16")


MATMUL_GMAC = 2048**3 / 1e9
SIDES = {f.__name__: f for f in (ours, plain, fit, tf_cnn, bfloat16, matmul, matmul_bfloat16)}


def batch_of(case: Case) -> tuple[object, object]:
    from pytest_tfperf.training.inputs import InputSpec

    spec = InputSpec(image_shape=case.image_shape, num_classes=case.classes, batch_size=case.batch, replicas=1, seed=1)
    return spec.synthetic()


def _drive(run: Callable[[int], object], watch: Stopwatch) -> None:
    """Calls of as many steps as make a window."""
    run(2)
    started = time.perf_counter()
    run(WARMUP_STEPS)
    steps = max(1, round(WINDOW_SECONDS * WARMUP_STEPS / (time.perf_counter() - started)))
    watch.tick(WARMUP_STEPS)
    while True:
        run(steps)
        if watch.tick(steps):
            return


def measured(side: str, case: Case, options: argparse.Namespace) -> dict[str, float]:
    """One side in a process of its own."""
    command = [sys.executable, __file__, "--one", side, "--models", f"{case.model}:{case.batch}"]
    command += ["--seconds", str(options.seconds)]
    environment = dict(os.environ) | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    if side == "tf_cnn":
        folder = str(Path(options.tf_cnn_benchmarks).resolve())
        paths = [folder, environment.get("PYTHONPATH", "")]
        environment |= {"TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{side} on {case.model} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def rounds_of(sides: list[str], case: Case, options: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """Each side once a round, every second round backwards."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(options.rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            found[side].append(measured(side, case, options))
    return found


def ratio(
    found: dict[str, list[dict[str, float]]], other: str, what: str = "images_per_sec", one: str = "ours"
) -> float:
    """Median over the rounds; above 1 where ours is better."""
    pairs = zip(found[one], found[other], strict=True)
    better = 1 if what == "images_per_sec" else -1
    return statistics.median((a[what] / b[what]) ** better for a, b in pairs)


def rate(runs: list[dict[str, float]]) -> float:
    return statistics.median(run["images_per_sec"] for run in runs)


def row(case: Case, sides: list[str], options: argparse.Namespace) -> str:
    import keras_fit

    here = [side for side in sides if side != "fit" or case.model in keras_fit.MODELS]
    found = rounds_of(["matmul", "ours", *here], case, options)
    peak = 2 * MATMUL_GMAC * rate(found["matmul"]) / case.batch
    cells = [f"{case.model}:{case.batch}", f"{rate(found['ours']):,.2f}"]
    for side in sides:
        if side in here:
            figures = (rate(found[side]), ratio(found, side), ratio(found, side, "cpu_ms_per_image"))
            cells.append("{:,.2f} = {:.2f} ({:.2f})".format(*figures))
        else:
            cells.append("-")
    shares = [case.gflops(rate(found[side])) / peak for side in ("ours", "tf_cnn") if side in found]
    cells.append(" / ".join(f"{share:.0%}" for share in shares))
    return " | ".join(["", *cells, ""]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", type=Case.parse, default=[Case.parse(model) for model in MODELS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="timed in each process")
    parser.add_argument("--tf-cnn-benchmarks", metavar="DIR", help="a checkout's scripts/tf_cnn_benchmarks")
    parser.add_argument("--sides", nargs="+", choices=OTHERS, default=list(OTHERS), help="what to compare with")
    parser.add_argument("--one", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        watch = Stopwatch(options.seconds)
        SIDES[options.one](options.models[0], watch)
        print("\n" + json.dumps(watch.result(options.models[0].batch)), flush=True)
        os._exit(0)  # a session or a dataset that is still open need not be closed
    sides = [side for side in options.sides if side != "tf_cnn" or options.tf_cnn_benchmarks]
    print(f"images/s, medians of {options.rounds} alternating rounds; ours / other, in brackets of CPU time")
    print(" | ".join(["", "model:batch", "ours", *sides, "of matrix products' rate: ours / tf_cnn", ""]).strip())
    print("| --- " * (len(sides) + 3) + "|", flush=True)
    for case in options.models:
        print(row(case, sides, options), flush=True)
    for case in options.models:
        if case.model == "resnet50":
            print(_bfloat16_row(case, options))


def _bfloat16_row(case: Case, options: argparse.Namespace) -> str:
    if " avx512_bf16" not in Path("/proc/cpuinfo").read_text(encoding="ascii"):
        return "bfloat16: this CPU has no AVX512_BF16, so that it would be emulated; not measured"
    found = rounds_of(["ours", "bfloat16", "matmul", "matmul_bfloat16"], case, options)
    products = ratio(found, "matmul", one="matmul_bfloat16")
    return (
        f"resnet50:{case.batch} in mixed_bfloat16: {rate(found['bfloat16']):,.2f} images/s = "
        f"{ratio(found, 'ours', one='bfloat16'):.2f} times float32; this machine's products: {products:.2f} times"
    )


if __name__ == "__main__":
    main()
