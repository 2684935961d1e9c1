"""The consequences of a test's outcomes: failure, error or warning, and the messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Consequence, Outcome
from pytest_tfperf.errors import (
    BaselineRefused,
    GateFailure,
    MeasurementError,
    NoData,
    NotEnoughDevices,
    NotEnoughNodes,
    NotInstalled,
    ThroughputRegression,
)
from pytest_tfperf.features import features
from pytest_tfperf.judging.validity import load_of
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.invalid import load_note
from pytest_tfperf.reports.message import message
from pytest_tfperf.reports.verdict import bad_figures, headline, in_brief
from pytest_tfperf.session.state import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """The consequences of the calls that a test has made, and its further warnings."""

    state: SessionState
    test: str
    calls: int
    warnings: tuple[str, ...] = ()

    def conclude(self, warn: Callable[[list[Line]], None]) -> None:
        """Apply the outcomes: called when the test's body has finished, and only if it did not fail.

        Where a call is undecided no outcome is applied: the test runs again after all others.

        Raises:
            ThroughputRegression, GateFailure: the test fails.
            MeasurementError, BaselineError, TfperfError: it errors.
        """
        self.state.queue.require_all_calls(self.test, self.calls)
        if not self.is_decided:
            return
        by_consequence: dict[Consequence, list[Measurement]] = {kind: [] for kind in Consequence}
        for result in self.results:
            by_consequence[self.state.consequence_of(result)].append(result)
        for text in self.warnings:
            warn([Line(text)])
        for result in by_consequence[Consequence.WARNS]:
            warn(self._warning(result))
        if failing := by_consequence[Consequence.FAILS]:
            regressed = any(result.outcome is Outcome.REGRESSED for result in failing)
            raise (ThroughputRegression if regressed else GateFailure)(*self._messages(failing))
        if invalid := by_consequence[Consequence.ERRORS]:
            fact, *below = self._messages(invalid)
            raise MeasurementError(fact, *below, brief="; ".join(map(in_brief, invalid)))
        self._record()

    @property
    def results(self) -> Sequence[Measurement]:
        """The results of this test's calls, in order."""
        return self.state.queue.results_of(self.test)[: self.calls]

    @property
    def is_decided(self) -> bool:
        """Whether no call wants fresh runs at the end of the session."""
        return self.state.queue.is_decided(self.test)

    @property
    def properties(self) -> list[tuple[str, object]]:
        """The properties of the calls that are decided, for JUnit XML and what else reads pytest's reports."""
        decided = [result for result in self.results if result.is_decided]
        return [pair for feature in features().values() for pair in feature.properties(decided)]

    def unreported(self) -> list[Line]:
        """Messages of regressions, confirmed or suspected, in a test whose body failed first."""
        against = (Consequence.FAILS, Consequence.WARNS)
        return self._messages([r for r in self.results if self.state.consequence_of(r) in against])

    def confirmed_failures(self) -> list[Line]:
        """Messages of regressions that were confirmed before the test ended in an error."""
        return self._messages(self._failed)

    def failures_in_brief(self) -> str:
        """`confirmed_failures` in one line."""
        return "; ".join(map(in_brief, self._failed))

    @property
    def _failed(self) -> list[Measurement]:
        return [r for r in self.results if r.is_decided and self.state.consequence_of(r) is Consequence.FAILS]

    def _record(self) -> None:
        """Write the measured baselines; a refused baseline does not keep the others from being written."""
        refused: list[BaselineRefused] = []
        for index, result in enumerate(self.results):
            if result.recording is not None:
                try:
                    load = load_note(load_of(result.runs), len(result.runs))
                    controls = self.state.session.controls.found_on(result.machine)
                    self.state.recorder.record(result, load, controls)
                except BaselineRefused as error:
                    refused.append(error)
                    self.state.queue.keep(self.test, index, replace(result, is_refused=True))
        if refused:
            first, *others = refused
            below = [line for error in others for line in (Line(""), *error.lines)]
            raise first.and_below(*below) if others else first

    def _messages(self, results: Sequence[Measurement]) -> list[Line]:
        """The messages, with an empty line between two of them."""
        command = self.state.settings.rerun
        return [line for result in results for line in (Line(""), *message(result, command))][1:]

    def _warning(self, result: Measurement) -> list[Line]:
        """The message; in one line where the baseline is only provisional, because it needs no action today."""
        verdict = None if bad_figures(result) else result.verdict
        if verdict and verdict.if_slower is Consequence.WARNS:
            rerun = self.state.settings.rerun.of(self.test)
            return [Line(f"{headline(result)}: {verdict.why}. Rerun: {rerun}")]
        return self._messages([result])


def missing_as_error(state: SessionState, error: NoData | NotEnoughDevices | NotInstalled) -> MeasurementError | None:
    """The error that takes a skip's place under --tfperf-require-baseline; None if the test may skip."""
    if isinstance(error, NoData):
        return error.of_type(MeasurementError)
    if not isinstance(error, NotEnoughDevices):
        return None
    if isinstance(error, NotEnoughNodes) and state.nodes is not None:
        return error.of_type(MeasurementError)  # who names a launcher for the gate wants its tests to run
    machine = state.session.topology
    if machine.driver_fault:
        why = "A driver is installed, so this machine should have GPUs"
    elif 0 < error.wanted <= len(machine.gpus) + len(machine.lost):
        why = "With the lost GPUs it would have enough"
    elif _had(state, error.wanted):
        why = f"Its baselines were measured on {error.wanted} GPUs: one is missing"
    else:
        return None
    return MeasurementError(error.fact, next_step=". ".join(filter(None, (error.next_step, why))))


def _had(state: SessionState, gpus: int) -> bool:
    """Whether the machine, where it has a name of its own, was measured with so many GPUs."""
    name = state.settings.machine
    if not (name and gpus):
        return False
    rows = state.session.baselines.load(name).values()
    return any(row.gpu and row.key.topology == f"1x{gpus}" for row in rows if row.is_measured)
