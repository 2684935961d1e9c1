"""A user's Python program as a training run: a probe in it tells its steps, and holds it between two windows."""

from __future__ import annotations

import math
import select
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from pytest_tfperf.core.command import STEPS, Command
from pytest_tfperf.core.figure import (
    COMPILATIONS,
    FIRST_STEP,
    FIXED_STEP,
    GRAPH_BREAKS,
    INPUT_WAIT,
    PEAK_MEMORY,
    RECOMPILES,
)
from pytest_tfperf.core.measurement import MEASURED
from pytest_tfperf.core.run import StepParts, Window
from pytest_tfperf.errors import MeasurementError, OneAtATime
from pytest_tfperf.probe import entry, frameworks, link, profile, steps
from pytest_tfperf.probe.hook_folder import HookFolder
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.own_formats import FigureLines
from pytest_tfperf.programs.probe_messages import Counted, Figures, Hello, Ready
from pytest_tfperf.programs.probed_program import THREE_WAYS, Program, Rank, called, require_probe, two, why_not_at_once
from pytest_tfperf.reports.numbers import SMALLEST_SHOWN, counted, percent
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.training_run import OfRank, TrainingRun
from pytest_tfperf.workers.wire import Listener, Silence
from pytest_tfperf.workers.worker_run import WorkerRun

_WAY = {steps.EXPLICIT: "told-steps", steps.KERAS: "keras-steps", steps.OPTIMIZER: "optimizer-steps"}
_PARTS_OF_EXAMPLES = ("tokens", "words", "frames", "pixels", "bytes")  # of which one may hold many
_COUNTS = (COMPILATIONS, RECOMPILES, GRAPH_BREAKS)
_GREET_SECONDS = 0.2  # between two looks for callers
_LEAST_OTHER_WORK, _MANY_STEPS, _LEAST_WINDOWS = 1.0, 10, 5


