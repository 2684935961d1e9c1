"""A user's Python program as a training run: a probe in it tells its steps, and holds it between two windows."""

from __future__ import annotations

import math
import os
import re
import select
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

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
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.run import StepParts, Window
from pytest_tfperf.errors import Hung, MeasurementError, NoStep, OneAtATime, TfperfError, TrainingEnded
from pytest_tfperf.lines import Line, shortened
from pytest_tfperf.probe import entry, frameworks, link, steps
from pytest_tfperf.probe.hook_folder import HookFolder
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.own_formats import FigureLines, FigureValue
from pytest_tfperf.programs.reading import LineSplitter, Unreadable
from pytest_tfperf.reports.numbers import counted, duration
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.processes import Process
from pytest_tfperf.workers.training_run import OfRank, TrainingRun
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, Refused, Silence
from pytest_tfperf.workers.worker_run import Fault, WorkerRun

_WAY = {steps.EXPLICIT: "told-steps", steps.KERAS: "keras-steps", steps.OPTIMIZER: "optimizer-steps"}
_PARTS_OF_EXAMPLES = ("tokens", "words", "frames", "pixels", "bytes")  # of which one may hold many
_COUNTS = (COMPILATIONS, RECOMPILES, GRAPH_BREAKS)
_FIRST_STEP_SECONDS = 300.0
_GREET_SECONDS = 0.2  # between two looks for callers
_DRAIN_SECONDS = 0.02  # between two looks at its output until it trains
_END_SECONDS = 20.0  # in which a program ends after its probe's connection has
_MOST_READS = 64
_NOTICE_SECONDS = 20.0  # from the program's start: the progress shows it in its next line, after 30 s
_LEAST_OTHER_WORK, _MANY_STEPS, _LEAST_WINDOWS = 1.0, 10, 5
_MOST_RANKS = 1024
_MOST = 2**53  # examples, steps, seconds
_MOST_BYTES = 64 * 1024  # of a probe's message
_MOST_HELD_SECONDS = 900.0  # a program that is held for longer goes on, unmeasured

_ANSWERS = {"ready", "window", "figures"}
T = TypeVar("T")

