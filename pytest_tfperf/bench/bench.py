"""The whole flow, without pytest: workload and topology in, record out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from pytest_tfperf.bench.controls import SLOWER
from pytest_tfperf.bench.environment import commit_of, environment
from pytest_tfperf.bench.largest_batch import LargestBatch
from pytest_tfperf.bench.one_run import TRIES, RunEngine, Spoilt
from pytest_tfperf.bench.step_parts import brief
from pytest_tfperf.bench.tonight import Tonight
from pytest_tfperf.bench.windows import SMOKE, Enough, Plan, Watch
from pytest_tfperf.core.baseline import Baseline, Change, Key
from pytest_tfperf.core.breakdown import breakdown
from pytest_tfperf.core.canary import Canaries
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run, Trial
from pytest_tfperf.core.samples import remedy
from pytest_tfperf.core.step_profile import Input
from pytest_tfperf.core.throughput import run_value, summarise
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.hardware.canaries import look
from pytest_tfperf.judging.common_drift import LEAST_TESTS, NO_SHIFT, Night, Shift, nights_differ
from pytest_tfperf.judging.judge import judge, may_stop
from pytest_tfperf.judging.loss import advice, no_number
from pytest_tfperf.judging.new_baseline import baseline_of, runs_wanted
from pytest_tfperf.judging.noise import Noise
from pytest_tfperf.judging.reference import Reference, floor_rate, reference_for, refuse_other_devices
from pytest_tfperf.settings import Settings
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.workers.launcher import Launcher

MOST_SECONDS_IN_VAIN = 600.0
"""What a machine's tests may spend in a session on fresh workers that were all disturbed; then each gets one."""


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
        largest_batch: the session's search for the batch that fits; None: one of its own.
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
        largest_batch: LargestBatch | None = None,
    ) -> None:
        self._attempts = RunEngine(launcher, settings, watch, largest_batch)
        self._watch = watch
        self._baselines = baselines
        self._history = history
        self._settings = settings
        self._tests = tests
        self._look = look
        self._machines: dict[str, Tonight] = {}
        self._judged: set[tuple[str, Key]] = set()
        self._kept: dict[int, tuple[Measurement, int]] = {}  # by identity: each record, and its number in the history
        self.not_kept = ""  # why the history is not whole
        self._all_ran = False

    def measure(self, workload: Workload, topology: Topology, plan: Plan, *, test: str = "") -> Measurement:
        """One fresh worker that nothing disturbed, all of the plan's steps, nothing judged; one window of a smoke run.

        Raises:
            WorkloadError: a name that nobody has.
            MeasurementError: the worker died, hung or raised; `Spoilt`: something disturbed each of several.
        """
        started = time.monotonic()
        if self._settings.smoke:
            trial = Trial((self._attempt(workload, topology, SMOKE),))
        else:
            trial = self._one_more(Trial(()), workload, topology, plan)
        return self._finish(workload, topology, trial, started, test)

    def check(
        self,
        workload: Workload,
        topology: Topology,
        plan: Plan,
        tolerance: Tolerance | None = None,
        *,
        test: str = "",
        earlier: Measurement | None = None,
    ) -> Measurement:
        """Measure once and judge; where that decides nothing, the record is undecided, to be given back as `earlier`.

        With `earlier`, called when all tests have run once, one more fresh worker measures where the verdict still
        wants it: what the whole suite shifted by is known then, and a test's runs lie apart, so that one slow spell of
        the machine does not hit them all. With `--tfperf-smoke` one window and no verdict; with `--update-baselines` no
        verdict, and as many runs as a baseline takes, to be kept by `save`.

        Raises:
            as `measure`, and BaselineError.
        """
        if self._settings.smoke:
            return self.measure(workload, topology, plan, test=test)
        started = time.monotonic()
        key = Key(workload.id, topology.shape)
        found = reference_for(self._baselines, topology.machine, key, gpu_fp32_tflops=floor_rate(topology))
        if found.baseline is not None and not found.floor:
            refuse_other_devices(found.baseline, topology)
        if self._settings.update_baselines:
            return self._rehearse(workload, topology, plan, test, earlier)
        accepted = found.tolerance(tolerance, Tolerance.of(self._settings.tolerance))
        tonight = self._tonight(topology)
        if earlier is None:
            trial = Trial((self._attempt(workload, topology, plan, self._stop_early(found, accepted)),))
            self._note_first_run(test, tonight, trial, found)
            waits = tonight.tests < LEAST_TESTS <= self._tests  # the tests that tell the shift are still to come
            verdict = self._judge(trial, found, accepted, Shift(waits=True) if waits else self._shift(tonight))
        else:
            self._all_ran = True
            trial, started = earlier.trial, started - earlier.seconds
            verdict = self._judge(trial, found, accepted, self._shift(tonight))
            if verdict.runs_wanted > len(trial.attempts):
                trial = self._one_more(earlier.trial.believed(), workload, topology, plan, found.baseline)
                verdict = self._judge(trial, found, accepted, tonight.shift)
        decided = not verdict.waits and verdict.runs_wanted <= len(trial.attempts)
        regressed = decided and verdict.outcome is Outcome.REGRESSED
        device_data = self._device_data(workload, topology, plan, trial) if regressed else None
        record = self._finish(
            workload, topology, trial, started, test, verdict, found.document, device_data=device_data, earlier=earlier
        )
        if verdict.outcome is Outcome.PASS and not record.undecided:
            tonight.controls.add(workload, topology, plan, trial.attempts[0])
        return record

    @property
    def shifts(self) -> dict[str, Shift]:
        """What the tests of each machine have in common."""
        return {machine: tonight.shift for machine, tonight in self._machines.items()}

    @property
    def sharing(self) -> int:
        """Tests that share the night's false alarms: those that were judged, or, until all have run, were selected."""
        return len(self._judged) if self._all_ran else self._tests

    def nights(self, baseline: Baseline | None) -> Sequence[Night]:
        """Those before tonight; where the history broke in mid-session, tonight's runs are judged by themselves."""
        try:
            return self._history.nights(baseline) if baseline else ()
        except TfperfError as error:
            self.not_kept = self.not_kept or str(error)
            return ()

    def _keep(self, record: Measurement, earlier: Measurement | None) -> None:
        """In the history, in the place of `earlier`: after each run, so that a kill costs none that ended.

        A full disk must not cost the verdict that was just reached.
        """
        _, replaces = self._kept.pop(id(earlier), (None, None))
        try:
            self._kept[id(record)] = record, self._history.append(record, replaces=replaces)
        except TfperfError as error:
            self.not_kept = self.not_kept or str(error)

    def save(self, record: Measurement) -> Change:
        """Make a rehearsed record this machine's baseline.

        Raises:
            MeasurementError: its runs differ too much to catch a loss of 15 %; the old row stays.
            BaselineError: the file can't be read whole or written.
        """
        row, old = baseline_of(record), self._baselines.load(record.machine).get(record.key)
        if old is not None and old.is_measured:
            row = replace(row, lower=old.lower, upper=old.upper)  # someone wrote these by hand
        (change,) = self._baselines.update(record.machine, {row.key: row})
        return change

    def _tonight(self, topology: Topology) -> Tonight:
        """What is known of this machine's night."""
        look = self._look if topology.on_cpus else lambda: None
        return self._machines.setdefault(topology.machine, Tonight(look))

    def _shift(self, tonight: Tonight) -> Shift:
        """What is known of it, after as many looks at the canaries as that takes."""
        if tonight.wants_looks:
            self._watch.phase("canaries")
            tonight.look_until_known()
            self._watch.done()
        return tonight.shift

    def _speaks_against(self, attempt: Run, topology: Topology, baseline: Baseline) -> str:
        """Why bad news is not believed: a test that passed tonight shows that the machine is slower by now."""
        tonight = self._tonight(topology)
        lost = math.log(baseline.reference) + tonight.shift.credited - run_value(attempt).log_rate
        return tonight.controls.slower_now(self._attempt) if self._settings.busy < 1 and lost > SLOWER else ""

    def _device_data(self, workload: Workload, topology: Topology, plan: Plan, trial: Trial) -> float | None:
        """Images/s of the same training on data that lies on the devices, where the trial's steps fetched theirs.

        The verdict is fixed when this is asked for; None where it fails, for whatever reason.
        """
        if (parts := trial.attempts[-1].parts) is None or parts.input is not Input.FETCHED:
            return None
        try:
            return run_value(
                self._attempt(workload.with_(input_pipeline="device"), topology, brief(plan))
            ).images_per_sec
        except (TfperfError, OSError):
            return None

    def _rehearse(
        self, workload: Workload, topology: Topology, plan: Plan, test: str, earlier: Measurement | None
    ) -> Measurement:
        """One more run towards a baseline; slow spells and noise ask for more, up to twice as many."""
        started = time.monotonic() - (earlier.seconds if earlier else 0.0)
        trial = self._one_more(earlier.trial if earlier else Trial(()), workload, topology, plan)
        self._tonight(topology).look()
        wanted = runs_wanted([run_value(attempt) for attempt in trial.attempts], self._settings.runs)
        return self._finish(workload, topology, trial, started, test, runs_wanted=wanted, earlier=earlier)

    def _attempt(self, workload: Workload, topology: Topology, plan: Plan, enough: Enough = lambda _: False) -> Run:
        return self._attempts.one(workload, topology, plan, enough)

    def _one_more(
        self, trial: Trial, workload: Workload, topology: Topology, plan: Plan, baseline: Baseline | None = None
    ) -> Trial:
        """The trial with one more attempt that nothing disturbed: bad news and baselines rest on no other.

        Bad news against `baseline` needs a control, too: a test that passed tonight and is not slower now. What is not
        believed is set aside, and shown.
        """
        aside = trial.set_aside
        tonight, started = self._tonight(topology), time.monotonic()
        # A machine that stays busy or slow must not take the night: later tests get one try, which shows whether it
        # has recovered.
        tries = TRIES if tonight.seconds_in_vain < MOST_SECONDS_IN_VAIN else 1
        for _ in range(tries):
            attempt = self._attempt(workload, topology, plan)
            if not attempt.disturbance and baseline is not None:
                attempt = attempt.disturbed_by(self._speaks_against(attempt, topology, baseline))
            if not attempt.disturbance:
                return Trial((*trial.attempts, attempt), aside)
            aside += (attempt,)
        tonight.seconds_in_vain += time.monotonic() - started
        spent = f"and the tests before it spent {MOST_SECONDS_IN_VAIN / 60:g} min on such tries"
        tried = f"and something in each of {tries} fresh workers" if tries > 1 else spent
        advice = f"({tried}). {remedy(attempt.disturbance)}"
        raise Spoilt(workload, topology, attempt.disturbance, advice, aside[len(trial.set_aside) :])

    def _noise(self, found: Reference, shift: Shift, nights: Sequence[Night]) -> Noise | None:
        """Between runs; where too few tests tell what the night does to them all, between nights as well."""
        row, noise = found.baseline, found.noise
        if row is None or noise is None or not row.is_measured or shift.tests >= LEAST_TESTS:
            return noise
        return replace(noise, between_nights=nights_differ(nights, noise.spread))

    def _judge(self, trial: Trial, found: Reference, accepted: Tolerance, shift: Shift) -> Verdict:
        nights = () if found.floor else self.nights(found.baseline)
        return judge(
            summarise(trial),
            found.baseline,
            accepted,
            self._noise(found, shift, nights),
            floor=found.floor,
            tests=self.sharing,
            shift=NO_SHIFT if found.floor else shift,  # a document's figure says nothing of this machine's nights
            nights=nights,
            hold=self._settings.hold and not found.floor,  # what is below a weaker GPU's figure needs no second night
        )

    def _stop_early(self, found: Reference, accepted: Tolerance) -> Enough:
        baseline, noise = found.baseline, found.noise
        if baseline is None or noise is None:
            return lambda _: False
        nights = () if found.floor else self.nights(found.baseline)
        return lambda attempt: may_stop(summarise(Trial((attempt,))), baseline, accepted, noise, nights)

    def _note_first_run(self, test: str, tonight: Tonight, trial: Trial, found: Reference) -> None:
        if found.baseline is None:
            return
        self._judged.add((test, found.baseline.key))
        if found.floor:
            return
        tonight.note(test, trial.attempts[0], found.baseline)
        if self._tests >= LEAST_TESTS:
            tonight.look()

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
        earlier: Measurement | None = None,
    ) -> Measurement:
        throughput, worker, commit = summarise(trial), trial.attempts[-1].environment, commit_of(self._settings.root)
        record = Measurement(
            test=test,
            workload=workload,
            topology=topology.shape,
            machine=topology.machine,
            devices=topology.describe(),
            gpu=topology.gpus[0].name if topology.gpus else "",
            gpu_fp32_tflops=floor_rate(topology),
            trial=trial,
            throughput=throughput,
            verdict=verdict,
            document=document,
            runs_wanted=verdict.runs_wanted if verdict else runs_wanted,
            canaries=self._tonight(topology).canaries,
            breakdown=breakdown(trial, throughput.images_per_sec, workload, device_data),
            environment=environment(worker, topology, self._settings.inject_slowdown, commit),
            commit=commit,
            time=datetime.now().astimezone().isoformat(timespec="seconds"),
            seconds=time.monotonic() - started,
        )
        if not self._settings.smoke:  # one window tells neither a throughput nor a time
            self._keep(record, earlier)
        if verdict is None and (diverged := no_number(record.throughput)):
            said = f"{workload.id} on {record.devices}: INVALID: {diverged}"
            raise MeasurementError(f"{said}\n  next        {advice(workload)}")
        return record
