"""`--tfperf-save-trials`: each measurement's whole trial, kept as a file as soon as it can be judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pytest_tfperf.bench.one_run import Spoilt
from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Trial
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.common_drift import Night
from pytest_tfperf.judging.reference import floor_rate, reference_for
from pytest_tfperf.settings import Settings
from pytest_tfperf.stores import trial_file
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.recording import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """One call of `check` or `measure`.

    Args:
        test: pytest's node id.
        place: which of the test's calls it is, from 0.
        workload, topology, plan: what is measured, on what, for how long.
        tolerance: what the call asked for; None where it did not.
    """

    test: str
    place: int
    workload: Workload
    topology: Topology
    plan: Plan
    tolerance: Tolerance | None


class Recorder:
    """Keeps trials where the settings name a folder, and does nothing where they don't.

    A test that is not decided yet is kept too, and replaced after its next run, so that a kill loses no run that ended.

    Args:
        settings: the folder, the default tolerance, and whether a regression is held.
        baselines: what the verdicts rest on.
        tests: tells how many tests share the night's false alarms.
        nights: tells what the nights before gave, of a baseline.
    """

    def __init__(
        self,
        settings: Settings,
        baselines: BaselineStore,
        tests: Callable[[], int],
        nights: Callable[[Baseline | None], Sequence[Night]],
    ) -> None:
        self._settings = settings
        self._baselines = baselines
        self._tests = tests
        self._nights = nights
        self.not_kept = ""  # why the folder lacks a trial

    def prepare(self) -> None:
        """Raise TfperfError where the folder can't be written."""
        if self._settings.save_trials is not None:
            trial_file.check_writable(self._settings.save_trials)

    def keep(self, record: Measurement, taking: Taking) -> None:
        """Write what was measured; a full disk costs no verdict, `not_kept` says so."""
        self._write(taking, record.trial, record)

    def keep_spoilt(self, spoilt: Spoilt, earlier: Measurement | None, taking: Taking) -> None:
        """Write a measurement that was given up, with what disturbed each attempt; as `keep`.

        Args:
            spoilt: why, and the attempts since `earlier`; those of a control say nothing of this test.
            earlier: what the test gave before.
            taking: the call.
        """
        before = earlier.trial.believed() if earlier else Trial(())
        new = spoilt.attempts if spoilt.of == (taking.workload, taking.topology) else ()
        trial = Trial(before.attempts, before.set_aside + new)
        if trial.attempts or trial.set_aside:
            self._write(taking, trial, earlier, invalid=spoilt.reason)

    def _write(self, taking: Taking, trial: Trial, record: Measurement | None, invalid: str = "") -> None:
        if self._settings.save_trials is None:
            return
        topology, plan, verdict = taking.topology, taking.plan, record.verdict if record else None
        where = record.breakdown if record else None
        peak = floor_rate(topology)
        key = Key(taking.workload.id, topology.shape)
        found = reference_for(self._baselines, topology.machine, key, gpu_fp32_tflops=peak)
        recording = Recording(
            test=taking.test,
            workload=taking.workload,
            topology=topology.shape,
            machine=topology.machine,
            devices=topology.describe(),
            trial=trial,
            steps=plan.steps,
            warmup_steps=plan.warmup_steps,
            max_seconds=plan.max_seconds,
            tolerance=taking.tolerance,
            default_tolerance=Tolerance.of(self._settings.tolerance),
            invalid=invalid or (verdict.reason if verdict and verdict.shift.unfit else ""),
            baseline=found.baseline,
            floor=found.floor,
            noise=verdict.noise if verdict and verdict.noise else found.noise,
            document=found.document,
            gpu_fp32_tflops=peak,
            tests=self._tests(),
            credited=verdict.credited if verdict else 0.0,
            nights=() if found.floor else tuple(self._nights(found.baseline)),
            hold=self._settings.hold and not found.floor,
            device_data_images_per_sec=where.device_data_images_per_sec if where else None,
            environment=record.environment if record else self._environment(trial),
            commit=record.commit if record else "",
            time=record.time if record else datetime.now().astimezone().isoformat(timespec="seconds"),
            seconds=record.seconds if record else 0.0,
        )
        try:
            trial_file.write(self._settings.save_trials, recording, taking.place)
        except TfperfError as error:
            self.not_kept = self.not_kept or str(error)

    def _environment(self, trial: Trial) -> dict[str, str]:
        """Of a measurement that came to no record: the worker's, and that it lost throughput on purpose."""
        lost = self._settings.inject_slowdown
        worker = (trial.attempts + trial.set_aside)[-1].environment
        return dict(worker) | ({"injected_slowdown": str(lost)} if lost else {})