THREE_WAYS = (
    "tell each step by `sys.audit('tfperf.step', EXAMPLES)` at its end; or state what the program prints by "
    "reads=Reads(...), with unit='images/s'; `tfperf read -- COMMAND` shows both"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hello:
    """How a probe calls."""

    pid: int
    rank: int
    ranks: int

    def __post_init__(self) -> None:
        if not (0 < self.pid <= _MOST and 0 <= self.rank < self.ranks <= _MOST_RANKS):
            raise TfperfError("a number can't be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """What a probe tells when its process has taken some steps."""

    source: str
    steps: int  # that it has taken
    examples_per_step: float | None
    counted: str  # how examples are counted, or why not
    fetches: bool
    first_step_at: float  # by the clock of `time.perf_counter`
    counts: Mapping[str, int]  # of compilations and the like, at the end of the first step
    skips: int | None  # steps after a hold that are not timed; None where buffers are not known
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_numbers(self.steps, self.examples_per_step, self.skips)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """A window as a probe tells it."""

    steps: int
    seconds: float
    loss: float | None
    examples: int | None
    input_seconds: float
    between_seconds: float
    paused_seconds: float
    skipped: int
    others: int
    doubt: str
    counts: Mapping[str, int]

    def __post_init__(self) -> None:
        _require_numbers(
            self.steps, self.seconds, self.examples, self.input_seconds, self.between_seconds, self.paused_seconds
        )


def _require_numbers(*numbers: float | None) -> None:
    if not all(number is None or 0 <= number <= _MOST for number in numbers):
        raise TfperfError("a number can't be true")


class _Rank(WorkerRun):
    """A process of the program that trains."""

    def __init__(self, program: _Program, hello: _Hello) -> None:
        self._program = program
        self._pid = hello.pid
        self.taken = 0
        super().__init__(
            Process(program.run.pid, lambda _: None, is_here=True, is_ended_here=False),
            Path(program.run.log),
            None,
            {"slowdown": program.slowdown, "hold_seconds": _MOST_HELD_SECONDS},
            python="",
            on_cpus=True,
            silence_seconds=program.run.silence_seconds,
            name=f"rank {hello.rank} of {hello.ranks}" if hello.ranks > 1 else "the program",
        )

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._pid,)

    def poll(self) -> dict[str, Any] | None:
        """See `WorkerRun.poll`; the program itself may write to its probe's connection."""
        try:
            message = self.channel.receive(0)
        except Silence:
            return None
        except Refused as error:
            raise self._program.broken(str(error)) from None
        except ConnectionLost:
            raise self.lost() from None
        if not message.keys() <= _ANSWERS:
            raise self._program.broken(f"it has sent {shortened(sorted(message), 60)}")
        return message

    def lost(self, seconds: float = 0) -> MeasurementError:  # noqa: ARG002  the program says how it ended
        """The error for a process that has closed its connection."""
        self.fault = Fault.LOST
        return self._program.ended(self.taken)

    def silent(self, seconds: float | None = None) -> Hung:
        """The error for a process that takes no step any more."""
        self.fault = Fault.SILENT
        for_so_long = duration(self.silence_seconds if seconds is None else seconds)
        return self._program.run.hung(f"{self.name} took no step for {for_so_long} after {counted(self.taken, 'step')}")


class _Program:
    """The running program: its output, which must be read all the time, and its processes that call.

    Args:
        figures: takes the lines that it prints, for figures that are read from them.
        hear: takes these lines, too.
    """

    def __init__(
        self, run: CommandRun, seen: Path, figures: FigureLines, slowdown: float, hear: Callable[[str], None]
    ) -> None:
        self.run = run
        self.began = time.perf_counter()
        self.slowdown = slowdown
        self._seen = seen
        self._splitter = LineSplitter()
        self.figures = figures
        self._hear = hear
        self.has_ended = False
        self.steps = 0  # that have ended, as far as the driver knows

    def drain(self) -> None:
        """Read what it has printed, or so much of it that the driver does other things too."""
        for _ in range(_MOST_READS):
            if self.has_ended or (data := self.run.read(0)) is None:
                return
            self.has_ended = data == b""
            with self._failures():
                for line in self._splitter.feed(data or b"\n"):  # the last one may lack its end
                    self._hear(line)
                    self.figures.take(line, steps=self.steps)

    def printed(self) -> Mapping[str, FigureValue]:
        """The figures that its lines gave."""
        self.drain()
        with self._failures():
            self.figures.take("", steps=self.steps)
            return self.figures.values()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn a line that can't be read into a failure of the program, with the end of its output."""
        try:
            yield
        except Unreadable as error:
            raise self.run.failure(error.fact, error.next_step, *error.lines) from error

    def seen(self) -> list[tuple[int, str]]:
        """What its Pythons have told: the process, and what it saw."""
        text = ""
        with suppress(OSError):
            text = self._seen.read_text("utf-8", "replace")
        rows = (line.partition("\t") for line in text.splitlines())
        return list(dict.fromkeys((int(pid), what) for pid, _, what in rows if pid.isdecimal()))

    def why_not_measured(self) -> str:
        """Why a probe has ended while its process goes on; "" where none has."""
        return next((text.removeprefix("ended ") for _, text in self.seen() if text.startswith("ended ")), "")

    def seen_in_words(self) -> str:
        """What was seen, in words."""
        what = [text for _, text in self.seen()]
        imported = sorted({text.removeprefix("imported ") for text in what if text.startswith("imported ")})
        took = sorted({text.removeprefix("step of ") for text in what if text.startswith("step of ")})
        texts = [f"it imported {' and '.join(imported)}" if imported else "no framework was imported"]
        if took and not self.why_not_measured():
            texts.append(f"a step of {' and of '.join(took)} was seen, and too few followed")
        texts += [text for text in what if text.startswith(("failed", "ended"))]
        return "; ".join(texts)

    def ended(self, taken: int) -> MeasurementError:
        """The error for a program that has ended, or goes on without its probe."""
        deadline = time.monotonic() + _END_SECONDS
        while not (why := self.why_not_measured()) and not self.run.has_ended() and time.monotonic() < deadline:
            self.drain()
            time.sleep(_DRAIN_SECONDS)
        after = f"after {counted(taken, 'step')}" if taken else "before its first window"
        if "the program tells its steps" in why:
            return self.run.failure(why, "tell them from the first step on")
        if why or not self.run.has_ended():
            text = f": {why}" if why else ", or started itself anew"
            return self.run.failure(f"the program is no longer measured {after}, and still runs{text}", THREE_WAYS)
        bad = self.run.ended_badly()
        if bad:
            return self.run.failure(f"the program {bad} {after}", "fix the cause that its output shows")
        fact = f"the program ended {after}"
        step = Line("let it train longer, or give fewer steps=", "next")
        return TrainingEnded(fact, step, f"its log: {self.run.log}")

    def checked(self, kind: type[T], answer: object) -> T:
        """An answer of a probe as a dataclass."""
        try:
            return build(kind, answer, "its answer", newer=True)
        except TfperfError as error:
            raise self.broken(error.fact) from None

    def broken(self, why: str) -> MeasurementError:
        """The error for an answer that is none of a probe's."""
        return self.run.failure(f"its probe can't be understood: {why}", "leave the probe's connection to it")

    def no_step(self, waited: float) -> MeasurementError:
        """The error for a program that takes no step that can be seen."""
        fact = f"the program took no step that can be seen in {duration(waited)}: {self.seen_in_words()}"
        step = f"{THREE_WAYS}; if its first step comes later, give first_within=SECONDS"
        return self.run.failure(fact, step).of_type(NoStep)


class ProbedRun(TrainingRun):
    """The training of a user's own program, by its steps.

    Args:
        ranks: its processes that train, which have called.
        peak_memory: returns the most bytes that it held on the host; None where nobody watches.
    """

    def __init__(
        self,
        program: _Program,
        listener: Listener,
        command: Command,
        ranks: Sequence[_Rank],
        peak_memory: Callable[[], int | None] | None,
        end: Callable[[], None],
        started_as: Command,
    ) -> None:
        self.started_as = started_as
        self._program, self._listener, self._command = program, listener, command
        self._peak_memory = peak_memory
        self._ranks = ranks
        self._of_ready: list[_Ready] = []
        self._windows: list[_Counted] = []
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
        skips = self._of_ready[0].skips
        if skips is None:
            return "nobody knows how many batches it fetches ahead, and so would be too fast after waiting"
        return ""

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

    def _answers(self, kind: str) -> list[Any]:
        answers = super()._answers(kind)
        if kind == "ready":
            return self._readied([self._program.checked(_Ready, answer) for answer in answers])
        if kind == "figures":
            answers = [self._program.checked(_Figures, {"values": answer}).values for answer in answers]
        return answers

    def _readied(self, ready: list[_Ready]) -> list[Any]:
        """The answers as a worker gives them."""
        if ready[0].source not in _WAY:
            raise self._program.run.failure(f"its probe told steps of {ready[0].source!r:.60}", THREE_WAYS)
        self._of_ready = ready
        for rank, of_rank in zip(self._ranks, ready, strict=True):
            rank.taken = of_rank.steps
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
            "fetches": first.fetches,
            "environment": first.environment,
        }
        return [answer] * len(ready)

    def _window(self, windows: Sequence[Mapping[str, Any]]) -> Window:
        of_ranks = [self._program.checked(_Counted, window) for window in windows]
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
        for rank in self._ranks:
            rank.taken += first.steps
        self._program.drain()  # what it printed in the window's steps
        self._program.steps += first.steps
        self._note_other_work(first, seconds)
        self._windows.append(first)
        return Window(first.steps, seconds, first.loss, examples)

    def _note_other_work(self, window: _Counted, seconds: float) -> None:
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
        if failed := [text for _, text in self._program.seen() if text.startswith("failed")]:
            fact = f"{name} can't be counted: {failed[0].removeprefix('failed ')}"
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
            if not self._program.has_ended:
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
            raise _two(self._program, [*pids, self._program.checked(_Hello, hello).pid])


def _two(program: _Program, pids: Sequence[int]) -> MeasurementError:
    if pids[-1] in pids[:-1]:
        return program.run.failure(f"the program (pid {pids[-1]}) started itself anew while it trained", THREE_WAYS)
    return program.run.failure(
        f"{len(pids)} processes train (pids {', '.join(map(str, pids))}), and nothing says that they do so together",
        "measure a program that trains once; ranks are known by torch.distributed, RANK and WORLD_SIZE, or mpirun",
    )


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
            "a program on several nodes is not measured by its steps",
            next_step="State what it prints: reads=Reads(...)",
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
        hook.add(entry, "begin", str(seen), host, int(port), key, beside=(steps, link, frameworks))
        environment = hook.environment(prepared.command.env)
        run = CommandRun(replace(prepared, command=replace(prepared.command, env=environment)))
        undo.callback(run.close)
        undo.enter_context(prepared.proof(run.pid))
        peak_memory = undo.enter_context(watch_memory(run.pid)) if watch_memory is not None else None
        phase("first step")
        program = _Program(run, seen, figures, slowdown, hear)
        ranks = _called(program, listener, command, notice, waits_on, undo)
        for rank, _ in ranks:
            undo.callback(rank.close)
        for rank, channel in ranks:
            channel.most_bytes = _MOST_BYTES
            rank.adopt(channel, phase)
        end = undo.pop_all()
        try:
            own = [rank for rank, _ in ranks]
            return ProbedRun(program, listener, command, own, peak_memory, end.close, prepared.command)
        except BaseException:
            end.close()
            raise


def _called(
    program: _Program,
    listener: Listener,
    command: Command,
    notice: Callable[[str], None],
    waits_on: Callable[[str], bool] | None,
    undo: ExitStack,
) -> list[tuple[_Rank, Channel]]:
    """The processes that train, by rank, with their channels."""
    started = time.monotonic()
    within = command.first_within or min(_FIRST_STEP_SECONDS, program.run.silence_seconds)
    calls: dict[int, tuple[Channel, _Hello]] = {}
    ranks = 1
    while len(calls) < ranks:
        program.drain()
        waited = time.monotonic() - started
        is_over = waits_on is not None and not waits_on(program.seen_in_words())
        if (waited >= within or is_over) and not calls:
            raise program.no_step(waited)
        if waited >= within:
            missing = sorted(set(range(ranks)) - calls.keys())
            raise program.run.failure(
                f"of {ranks} ranks {', '.join(map(str, missing))} took no step in {duration(waited)}", THREE_WAYS
            )
        if waited >= _NOTICE_SECONDS:
            notice(f"it waits for the first step: {program.seen_in_words()}")
        try:
            channel, message = listener.greet(_DRAIN_SECONDS)
        except Silence:
            if program.has_ended:
                raise _no_call(program) from None
            if not calls and (why := program.why_not_measured()):
                raise program.run.failure(f"the program can't be measured: {why}", THREE_WAYS) from None
            continue
        undo.callback(channel.close)
        hello = program.checked(_Hello, message)
        others = [other.pid for _, other in calls.values()]
        if hello.rank in calls or (others and hello.ranks != ranks):
            raise _two(program, [*others, hello.pid])
        ranks = hello.ranks
        calls[hello.rank] = channel, hello
    return [(_Rank(program, hello), channel) for _, (channel, hello) in sorted(calls.items())]


def _no_call(program: _Program) -> MeasurementError:
    bad = program.run.ended_badly()
    fact = f"the program {bad or 'ended'} before a step could be seen: {program.seen_in_words()}"
    if bad:
        return program.run.failure(fact, "fix the cause that its output shows")
    return program.run.failure(fact, THREE_WAYS).of_type(NoStep)


_WRITES = re.compile(r"-*\w*?(out|save|log|checkpoint|ckpt|result|run|work)\w*|-*\w*port", re.IGNORECASE)


def why_not_at_once(a: Command, b: Command) -> str:
    """Why two programs can't run at once without one writing what the other does; "" where nothing shows that."""
    if Path(a.cwd).resolve() == Path(b.cwd).resolve():
        return "both run in one folder, where each may write the files of the other"
    ours = set(_named_values(a))
    for name, value in _named_values(b):
        if (name, value) in ours and _WRITES.fullmatch(name) and (value.startswith("/") or value.isdecimal()):
            return f"both are given {name.lstrip('-')}={value}, where each may write what the other does"
    return ""


def _named_values(command: Command) -> Iterator[tuple[str, str]]:
    """The options and variables of its own, each with its value."""
    for word, following in zip(command.words, [*command.words[1:], ""], strict=True):
        name, is_given, value = word.partition("=")
        yield name, value if is_given else following
    for name, value in command.env.items():
        if os.environ.get(name) != value:
            yield name, value


def require_probe(command: Command) -> None:
    """Refuse a Python that is told to ignore PYTHONPATH, or to import no `sitecustomize`."""
    program, *words = command.words
    if not Path(program).name.startswith("python"):
        return
    options = iter(words)
    for option in options:
        if not option.startswith("-") or option.startswith("--") or option == "-":
            return
        for letter in option[1:]:
            if letter in "IES":
                raise MeasurementError(
                    f"{Path(program).name} {option} runs without the probe that tells a program's steps",
                    next_step=f"Start it without -{letter}, or state what it prints: reads=Reads(...)",
                )
            if letter in "cm":
                return
            if letter in "WX":  # the rest is its value, or the next word
                if option.endswith(letter):
                    next(options, None)
                break
