"""Weeks of nightly sessions on a host that doesn't exist, judged by the real judge: for tests and pictures.

    python -m tools.simulated_weeks DIR        # a history to try commands on: tfperf report --dir DIR

What happens in them: one test becomes slower on `SLOWER_SINCE` and stays so. The GPUs lose 1 % a few days later. One
test gets faster, single runs are slow by chance, and in the last session a run is discarded, because a GPU is too hot.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import Value
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle, merged
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.judging.breakdown import breakdown
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.lasting_changes import changes_of
from pytest_tfperf.judging.session_effects import CommonDrift, common_drift, of_first_windows
from pytest_tfperf.judging.target import Target, target_for
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History

if TYPE_CHECKING:
    from pytest_tfperf.features.page.past import Past

DAYS = 21
FIRST_DAY = datetime(2026, 11, 2, 2, 15, tzinfo=UTC)
SLOWER_SINCE = FIRST_DAY + timedelta(days=15)
SLOWER_TEST = "perf_tests/test_models.py::test_inception3_device[8]"
SLOWDOWN = 0.07
GPU_MACHINE, CPU_MACHINE = "8x-v100-nvlink", "xeon-16c"

PUBLISHED = BaselineStore(Path(__file__).parents[1] / "baselines").published()

_DRIFT_SINCE, _DRIFT = 18, -0.011
_HOT_TEST = "perf_tests/test_multigpu.py::test_resnet50_real_images[8]"
_NEW_TEST = "perf_tests/test_models.py::test_trivial_device[1]"
_BETWEEN_RUNS = 0.004
_WITHIN = 0.006
_WARMUP, _WINDOWS, _WINDOW_SECONDS = 6, 40, 0.15


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change of speed.

    Args:
        of: a test, or a machine, all of whose tests change.
        size: as a fraction, -0.07 for 7 % slower.
        since: the first day with it, from 0.
        until: the first day without it.
    """

    of: str
    size: float
    since: int
    until: int = 10**6


STORY = (
    Change(SLOWER_TEST, -SLOWDOWN, since=15),
    Change("perf_tests/test_models.py::test_vgg16_device[4]", 0.06, since=12),
    Change(GPU_MACHINE, _DRIFT, since=_DRIFT_SINCE),
)


@dataclass(frozen=True, slots=True)
class SimulatedTest:
    """A test of a machine, and the images/s that it gives when nothing is wrong."""

    test: str
    workload: Workload
    topology: str
    rate: float

    @property
    def devices(self) -> int:
        """Over all nodes."""
        return math.prod(map(int, self.topology.split("x")))


def gpu_tests() -> list[SimulatedTest]:
    """Those of the machine with eight GPUs."""
    found = []
    for update, loss in ((VariableUpdate.REPLICATED, 0.012), (VariableUpdate.PARAMETER_SERVER, 0.035)):
        for gpus in (1, 2, 4, 8):
            rate = 371.0 * gpus * (1 - loss * math.log2(gpus))
            name = f"perf_tests/test_multigpu.py::test_resnet50_device[{gpus}-{update.value}]"
            workload = Workload(model="resnet50", batch_size=64, variable_update=update)
            found.append(SimulatedTest(name, workload, f"1x{gpus}", rate))
    for model, batch, one in (("inception3", 64, 243.0), ("vgg16", 64, 213.0), ("alexnet", 512, 3920.0)):
        for gpus in (1, 4, 8):
            name = f"perf_tests/test_models.py::test_{model}_device[{gpus}]"
            rate = one * gpus * (1 - 0.02 * math.log2(gpus))
            found.append(SimulatedTest(name, Workload(model=model, batch_size=batch), f"1x{gpus}", rate))
    real = Workload(model="resnet50", batch_size=64, input_pipeline="imagenet")
    found.append(SimulatedTest(_HOT_TEST, real, "1x8", 2440.0))
    found.append(SimulatedTest(_NEW_TEST, Workload(model="trivial", batch_size=32), "1x1", 14850.0))
    return found


def cpu_tests() -> list[SimulatedTest]:
    """Those of the machine without GPUs."""
    cases = (("trivial", 32, 5210.0), ("resnet50", 8, 11.4), ("alexnet", 32, 96.0))
    return [
        SimulatedTest(
            f"perf_tests/test_cpu.py::test_{model}[{devices}]",
            Workload(model=model, batch_size=batch),
            f"1x{devices}",
            one * devices * (1 - 0.09 * math.log2(devices)),
        )
        for model, batch, one in cases
        for devices in (1, 2)
    ]


