"""Images/s of training steps on CPU: our loop against three other ways, in processes whose windows are interleaved.

    python benchmarks/step_speed.py [--models resnet50 vgg16:4] [--rounds 2] [--seconds 15] [--tf-cnn-benchmarks DIR]

- plain: the same network in TensorFlow operations, one `tf.function` for a step (plain_ops.py)
- fit: Keras' `model.fit` with keras.applications' model, where there is one, or with our BERT (keras_fit.py)
- tf_cnn: tf_cnn_benchmarks, from a checkout's folder `scripts/tf_cnn_benchmarks` (branch master runs on TensorFlow
  2.21; it needs the group `benchmarks`), as tf_cnn.py calls it

All sides live at once, and only one computes at a time: a window of about a third of a second each (at least a step),
in an order that is drawn anew each turn, so that what a shared machine does within seconds hits all alike. Each round
has fresh processes.

Prints images/s (medians over turns), our ratio to each (20 % trimmed mean over turns, with two standard errors), and
the share of what this machine's matrix products reach in TensorFlow in the same turns (3 x 2 x GMAC an image). With
resnet50 also bfloat16 against float32, where the CPU has AVX512_BF16: not every CPU that has it is faster by it, which
the matrix products beside it show.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pytest_tfperf.core.throughput import robust_mean

# Name: image side (or None for texts of 128 tokens), classes, default batch, GMAC of a forward pass.
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
    "bert-tiny": (None, 2, 16, 0.0587),
    "bert-base": (None, 2, 2, 11.174),
}
OTHERS = ("plain", "fit", "tf_cnn")
WINDOW_SECONDS = 0.3
READY = b"ready\n"
WARMUP_STEPS = 3
LEAST_TURNS = 5


@dataclass(frozen=True)
class Case:
    model: str
    batch: int

    @property
    def is_of_texts(self) -> bool:
        return MODELS[self.model][0] is None

    def gflops(self, examples_per_sec: float) -> float:
        """GFLOP/s of training: forward, and backward to inputs and to weights."""
        return 3 * 2 * MODELS[self.model][3] * examples_per_sec

    @classmethod
    def parse(cls, text: str) -> Case:
        model, _, batch = text.partition(":")
        if model not in MODELS:
            raise argparse.ArgumentTypeError(f"{model!r} is none of {', '.join(MODELS)}")
        return cls(model, int(batch) if batch else MODELS[model][2])


class Stopwatch:
    """Counts the steps in a side's process: times a window when the driver asks for one, and waits in between.

    The first steps of a window, up to a call, are not timed where they are short: caches hold what the others did.
    """

    def __init__(self, asked: IO[bytes], answers: IO[bytes]) -> None:
        self._asked, self._answers = asked, answers
        self._warm = 0
        self._last = self._started = math.nan
        self._steps = 0
        self._leads_in = False

    def tick(self, steps: int = 1) -> bool:
        """Note that so many more steps are done; returns whether the driver has had enough."""
        now = time.perf_counter()
        step_seconds, self._last = (now - self._last) / steps, now
        if self._warm < WARMUP_STEPS:
            self._warm += steps
            return self._warm >= WARMUP_STEPS and self._wait(READY, step_seconds)
        if self._leads_in:
            self._leads_in = False
            self._started = now
            return False
        self._steps += steps
        if now - self._started < 0.8 * WINDOW_SECONDS:
            return False
        answer = {"steps": self._steps, "seconds": now - self._started}
        return self._wait(json.dumps(answer).encode() + b"\n", step_seconds)

    def _wait(self, answer: bytes, step_seconds: float) -> bool:
        self._answers.write(answer)
        self._answers.flush()
        enough = not self._asked.readline()
        self._leads_in = not step_seconds > WINDOW_SECONDS
        self._steps = 0
        self._started = self._last = time.perf_counter()
        return enough


def ours(case: Case, watch: Stopwatch, precision: str = "float32") -> None:
    """The project's own loop, several steps a call."""
    from pytest_tfperf.core.topology import DeviceKind, Devices
    from pytest_tfperf.core.workload import Precision, Workload
    from pytest_tfperf.training.devices import configure
    from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline
    from pytest_tfperf.training.loop import TrainingLoop
    from pytest_tfperf.training.strategies import strategy_for

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

    step = plain_ops.step(getattr(plain_ops, case.model.replace("-", "_")), *batch_of(case))

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


def batch_of(case: Case) -> Any:
    """Inputs and labels, as arrays."""
    import tensorflow as tf

    from pytest_tfperf.training.input_spec import InputSpec, Part

    side, classes, _, _ = MODELS[case.model]
    common: dict[str, Any] = {"batch_size": case.batch, "replicas": 1, "seed": 1}
    if side is not None:
        return InputSpec.of_images((side, side, 3), classes, **common).synthetic()
    ids = {"input_ids": 30522, "input_mask": 2, "segment_ids": 2}
    parts = {name: Part(shape=(128,), dtype=tf.int32, high=high) for name, high in ids.items()}
    return InputSpec(parts=(parts, Part(shape=(), dtype=tf.int32, high=classes)), **common).synthetic()


def _drive(run: Callable[[int], object], watch: Stopwatch) -> None:
    """Calls of as many steps as make a window, each after a call of one step."""
    run(2)
    started = time.perf_counter()
    run(WARMUP_STEPS)
    step_seconds = (time.perf_counter() - started) / WARMUP_STEPS
    steps = max(1, round(WINDOW_SECONDS / step_seconds))
    enough = watch.tick(WARMUP_STEPS)
    while not enough:
        if steps > 1:
            run(1)
            watch.tick()
        run(steps)
        enough = watch.tick(steps)