class ProbedRun(TrainingRun):
    """The training of a user's own program, by its steps.

    Args:
        ranks: its processes that train, which have called.
        peak_memory: returns the most bytes that it held on the host; None where nobody watches.
    """

    def __init__(
        self,
        program: Program,
        listener: Listener,
        command: Command,
        ranks: Sequence[Rank],
        peak_memory: Callable[[], int | None] | None,
        end: Callable[[], None],
        started_as: Command,
    ) -> None:
        self.started_as = started_as
        self._program, self._listener, self._command = program, listener, command
        self._peak_memory = peak_memory
        self._ranks = ranks
        self._of_ready: list[Ready] = []
        self._windows: list[Counted] = []
        self._looks_for_others_at = 0.0
        super().__init__(ranks, program.run.silence_seconds, end=end)
        ready = self._of_ready[0]
        self.environment = {**program.run.environment, **ready.environment, MEASURED: _WAY[ready.source]}

    @property
    def how_counted(self) -> str:
        """Where its steps are seen, and how its examples are counted or why steps are, in words."""
        first, many = self._of_ready[0], len(self._ranks) > 1
        how = first.counted if self._counts_examples and not many else ""
        if self.unit == STEPS:
            how = self.note or "steps are counted"
        ranks = f" over all {len(self._ranks)} ranks" if many else ""
        return f"{first.source}; {how or f'a step holds {self.examples_per_step:,} {self.unit}{ranks}'}"

    @property
    def why_not_held(self) -> str:
        """See `TrainingRun.why_not_held`."""
        if len(self._ranks) > 1:
            return f"{len(self._ranks)} processes train together"
        return "" if self._ranks[0].can_be_stopped else "its process can't be stopped between two windows"

    def hold(self) -> None:
        """See `TrainingRun.hold`."""
        self._ranks[0].stop()

    def request(self, steps: int) -> None:
        """See `TrainingRun.request`; after a stop some steps are taken first that are not timed."""
        first = self._ranks[0]
        for rank in self._ranks:
            rank.send({"steps": steps, "was_stopped": first.is_stopped and bool(self._windows)})
        first.go_on()

    def step_parts(self, windows: int) -> StepParts | None:
        """See `TrainingRun.step_parts`; those of the first rank."""
        if not self._of_ready[0].fetches or not windows:
            return None
        timed = self._windows[-windows:]
        steps = sum(window.steps for window in timed)
        waited = math.fsum(window.input_seconds for window in timed) / steps
        between = math.fsum(window.between_seconds for window in timed) / steps
        whole = math.fsum(window.seconds for window in timed) / steps
        return StepParts(input=waited, compute=max(0.0, whole - waited - between), other=between)

    def not_counted(self, windows: int) -> str:
        """See `TrainingRun.not_counted`; of the first rank."""
        timed = self._windows[-windows:] if windows else []
        paused = math.fsum(window.paused_seconds for window in timed)
        share = paused / (paused + math.fsum(window.seconds for window in timed)) if paused else 0.0
        others, skipped = sum(window.others for window in timed), sum(window.skipped for window in timed)
        texts = [f"{percent(share)} of the time, as in an evaluation"] if share >= SMALLEST_SHOWN else []
        texts += [f"{counted(others, 'step')} of other optimizers"] if others else []
        texts += [f"{skipped:,} of its batches, which no step followed"] if skipped else []
        return "; ".join(texts)

    def _answers(self, kind: str) -> list[Any]:
        self._ranks[0].go_on()
        answers = super()._answers(kind)
        if kind == "ready":
            return self._readied([self._program.checked(Ready, answer) for answer in answers])
        if kind == "figures":
            answers = [self._program.checked(Figures, {"values": answer}).values for answer in answers]
        return answers

    def _readied(self, ready: list[Ready]) -> list[Any]:
        """The answers as a worker gives them."""
        if ready[0].source not in _WAY:
            raise self._program.run.failure(f"its probe told steps of {ready[0].source!r:.60}", THREE_WAYS)
        self._of_ready = ready
        self._program.steps = ready[0].steps
        first, given = ready[0], self._command.examples_per_step
        known = [each.examples_per_step for each in ready]
        unit, examples = self._command.counted, float(given or 0)
        is_told = first.source == steps.EXPLICIT
        if unit == STEPS and given is None:
            examples = 1.0
        elif given is None and None not in known and (is_told or unit not in _PARTS_OF_EXAMPLES):
            examples = math.fsum(each or 0.0 for each in known)
        elif given is None:
            why = first.counted or "nothing tells the examples of a step"
            if None not in known:
                why = f"batches tell their examples, and not their {unit}"
            self.note = f"steps are counted, because {why}: give examples_per_step="
            unit, examples = STEPS, 1.0
        self._counts_examples = given is None and unit != STEPS
        answer = {
            "examples_per_step": examples if examples % 1 else int(examples),
            "unit": unit,
            "replicas": len(ready),
            "steps": first.steps,
            "compile_seconds": max(0.0, first.first_step_at - self._program.began),
            "fetches": True,  # data may be loaded where no loader is seen, so stalls in few windows must count
            "environment": first.environment,
        }
        return [answer] * len(ready)

    def _window(self, windows: Sequence[Mapping[str, Any]]) -> Window:
        of_ranks = [self._program.checked(Counted, window) for window in windows]
        first = of_ranks[0]
        # The ranks train in step, so each one's windows add up to the same time; the sum of the longest would be more.
        seconds = statistics.fmean(window.seconds for window in of_ranks)
        if any(window.steps != first.steps for window in of_ranks) or first.steps < 1 or not 0 < seconds < math.inf:
            self._agreed("steps", windows)
            raise self._program.run.failure(f"its probe told {first.steps} steps in {seconds:g} s", THREE_WAYS)
        examples = None
        if self._counts_examples:
            counts = [window.examples for window in of_ranks]
            if None in counts:
                doubt = next((window.doubt for window in of_ranks if window.doubt), "some batches could not be counted")
                raise self._program.run.failure(doubt, "give examples_per_step=, over all devices, or unit='steps/s'")
            examples = sum(count or 0 for count in counts)
        self._program.drain()  # what it printed in the window's steps
        self._program.steps += first.untimed + first.steps
        self._note_other_work(first, seconds)
        self._windows.append(first)
        return Window(first.steps, seconds, first.loss, examples)

    def _note_other_work(self, window: Counted, seconds: float) -> None:
        """Note a step in which the program also did something else, which no batch of another loader shows.

        Then the mean over windows counts, which leaves the longest ones out, and not all examples over all seconds.
        """
        if len(self._windows) < _LEAST_WINDOWS:
            return
        usual = statistics.median(other.seconds / other.steps for other in self._windows)
        more = seconds - window.input_seconds - window.steps * usual
        if more > max(_LEAST_OTHER_WORK, _MANY_STEPS * usual):
            self.fetches = False
            self.note = (
                f"up to step {self._program.steps:,} one took about {more:.3g} s more than the usual {usual:.3g} s: "
                "the program did something else, such as sampling or a checkpoint, or the machine did; it is left out"
            )

    def figures(self, names: Sequence[str]) -> Mapping[str, OfRank]:
        """The figures that the probe reads, and those that the driver times."""
        asked = [name for name in names if name not in (FIRST_STEP, INPUT_WAIT, *_COUNTS)]
        found = dict(super().figures(asked)) if asked else {}
        found |= {name: OfRank(float(count), "") for name in _COUNTS if name in names for count in self._count(name)}
        if FIRST_STEP in names:
            found[FIRST_STEP] = OfRank(self.compile_seconds, "")
        if PEAK_MEMORY in names and PEAK_MEMORY not in found and self._peak_memory is not None:
            peak = self._peak_memory()
            found |= {} if peak is None else {PEAK_MEMORY: OfRank(float(peak), "")}
        if INPUT_WAIT in names and self._of_ready[0].fetches:
            seconds = math.fsum(window.seconds for window in self._windows)
            found[INPUT_WAIT] = OfRank(math.fsum(w.input_seconds for w in self._windows) / seconds, "")
        return found

    def printed(self) -> Mapping[str, OfRank]:
        """The figures that it has printed."""
        return {name: OfRank(figure.value, "", figure.place) for name, figure in self._program.printed().items()}

    def _count(self, name: str) -> Iterator[int]:
        """Yield the count after the first step and up to `FIXED_STEP`; of graph breaks also those of the first step.

        Raises:
            MeasurementError: the framework has no such counter under the names that are known here.
        """
        if failed := self._program.seen("failed "):
            fact = f"{name} can't be counted: {failed[0]}"
            raise self._program.run.failure(fact, f"leave {name} out of also=")
        step = self._of_ready[0].steps
        for window in self._windows:
            step += window.steps
            if step == FIXED_STEP and name in window.counts:
                first = 0 if name == GRAPH_BREAKS else self._of_ready[0].counts.get(name, 0)
                yield window.counts[name] - first

    def _wait(self, waiting: Sequence[WorkerRun], seconds: float) -> list[WorkerRun]:
        """Wait for answers; meanwhile read the output, and refuse a second training."""
        deadline = time.monotonic() + seconds
        while True:
            self._program.drain()
            self._refuse_others()
            left = max(0.0, deadline - time.monotonic())
            if (ready := super()._wait(waiting, 0.0)) or not left:
                return ready
            poll = select.poll()
            for worker in waiting:
                poll.register(worker.channel, select.POLLIN)
            if not self._program.output_ended:
                poll.register(self._program.run, select.POLLIN)
            poll.poll(min(left, _GREET_SECONDS) * 1000)

    def _refuse_others(self) -> None:
        if time.monotonic() < self._looks_for_others_at:
            return
        self._looks_for_others_at = time.monotonic() + _GREET_SECONDS
        with suppress(Silence):
            channel, hello = self._listener.greet(0.001)
            channel.close()
            pids = [rank.pids[0] for rank in self._ranks]
            raise two(self._program, [*pids, self._program.checked(Hello, hello).pid])