def baseline_rows(machine: str, tests: Sequence[SimulatedTest]) -> dict[Key, Baseline]:
    """What `--update-baselines` recorded before the first day."""
    on_gpus = machine == GPU_MACHINE
    rows = [
        Baseline(
            machine=machine,
            key=Key(test.workload.id, test.topology),
            value=float(f"{test.rate:.5g}"),
            source=f"pytest --update-baselines {test.test}",
            date="2026-10-30",
            runs=5,
            between_runs=_BETWEEN_RUNS,
            gpu="Tesla V100-SXM2-16GB" if on_gpus else "",
            gpu_fp32_tflops=15.7 if on_gpus else None,
            environment="tensorflow=2.20.0 keras=3.12.0 cudnn=9.10 driver=570.86 python=3.12.4",
        )
        for test in tests
        if test.test != _NEW_TEST
    ]
    return {row.key: row for row in rows}


def sessions(days: int = DAYS, seed: int = 7) -> Iterator[list[Measurement]]:
    """The sessions in the order of time, each with all of its measurements."""
    for day in range(days):
        random = Random(seed * 1000 + day)
        yield [
            one for machine in (GPU_MACHINE, CPU_MACHINE) for one in session_of(machine, tests_of(machine), day, random)
        ]


def tests_of(machine: str) -> list[SimulatedTest]:
    """A machine's tests."""
    return gpu_tests() if machine == GPU_MACHINE else cpu_tests()


def session_of(
    machine: str, tests: Sequence[SimulatedTest], day: int, random: Random, changes: Sequence[Change] = STORY
) -> list[Measurement]:
    """One machine's session of a day, from 0."""
    start = FIRST_DAY + timedelta(days=day, minutes=0 if machine == GPU_MACHINE else 30)
    rows = baseline_rows(machine, tests)
    references = {
        test: target_for(rows, PUBLISHED, machine, Key(test.workload.id, test.topology), gpu_fp32_tflops=None)
        for test in tests
    }
    levels = {test: _level(test, machine, day, changes) for test in tests}
    first = {test: _run(test, machine, day, random, levels[test]) for test in tests}
    drift = common_drift(
        [
            of_first_windows(run).log_rate - math.log(row.value)
            for t, run in first.items()
            if (row := references[t].baseline) is not None
        ]
    )
    measured = []
    for number, test in enumerate(tests):
        time = start + timedelta(seconds=40 * (number + 1))
        runs = partial(_run, test, machine, day, random, levels[test])
        measured.append(_measurement(test, machine, day, time, first[test], runs, references[test], drift, len(rows)))
    return measured


def _measurement(
    test: SimulatedTest,
    machine: str,
    day: int,
    time: datetime,
    first: Run,
    next_run: Callable[..., Run],
    reference: Target,
    drift: CommonDrift,
    tests: int,
) -> Measurement:
    """As a session takes it: run by run, until the judge is content."""
    runs, discarded = [first], []
    if day == DAYS - 1 and test.test == _HOT_TEST:
        heat = Disturbance(DisturbanceKind.GPU_SLOWED_DOWN, gpu="GPU-7f3a", throttle=Throttle.SW_THERMAL, celsius=91)
        discarded = [replace(next_run(slow=0.2), disturbance=heat)]
    tolerance = Tolerance().within(reference.baseline) if reference.baseline else Tolerance()
    while True:
        throughput = summarise(runs)
        verdict = judge(
            Evidence(throughput=throughput, target=reference, tolerance=tolerance, drift=drift, tests=tests)
        )
        if verdict.is_decided:
            break
        runs.append(next_run())
    on_gpus = machine == GPU_MACHINE
    kind = "Tesla V100" if on_gpus else "virtual CPU device"
    return Measurement(
        test=test.test,
        session=f"{FIRST_DAY + timedelta(days=day):%Y%m%d-%H%M%S}-5f2e1c",
        workload=test.workload,
        topology=test.topology,
        machine=machine,
        devices=f"{test.devices}x {kind}" if on_gpus else f"{test.devices} virtual CPU devices on 16 of 16 cores",
        runs=tuple(runs),
        discarded=tuple(discarded),
        throughput=throughput,
        gpu="Tesla V100-SXM2-16GB" if on_gpus else "",
        gpu_fp32_tflops=15.7 if on_gpus else None,
        verdicts=(verdict,),
        document=reference.document,
        breakdown=breakdown(runs, throughput.examples_per_sec, test.workload),
        environment=_environment(machine, day),
        commit=f"{zlib.crc32(str(max(day, 1) // 3).encode()):08x}",
        time=time.isoformat(),
        seconds=20.0 * (len(runs) + len(discarded)),
    )