class Process:
    """One side, warmed up and waiting for its turns."""

    def __init__(self, side: str, case: Case, options: argparse.Namespace) -> None:
        command = [sys.executable, __file__, "--one", side, "--models", f"{case.model}:{case.batch}"]
        environment = dict(os.environ) | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        if side == "tf_cnn":
            folder = str(Path(options.tf_cnn_benchmarks).resolve())
            paths = [folder, environment.get("PYTHONPATH", "")]
            environment |= {"TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._name = f"{side} on {case.model}"
        self._batch = case.batch
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._log}
        self._process = subprocess.Popen(command, env=environment, **pipes)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        assert self._read() == READY

    def turn(self) -> float:
        """One window: images/s."""
        self._to.write(b"go\n")
        self._to.flush()
        window = json.loads(self._read())
        return float(self._batch * window["steps"] / window["seconds"])

    def close(self) -> None:
        self._to.close()
        self._process.wait()
        self._from.close()
        self._log.close()

    def _read(self) -> bytes:
        line: bytes = self._from.readline()
        if line:
            return line
        self._log.seek(0)
        sys.exit(f"{self._name} failed:\n{self._log.read().decode(errors='replace')[-3000:]}")


def turns_of(sides: Sequence[str], case: Case, options: argparse.Namespace) -> dict[str, list[float]]:
    """Images/s of each side's windows; windows of the same place were taken in the same turn."""
    draw = random.Random(1)
    found: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        processes = {side: Process(side, case, options) for side in draw.sample(sides, len(sides))}
        end = time.monotonic() + options.seconds * len(sides)
        turns = 0
        while time.monotonic() < end or turns < LEAST_TURNS:
            for side in draw.sample(sides, len(sides)):
                found[side].append(processes[side].turn())
            turns += 1
        for process in processes.values():
            process.close()
    return found


def ratio(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The trimmed mean of both sides' ratios, turn by turn, and two standard errors of it."""
    mean, error = robust_mean([math.log(a / b) for a, b in zip(one, other, strict=True)])
    return math.exp(mean), 2 * error * math.exp(mean)


def row(case: Case, sides: list[str], options: argparse.Namespace) -> str:
    import keras_fit

    here = [side for side in sides if side != "fit" or case.model in (keras_fit.MODELS | keras_fit.OURS)]
    here = [side for side in here if side != "tf_cnn" or not case.is_of_texts]
    found = turns_of(["matmul", "ours", *here], case, options)
    cells = [f"{case.model}:{case.batch}", f"{statistics.median(found['ours']):,.2f}"]
    for side in sides:
        if side in here:
            cells.append("{:.2f} ± {:.2f}".format(*ratio(found["ours"], found[side])))
        else:
            cells.append("-")
    peak = [2 * MATMUL_GMAC * rate / case.batch for rate in found["matmul"]]
    shown = [side for side in ("ours", "tf_cnn") if side in found]
    shares = [ratio([case.gflops(rate) for rate in found[side]], peak)[0] for side in shown]
    cells += [" / ".join(f"{share:.0%}" for share in shares), str(len(peak))]
    return " | ".join(["", *cells, ""]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", type=Case.parse, default=[Case.parse(model) for model in MODELS])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=15, help="of each side in each round, about")
    parser.add_argument("--tf-cnn-benchmarks", metavar="DIR", help="a checkout's scripts/tf_cnn_benchmarks")
    parser.add_argument("--sides", nargs="+", choices=OTHERS, default=list(OTHERS), help="what to compare with")
    parser.add_argument("--one", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        # Programs print what they like; answers have a file of their own.
        with os.fdopen(os.dup(1), "wb") as answers:
            os.dup2(2, 1)
            SIDES[options.one](options.models[0], Stopwatch(sys.stdin.buffer, answers))
            os._exit(0)  # a session or a dataset that is still open need not be closed
    sides = [side for side in options.sides if side != "tf_cnn" or options.tf_cnn_benchmarks]
    print(f"examples/s, medians over turns of {options.rounds} rounds; ours / other, with two standard errors")
    heading = [
        "model:batch",
        "ours",
        *(f"/ {side}" for side in sides),
        "of matrix products' rate: ours / tf_cnn",
        "turns",
    ]
    print(" | ".join(["", *heading, ""]).strip())
    print("| --- " * len(heading) + "|", flush=True)
    for case in options.models:
        print(row(case, sides, options), flush=True)
    for case in options.models:
        if case.model == "resnet50":
            print(_bfloat16_row(case, options))


def _bfloat16_row(case: Case, options: argparse.Namespace) -> str:
    if " avx512_bf16" not in Path("/proc/cpuinfo").read_text(encoding="ascii"):
        return "bfloat16: this CPU has no AVX512_BF16, so that it would be emulated; not measured"
    found = turns_of(["ours", "bfloat16", "matmul", "matmul_bfloat16"], case, options)
    steps = "{:.2f} ± {:.2f}".format(*ratio(found["bfloat16"], found["ours"]))
    products = "{:.2f} ± {:.2f}".format(*ratio(found["matmul_bfloat16"], found["matmul"]))
    return (
        f"{case.model}:{case.batch} in mixed_bfloat16: {steps} times float32; this machine's products: {products} times"
    )


if __name__ == "__main__":
    main()
