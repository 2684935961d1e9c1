"""Images/s of the training loop against plain TensorFlow operations, on CPU, in alternating fresh processes.

    python benchmarks/step_speed.py [--rounds 3] [--cases resnet50:8 resnet20:32 trivial:32]

Prints, for each case, the medians over the rounds of both, and their ratio; the ratio of CPU time is beside it, because
wall time on a machine that others use says little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

SIDES = ("ours", "plain")


def ours(model: str, batch: int) -> Callable[[int], float]:
    """Runs windows of the project's own loop."""
    from pytest_tfperf.topology import DeviceKind, Devices
    from pytest_tfperf.training.devices import configure
    from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline
    from pytest_tfperf.training.loop import TrainingLoop
    from pytest_tfperf.training.strategies import strategy_for
    from pytest_tfperf.workload import Workload

    workload = Workload(model=model, batch_size=batch)
    strategy = strategy_for(workload, configure(Devices(kind=DeviceKind.CPU, count=1)))
    built = load_model(workload, strategy)
    inputs = load_pipeline(workload, input_spec(workload, built, strategy))
    return TrainingLoop(strategy, built, inputs, workload).run


def plain(model: str, batch: int) -> Callable[[int], float]:
    """Runs steps of the hand-written operations, one call each."""
    import plain_ops

    from pytest_tfperf.training.inputs import InputSpec

    side, classes = {"resnet50": (224, 1001), "resnet20": (32, 11), "trivial": (227, 1001)}[model]
    spec = InputSpec(image_shape=(side, side, 3), num_classes=classes, batch_size=batch, replicas=1, seed=1)
    step = plain_ops.step(getattr(plain_ops, model), *spec.synthetic())

    def run(steps: int) -> float:
        for _ in range(steps - 1):
            step()
        return float(step())

    return run


def measure(side: str, model: str, batch: int, seconds: float) -> dict[str, float]:
    """Warm up, then the median rate of windows of about a fifth of a second, for `seconds`."""
    run = {"ours": ours, "plain": plain}[side](model, batch)
    run(2)
    started = time.perf_counter()
    run(3)
    steps = max(1, round(0.2 * 3 / (time.perf_counter() - started)))
    rates, cpu, steps_done = [], time.process_time(), 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        run(steps)
        rates.append(batch * steps / (time.perf_counter() - started))
        steps_done += steps
    return {
        "images_per_sec": statistics.median(rates),
        "cpu_ms_per_image": 1000 * (time.process_time() - cpu) / (batch * steps_done),
    }


def alternate(model: str, batch: int, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Medians over `rounds` fresh processes of each side, taking turns."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            command = [
                sys.executable,
                __file__,
                "--one",
                side,
                "--cases",
                f"{model}:{batch}",
                "--seconds",
                str(seconds),
            ]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            found[side].append(json.loads(done.stdout.splitlines()[-1]))
    return {s: {k: statistics.median(run[k] for run in runs) for k in runs[0]} for s, runs in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["resnet50:8", "resnet20:32", "trivial:32"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--one", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = [(model, int(batch)) for model, batch in (case.split(":") for case in options.cases)]
    if options.one:
        print(json.dumps(measure(options.one, *cases[0], options.seconds)))
        return
    print(
        f"{'model':<10} {'batch':>5} {'ours':>9} {'plain':>9} {'ratio':>6} {'CPU time ratio':>15}   (images/s, medians)"
    )
    for model, batch in cases:
        row = alternate(model, batch, options.rounds, options.seconds)
        rate = {side: row[side]["images_per_sec"] for side in SIDES}
        cpu = row["plain"]["cpu_ms_per_image"] / row["ours"]["cpu_ms_per_image"]
        print(
            f"{model:<10} {batch:>5} {rate['ours']:>9.2f} {rate['plain']:>9.2f} "
            f"{rate['ours'] / rate['plain']:>6.3f} {cpu:>15.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