def _environment(machine: str, day: int) -> dict[str, str]:
    known = {"tensorflow": "2.20.0", "keras": "3.12.0", "python": "3.12.4", "kernel": "6.1.0-31"}
    if machine == GPU_MACHINE:
        known |= {"cudnn": "9.10", "driver": "570.86" if day < _DRIFT_SINCE else "575.51"}
    return known if day < DAYS - 1 else known | {"keras": "3.13.0"}


def _level(test: SimulatedTest, machine: str, day: int, changes: Sequence[Change]) -> float:
    """ln of what today changes for this test, compared with its baseline."""
    today = (one for one in changes if one.of in (test.test, machine) and one.since <= day < one.until)
    return math.fsum(math.log1p(one.size) for one in today)


def _run(test: SimulatedTest, machine: str, day: int, random: Random, level: float, slow: float = 0.0) -> Run:
    on_gpus = machine == GPU_MACHINE
    between = random.gauss(0, _BETWEEN_RUNS) + (math.log(0.94) if random.random() < 0.008 else 0.0)
    rate = test.rate * math.exp(level + between) * (1 - slow)
    per_step = test.workload.batch_size * test.devices
    steps = max(1, round(_WINDOW_SECONDS * rate / per_step))
    warmup = [
        Window(
            steps, steps * per_step / (rate * (0.72 + 0.27 * (i + 1) / _WARMUP)) * math.exp(random.gauss(0, _WITHIN))
        )
        for i in range(_WARMUP)
    ]
    windows = [
        Window(steps, steps * per_step / rate * math.exp(random.gauss(0, _WITHIN)), 7.0 - 0.01 * i)
        for i in range(_WINDOWS)
    ]
    polls = _polls(test, sum(w.seconds for w in (*warmup, *windows)), on_gpus, slow, random)
    profile = StepProfile(
        input=Input.RESIDENT if test.workload.input_pipeline == "device" else Input.FETCHED,
        pipeline_examples_per_sec=None if test.workload.input_pipeline == "device" else rate * 1.4,
        forward_multiply_adds=4_089_000_000 if on_gpus else None,
        products_multiply_adds_per_sec=rate * 3 * 4_089_000_000 / 0.47 if on_gpus else None,
    )
    return Run(
        tuple(windows),
        per_step,
        tuple(warmup),
        compile_seconds=8.4 + random.random(),
        environment=_environment(machine, day),
        telemetry=merged(polls),
        polls=polls,
        step_profile=profile,
    )


def _polls(test: SimulatedTest, seconds: float, on_gpus: bool, slow: float, random: Random) -> tuple[Telemetry, ...]:
    """One for each second; GPUs warm up as the run goes on."""
    count = max(2, round(seconds))
    return tuple(
        Telemetry(
            seconds=seconds / count,
            usable_cores=16,
            load_average_mean=round(2.5 + random.random(), 2),
            cpu_mhz_median=3400.0,
            other_cpu_fraction_mean=round(0.02 + 0.01 * random.random(), 3),
            idle_fraction_mean=0.8,
            gpus=tuple(_gpu(number, i, slow, random) for number in range(test.devices)) if on_gpus else (),
        )
        for i in range(count)
    )


def _gpu(number: int, second: int, slow: float, random: Random) -> GpuTelemetry:
    hot = slow and number == 5
    return GpuTelemetry(
        uuid=f"GPU-{number}",
        temperature_celsius_max=round(51 + 14 * (1 - math.exp(-second / 3)) + number + (18 if hot else 0)),
        sm_clock_mhz_median=1290.0 if hot else 1530.0 - 7.5 * random.randrange(3),
        power_watts_mean=round(255 + 12 * random.random(), 1),
        utilisation_fraction_mean=0.97,
    )


def source(days: int = DAYS, **changes: Any) -> tuple[SessionResult, Past, Sequence[Baseline]]:
    """What a report of the last session is made of, with other fields of its result where they are given."""
    from pytest_tfperf.features.page.past import Past

    weeks = list(sessions(days))
    result = replace(SessionResult(results=weeks[-1]), **changes)
    results = [Value.of(measurement) for session in weeks for measurement in session]
    previous = {measurement.machine: measurement for measurement in weeks[-2]}
    past = Past.of(results, result.alone, changes=changes_of(results), previous=list(previous.values()))
    return result, past, PUBLISHED


def write(folder: Path, days: int = DAYS) -> None:
    """Write the weeks into a history in this folder, and the rows into `baselines/` beside it."""
    history = History(folder / "history.sqlite")
    for measured in sessions(days):
        for one in measured:
            history.append(one)
    store = BaselineStore(folder / "baselines")
    for machine, tests in ((GPU_MACHINE, gpu_tests()), (CPU_MACHINE, cpu_tests())):
        store.update(machine, baseline_rows(machine, tests))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
