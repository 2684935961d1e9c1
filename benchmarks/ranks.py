"""What several ranks cost: their start, and the exchange beside plain Horovod.

    python benchmarks/ranks.py start                    # until a job of 2 ranks may build its model: local, and Slurm's
    python benchmarks/ranks.py grow --ranks 2 4 8 16    # what grows with the number of local ranks
    python benchmarks/ranks.py horovod --rounds 5       # collective, Horovod and horovodrun of a plain script, in turns

Run it on a machine that does nothing else. `start` takes Slurm where SLURM_CONF names a cluster.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from pytest_tfperf import Workload
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.features.cluster.engines.slurm import Slurm
from pytest_tfperf.features.cluster.nodes import ClusterNodes
from pytest_tfperf.features.cluster.plugin import Listen
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.local import LocalLauncher
from pytest_tfperf.workers.processes import Interpreter
from pytest_tfperf.workers.training_run import TrainingRun

BY_HAND = Path(__file__).with_name("horovod_by_hand.py")
TRIVIAL = Workload(model="trivial", batch_size=32, variable_update="collective")
RESNET20 = Workload(model="resnet20", batch_size=16, variable_update="collective")


def job(workload: Workload, nodes: int) -> Job:
    return Job(workload=workload, nodes=nodes, devices=Devices(kind=DeviceKind.CPU, count=1), cores=os.cpu_count())


@contextmanager
def local() -> Iterator[LocalLauncher]:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(LocalLauncher(logs=Path(folder), silence_seconds=300)) as launcher,
    ):
        yield launcher


def phases_of(launcher: Launcher, what: Job) -> tuple[dict[str, float], TrainingRun]:
    """Seconds until each phase of rank 0 began, and until all ranks were ready."""
    started = time.perf_counter()
    phases: dict[str, float] = {}

    def begun(name: str) -> None:
        phases.setdefault(name, time.perf_counter() - started)

    run = launcher.start(what, begun)
    phases["ready"] = time.perf_counter() - started
    return phases, run


def start(rounds: int) -> None:
    """A job of two ranks until it may build its model, and until it has compiled."""
    with ExitStack() as end:
        launchers: dict[str, Launcher] = {"local": end.enter_context(local())}
        if "SLURM_CONF" in os.environ:
            folder = Path(end.enter_context(tempfile.TemporaryDirectory()))
            nodes = ClusterNodes(
                Slurm([]), named="slurm", listen=Listen("127.0.0.1"), folder=folder, silence_seconds=300
            )
            end.enter_context(closing(nodes))
            launchers["slurm"] = nodes.launcher(launchers["local"], Interpreter(sys.executable))
        phases_of(launchers["local"], job(TRIVIAL, 1))[1].close()  # the fork server imports TensorFlow
        for name, launcher in launchers.items():
            taken = []
            for _ in range(rounds):
                phases, run = phases_of(launcher, job(TRIVIAL, 2))
                run.close()
                taken.append((phases["model"], phases["ready"]))
            may_build, ready = (statistics.median(column) for column in zip(*taken, strict=True))
            print(f"{name:<6} 2 ranks may build their model after {may_build:.1f} s, are compiled after {ready:.1f} s")


def grow(counts: list[int]) -> None:
    """Start and throughput of local ranks; they share this machine's cores, so only the start says what grows."""
    print("ranks  called and told  compiled  images/s  exchange")
    with local() as launcher:
        phases_of(launcher, job(TRIVIAL, 1))[1].close()
        for count in counts:
            phases, run = phases_of(launcher, job(TRIVIAL, count))
            for _ in range(2):
                run.request(2)
            run.receive()
            window = run.receive()
            profile = run.profile_step(matrix_products=False, multiply_adds=False)
            run.close()
            rate = run.examples_per_step * window.steps / window.seconds
            alone = max(rank.seconds for rank in profile.ranks)
            share = 1 - alone * window.steps / window.seconds
            print(f"{count:>5}  {phases['devices']:>13.1f} s  {phases['ready']:>6.1f} s  {rate:>8,.0f}  {share:>7.0%}")


def horovod(rounds: int, steps: int) -> None:
    """Images/s of two ranks: ours by either exchange, and a plain script under horovodrun; in turns."""
    rates: dict[str, list[float]] = {"collective": [], "horovod": [], "horovodrun": []}
    with local() as launcher:
        for number in range(rounds):
            for name in rates if number % 2 == 0 else reversed(rates):
                rates[name].append(by_hand(steps) if name == "horovodrun" else ours(launcher, name, steps))
            print(f"round {number + 1}: " + ", ".join(f"{name} {found[-1]:.0f}" for name, found in rates.items()))
    for name in ("horovod", "collective"):
        ratios = [a / b for a, b in zip(rates[name], rates["horovodrun"], strict=True)]
        print(f"{name} / horovodrun: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


def ours(launcher: Launcher, update: str, steps: int) -> float:
    with closing(launcher.start(job(RESNET20.with_(variable_update=update), 2), lambda _: None)) as run:
        run.request(10)
        run.receive()
        run.request(steps)
        window = run.receive()
        return run.examples_per_step * window.steps / window.seconds


def by_hand(steps: int) -> float:
    horovodrun = Path(sys.executable).with_name("horovodrun")
    command = [str(horovodrun), "-np", "2", "--gloo", sys.executable, str(BY_HAND)]
    command += [str(RESNET20.batch_size), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"images/s: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "grow", "horovod"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16])
    args = parser.parse_args()
    match args.what:
        case "start":
            start(args.rounds)
        case "grow":
            grow(args.ranks)
        case "horovod":
            horovod(args.rounds, args.steps)


if __name__ == "__main__":
    main()
