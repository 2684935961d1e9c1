"""The whole flow, without pytest: workload and topology in, record out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from pytest_tfperf.attempts import TRIES, Attempts, Spoilt
from pytest_tfperf.baseline import Baseline, Change, Key, Provenance
from pytest_tfperf.breakdown import breakdown
from pytest_tfperf.canary import Canaries, moved
from pytest_tfperf.controls import SLOWER, Controls
from pytest_tfperf.environment import commit_of, environment
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.hardware.canaries import look
from pytest_tfperf.launchers import Launcher
from pytest_tfperf.looks import LOOKS_THAT_DECIDE, Looks
from pytest_tfperf.night import LEAST_TESTS, NO_SHIFT, Cause, Night, Shift, prefix_drop, shift_of
from pytest_tfperf.parts import Input
from pytest_tfperf.record import Record
from pytest_tfperf.reference import Reference, floor_rate, reference_for
from pytest_tfperf.rehearsal import baseline_of, runs_wanted
from pytest_tfperf.settings import Settings
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.throughput import run_value, summarise
from pytest_tfperf.topology import DeviceKind, Topology
from pytest_tfperf.trial import Attempt, Trial
from pytest_tfperf.verdict import Outcome, Tolerance, Verdict, judge, may_stop
from pytest_tfperf.windows import SMOKE, Enough, Plan, Watch
from pytest_tfperf.workload import Workload

DEVICE_DATA_SECONDS = 2.0
"""Timed at most, after a regression: it is there to tell which part slowed down, not by how much."""


class Bench:
    """Measures workloads, judges them and keeps what came out; one for a session.

    Args:
        launcher: how workers start.
        baselines: the references.
        history: where finished measurements go.
        settings: what the user asked for.
        watch: is told how each measurement comes along.
        tests: throughput tests in the session, which share its false alarms.
        look: at the canaries.
    """

    def __init__(
        self,
        *,
        launcher: Launcher,
        baselines: BaselineStore,
        history: History,
        settings: Settings,
        watch: Watch,
        tests: int = 1,
        look: Callable[[], Canaries | None] = look,
    ) -> None:
        self._launcher = launcher
        self._attempts = Attempts(launcher, settings, watch)
        self._baselines = baselines
        self._history = history
        self._settings = settings
        self._tests = tests
        self._first_runs: dict[tuple[str, Key], tuple[float, Baseline]] = {}
        self._controls = Controls()
        self._looks = Looks(look)

    def measure(self, workload: Workload, topology: Topology, plan: Plan | None = None, *, test: str = "") -> Record:
        """One fresh worker that nothing disturbed, all of the plan's steps, nothing judged; one window of a smoke run.

        Raises:
            WorkloadError: a name that nobody has.
            MeasurementError: the worker died, hung or raised; `Spoilt`: something disturbed each of several.
        """
        started = time.monotonic()
        if self._settings.smoke:
            trial = Trial((self._attempt(workload, topology, SMOKE),))
        else:
            trial = self._one_more(Trial(()), workload, topology, plan or self._plan())
        return self._finish(workload, topology, trial, started, test)

    def check(
        self,
        workload: Workload,
        topology: Topology,
        plan: Plan | None = None,
        tolerance: Tolerance | None = None,
        *,
        test: str = "",
        earlier: Record | None = None,
    ) -> Record:
        """Measure once and judge; where that decides nothing, the record is undecided, to be given back as `earlier`.

        With `earlier`, called when all tests have run once, one more fresh worker measures where the verdict still
        wants it: what the whole suite shifted by is known then, and a test's runs lie apart, so that one slow spell of
        the machine does not hit them all. With `--tfperf-smoke` one window and no verdict; with `--update-baselines` no
        verdict, and as many runs as a baseline takes, to be kept by `save`.

        Raises:
            as `measure`, and BaselineError.
        """
        if self._settings.smoke:
            return self.measure(workload, topology, test=test)
        if self._settings.update_baselines:
            return self._rehearse(workload, topology, plan or self._plan(), test, earlier)
        started = time.monotonic()
        plan = plan or self._plan()
        key = Key(workload.id, topology.shape)
        found = reference_for(self._baselines, topology.machine, key, gpu_fp32_tflops=floor_rate(topology))
        accepted = found.tolerance(tolerance, Tolerance.of(self._settings.tolerance))
        if earlier is None:
            trial = Trial((self._attempt(workload, topology, plan, self._stop_early(found, accepted)),))
            self._note_first_run(test, key, topology, trial, found)
            verdict = self._judge(trial, found, accepted, self._shift_so_far)
        else:
            trial, started = earlier.trial, started - earlier.seconds
            verdict = self._judge(trial, found, accepted, self.shift)
            if verdict.runs_wanted > len(trial.attempts):
                trial = self._one_more(trial.believed(), workload, topology, plan, found.baseline)
                verdict = self._judge(trial, found, accepted, self.shift)
        decided = not verdict.waits and verdict.runs_wanted <= len(trial.attempts)
        regressed = decided and verdict.outcome is Outcome.REGRESSED
        device_data = self._device_data(workload, topology, plan, trial) if regressed else None
        record = self._finish(
            workload, topology, trial, started, test, verdict, found.document, device_data=device_data
        )
        if verdict.outcome is Outcome.PASS and not record.undecided:
            self._controls.add(workload, topology, plan, trial.attempts[0])
        return record

    @property
    def shift(self) -> Shift:
        """What the first runs of all tests so far have in common, and who made it."""
        drops = [drop for drop, _ in self._first_runs.values()]
        found = shift_of(drops, {})
        if found.cause is Cause.NIGHT:
            return found
        then = [row.canaries for _, row in self._first_runs.values() if row.canaries is not None]
        return shift_of(drops, moved(self._looks.tonight(at_least=LOOKS_THAT_DECIDE), then) if then else {})

    @property
    def _shift_so_far(self) -> Shift:
        """The shift as far as it is known; it waits where enough tests to know it are still to come."""
        return Shift(waits=True) if len(self._first_runs) < LEAST_TESTS <= self._tests else self.shift

    def save(self, record: Record) -> Change:
        """Make a rehearsed record this machine's baseline.

        Raises:
            MeasurementError: its runs differ too much to catch a loss of 15 %; the old row stays.
            BaselineError: the file can't be read whole or written.
        """
        row, old = baseline_of(record), self._baselines.load(record.machine).get(record.key)
        if old is not None and old.provenance is Provenance.MEASURED:
            row = replace(row, lower=old.lower, upper=old.upper)  # someone wrote these by hand
        (change,) = self._baselines.update(record.machine, {row.key: row})
        return change

    def close(self) -> None:
        """End all workers."""
        self._launcher.close()

    def _speaks_against(self, attempt: Attempt, baseline: Baseline) -> str:
        """Why bad news is not believed: a test that passed tonight shows that the machine is slower by now."""
        lost = math.log(baseline.reference) + self.shift.credited - run_value(attempt).log_rate
        return self._controls.slower_now(self._attempt) if self._settings.busy < 1 and lost > SLOWER else ""

    def _device_data(self, workload: Workload, topology: Topology, plan: Plan, trial: Trial) -> float | None:
        """Images/s of the same training on data that lies on the devices, where the trial's steps fetched theirs.

        The verdict is fixed when this is asked for; None where it fails, for whatever reason.
        """
        if (parts := trial.attempts[-1].parts) is None or parts.input is not Input.FETCHED:
            return None
        brief = replace(plan, max_seconds=min(plan.max_seconds, DEVICE_DATA_SECONDS))
        try:
            return run_value(self._attempt(workload.with_(input_pipeline="device"), topology, brief)).images_per_sec
        except (TfperfError, OSError):
            return None

    def _rehearse(
        self, workload: Workload, topology: Topology, plan: Plan, test: str, earlier: Record | None
    ) -> Record:
        """One more run towards a baseline; slow spells and noise ask for more, up to twice as many."""
        started = time.monotonic() - (earlier.seconds if earlier else 0.0)
        trial = self._one_more(earlier.trial if earlier else Trial(()), workload, topology, plan)
        self._look(topology)
        wanted = runs_wanted([run_value(attempt) for attempt in trial.attempts], self._settings.runs)
        return self._finish(workload, topology, trial, started, test, runs_wanted=wanted)

    def _plan(self) -> Plan:
        settings = self._settings
        return Plan(steps=settings.steps, warmup_steps=settings.warmup_steps, max_seconds=settings.max_time or math.inf)

    def _attempt(self, workload: Workload, topology: Topology, plan: Plan, enough: Enough = lambda _: False) -> Attempt:
        return self._attempts.one(workload, topology, plan, enough)

    def _one_more(
        self, trial: Trial, workload: Workload, topology: Topology, plan: Plan, baseline: Baseline | None = None
    ) -> Trial:
        """The trial with one more attempt that nothing disturbed: bad news and baselines rest on no other.

        Bad news against `baseline` needs a control, too: a test that passed tonight and is not slower now. What is not
        believed is set aside, and shown.
        """
        aside = trial.set_aside
        for _ in range(TRIES):
            attempt = self._attempt(workload, topology, plan)
            if not attempt.disturbance and baseline is not None:
                attempt = attempt.disturbed_by(self._speaks_against(attempt, baseline))
            if not attempt.disturbance:
                return Trial((*trial.attempts, attempt), aside)
            aside += (attempt,)
        advice = "Free the machine of other work, or accept more of it with --tfperf-busy FRACTION"
        advice = f"(and something in each of {TRIES} fresh workers). {advice}"
        raise Spoilt(workload, topology, attempt.disturbance, advice, aside[len(trial.set_aside) :])

    def _judge(self, trial: Trial, found: Reference, accepted: Tolerance, shift: Shift) -> Verdict:
        return judge(
            summarise(trial),
            found.baseline,
            accepted,
            found.noise,
            floor=found.floor,
            tests=self._tests,
            shift=NO_SHIFT if found.floor else shift,  # a document's figure says nothing of this machine's nights
            nights=self._nights(found),
            hold=self._settings.hold,
        )

    def _stop_early(self, found: Reference, accepted: Tolerance) -> Enough:
        baseline, noise = found.baseline, found.noise
        if baseline is None or noise is None:
            return lambda _: False
        nights = self._nights(found)
        return lambda attempt: may_stop(summarise(Trial((attempt,))), baseline, accepted, noise, nights)

    def _nights(self, found: Reference) -> Sequence[Night]:
        return self._history.nights(found.baseline) if found.baseline else ()

    def _note_first_run(self, test: str, key: Key, topology: Topology, trial: Trial, found: Reference) -> None:
        if found.baseline is None or found.floor:
            return
        self._first_runs[test, key] = prefix_drop(trial.attempts[0], found.baseline.reference), found.baseline
        if self._tests >= LEAST_TESTS:
            self._look(topology)

    def _look(self, topology: Topology) -> None:
        """At what the machine gives by itself meanwhile; of GPUs, the host's processors say little."""
        if topology.devices is not None and topology.devices.kind is DeviceKind.CPU:
            self._looks.lately()

    def _finish(
        self,
        workload: Workload,
        topology: Topology,
        trial: Trial,
        started: float,
        test: str,
        verdict: Verdict | None = None,
        document: Baseline | None = None,
        runs_wanted: int = 0,
        device_data: float | None = None,
    ) -> Record:
        throughput, worker, commit = summarise(trial), trial.attempts[-1].environment, commit_of(self._settings.root)
        record = Record(
            test=test,
            workload=workload,
            topology=topology.shape,
            machine=topology.machine,
            devices=topology.describe(),
            trial=trial,
            throughput=throughput,
            verdict=verdict,
            document=document,
            runs_wanted=verdict.runs_wanted if verdict else runs_wanted,
            canaries=Canaries.median(self._looks.tonight()),
            breakdown=breakdown(trial, throughput.images_per_sec, workload, device_data),
            environment=environment(worker, topology, self._settings.inject_slowdown, commit),
            commit=commit,
            time=datetime.now().astimezone().isoformat(timespec="seconds"),
            seconds=time.monotonic() - started,
        )
        if not (record.undecided or self._settings.smoke):  # one window tells neither a throughput nor a time
            self._history.append(record)
        if verdict is None and not math.isfinite(record.throughput.loss or 0.0):
            raise MeasurementError(f"{workload.id} on {record.devices}: the loss is {record.throughput.loss}")
        return record