def start(
    prepared: PreparedCommand,
    command: Command,
    *,
    slowdown: float,
    figures: FigureLines,
    phase: Callable[[str], None],
    notice: Callable[[str], None],
    hear: Callable[[str], None] = lambda _: None,
    waits_on: Callable[[str], bool] | None = None,
    watch_memory: Callable[[int], Any] | None = None,
    beside: TrainingRun | None = None,
) -> ProbedRun:
    """Start a program with a probe in it, and wait for its first steps.

    Args:
        slowdown: fraction of its throughput that it loses on purpose.
        figures: takes its lines.
        hear: takes them, too.
        waits_on: for a trial, which starts where the probe is barred, too: returns by what was seen of the program
            whether to wait on for its first step.
        watch_memory: watches the children of a process; returns their peak.
        beside: another program's run, which is held meanwhile.

    Raises:
        NoStep: it took no step that can be seen, and did not fail.
        OneAtATime: it would disturb the program beside it, or be disturbed.
        MeasurementError: it could not be started, failed, or trains twice at once.
    """
    if waits_on is None:
        require_probe(prepared.command)
    if prepared.scratch is None:
        raise MeasurementError(
            "a program is measured by its steps on one node only",
            next_step="On several nodes state what it prints: reads=Reads(...); `tfperf read -- COMMAND` shows it",
        )
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, prepared.scratch, ignore_errors=True)
        if isinstance(beside, ProbedRun) and (reason := why_not_at_once(beside.started_as, prepared.command)):
            raise OneAtATime(reason)
        listener = Listener()
        undo.callback(listener.close)
        host, port, key = listener.address.rsplit(":", 2)
        seen = prepared.scratch / "seen"
        hook = HookFolder(prepared.scratch)
        hook.add(entry, "begin", str(seen), host, int(port), key, beside=(steps, link, frameworks, profile))
        environment = hook.environment(prepared.command.env)
        run = CommandRun(replace(prepared, command=replace(prepared.command, env=environment)))
        undo.callback(run.close)
        undo.enter_context(prepared.proof(run.pid))
        peak_memory = undo.enter_context(watch_memory(run.pid)) if watch_memory is not None else None
        phase("first step")
        program = Program(run, seen, figures, slowdown, hear)
        ranks = called(program, listener, command, notice, waits_on, phase, undo)
        end = undo.pop_all()
        try:
            return ProbedRun(program, listener, command, ranks, peak_memory, end.close, prepared.command)
        except BaseException:
            end.close()
            raise
