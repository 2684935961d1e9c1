"""A user's program with a probe in it: what must hold before it starts, its output, its processes and its errors."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.errors import Hung, MeasurementError, NoStep, TfperfError, TrainingEnded
from pytest_tfperf.lines import Line, shortened
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.own_formats import FigureLines, FigureValue
from pytest_tfperf.programs.probe_messages import MOST_BYTES, Hello
from pytest_tfperf.programs.reading import LineSplitter, worded_by
from pytest_tfperf.programs.supervisor import MOST_STOPPED_SECONDS
from pytest_tfperf.reports.numbers import counted, duration
from pytest_tfperf.workers.processes import Process
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, Refused, Silence
from pytest_tfperf.workers.worker_run import Fault, WorkerRun

_FIRST_STEP_SECONDS = 300.0
_DRAIN_SECONDS = 0.02  # between two looks at its output until it trains
_END_SECONDS = 20.0  # in which a program ends after its probe's connection has
_MOST_READS = 64
_NOTICE_SECONDS = 20.0  # from the program's start: the progress shows it in its next line, after 30 s

_ANSWERS = {"ready", "window", "figures", "trace"}
T = TypeVar("T")

THREE_WAYS = (
    "tell each step by `sys.audit('tfperf.step', EXAMPLES)` at its end; or state what the program prints by "
    "reads=Reads(...), with unit='images/s'; `tfperf read -- COMMAND` shows both"
)


class Rank(WorkerRun):
    """A process of the program that trains."""

    def __init__(self, program: Program, hello: Hello) -> None:
        self._program = program
        self._pid = hello.pid
        self._group = _own_group(hello.pid, program.run.pid)
        self.is_stopped = False
        super().__init__(
            Process(program.run.pid, lambda _: None, is_here=True, is_ended_here=False),
            Path(program.run.log),
            None,
            {"slowdown": program.slowdown, "hold_seconds": MOST_STOPPED_SECONDS},
            python="",
            on_cpus=True,
            silence_seconds=program.run.silence_seconds,
            name=f"rank {hello.rank} of {hello.ranks}" if hello.ranks > 1 else "the program",
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """See `WorkerRun.pids`."""
        return (self._pid,)

    @property
    def can_be_stopped(self) -> bool:
        """Whether `stop` stops it."""
        return self._group is not None

    def stop(self) -> None:
        """Stop its process group until `go_on`.

        Only its probe would wait otherwise. What it fetches ahead, in threads and processes, would fill its buffers
        and disturb others meanwhile, and its next steps would be too fast.
        """
        if not self.is_stopped:
            self.is_stopped = True
            self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let its process group go on, if it was stopped."""
        if self.is_stopped:
            self._signal(signal.SIGCONT)
        self.is_stopped = False

    def _signal(self, number: signal.Signals) -> None:
        if self._group is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._group, number)

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
        return self._program.ended()

    def silent(self, seconds: float | None = None) -> Hung:
        """The error for a process that takes no step any more."""
        self.fault = Fault.SILENT
        for_so_long = duration(self.silence_seconds if seconds is None else seconds)
        return self._program.run.hung(f"{self.name} took no step for {for_so_long} {self._program.after}")


def _own_group(pid: int, supervisor: int) -> int | None:
    """The process group of a process that the program has started; None if it may not be stopped.

    It is another's or gone; or it is a job of a shell, which would go on when its job is stopped.
    """
    try:
        is_own = supervisor in (parent.pid for parent in psutil.Process(pid).parents())
        group = os.getpgid(pid)
        os.killpg(group, 0)
        return group if is_own and group == os.getsid(pid) != os.getsid(supervisor) else None
    except (psutil.Error, ProcessLookupError, PermissionError):
        return None


class Program:
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
        self.output_ended = False
        self.steps = 0  # that have ended, as far as the driver knows

    def drain(self) -> None:
        """Read what it has printed, or so much of it that the driver does other things too."""
        for _ in range(_MOST_READS):
            if self.output_ended or (data := self.run.read(0)) is None:
                return
            self.output_ended = data == b""
            with worded_by(self.run.failure):
                for line in self._splitter.feed(data or b"\n"):  # the last one may lack its end
                    self._hear(line)
                    self.figures.take(line, steps=self.steps)

    def printed(self) -> Mapping[str, FigureValue]:
        """The figures that its lines gave."""
        self.drain()
        with worded_by(self.run.failure):
            self.figures.take("", steps=self.steps)
            return self.figures.values()

    def seen(self, kind: str) -> list[str]:
        """What its Pythons have told of this kind, each text once."""
        text = ""
        with suppress(OSError):
            text = self._seen.read_text("utf-8", "replace")
        told = (line.partition("\t")[2] for line in text.splitlines())
        return list(dict.fromkeys(what.removeprefix(kind) for what in told if what.startswith(kind)))

    def why_not_measured(self) -> str:
        """Why a probe has ended while its process goes on; "" where none has."""
        return next(iter(self.seen("ended ")), "")

    def seen_in_words(self) -> str:
        """What was seen, in words."""
        imported, took, ended = sorted(self.seen("imported ")), sorted(self.seen("step of ")), self.seen("ended ")
        texts = [f"it imported {' and '.join(imported)}" if imported else "no framework was imported"]
        if took and not ended:
            texts.append(f"a step of {' and of '.join(took)} was seen, and too few followed")
        return "; ".join([*texts, *self.seen("failed "), *ended])

    @property
    def after(self) -> str:
        """After how many steps something happened, in words."""
        return f"after {counted(self.steps, 'step')}" if self.steps else "before its first window"

    def ended(self) -> MeasurementError:
        """The error for a program that has ended, or goes on without its probe."""
        deadline = time.monotonic() + _END_SECONDS
        while not (why := self.why_not_measured()) and not self.run.has_ended() and time.monotonic() < deadline:
            self.drain()
            time.sleep(_DRAIN_SECONDS)
        if why or not self.run.has_ended():
            why = why or "it has closed its probe's connection, or started itself anew"
            return self.not_measured(f"the program is no longer measured {self.after}, and still runs", why)
        if bad := self.run.ended_badly():
            return self.run.failure(f"the program {bad} {self.after}", "fix the cause that its output shows")
        step = Line("let it train longer, or give fewer steps=", "next")
        return TrainingEnded(f"the program ended {self.after}", step, f"its log: {self.run.log}")

    def not_measured(self, fact: str, why: str) -> MeasurementError:
        """The error for a program whose probe has ended; the reason may say what to do."""
        why, _, advice = why.partition("; next: ")
        return self.run.failure(f"{fact}: {why}", advice or THREE_WAYS)

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

    def ended_without_a_step(self) -> MeasurementError:
        """The error for a program that ended before its probe called."""
        bad = self.run.ended_badly()
        fact = f"the program {bad or 'ended'} before a step could be seen: {self.seen_in_words()}"
        if bad:
            return self.run.failure(fact, "fix the cause that its output shows")
        return self.run.failure(fact, THREE_WAYS).of_type(NoStep)


def two(program: Program, pids: Sequence[int]) -> MeasurementError:
    """The error for a program of which several processes train, each by itself."""
    if pids[-1] in pids[:-1]:
        return program.run.failure(f"the program (pid {pids[-1]}) started itself anew while it trained", THREE_WAYS)
    return program.run.failure(
        f"{len(pids)} processes train (pids {', '.join(map(str, pids))}), and nothing says that they do so together",
        "measure a program that trains once; ranks are known by torch.distributed, RANK and WORLD_SIZE, or mpirun",
    )


def called(
    program: Program,
    listener: Listener,
    command: Command,
    notice: Callable[[str], None],
    waits_on: Callable[[str], bool] | None,
    phase: Callable[[str], None],
    undo: ExitStack,
) -> list[Rank]:
    """The processes that train, by rank, once all of them have called."""
    started = time.monotonic()
    within = command.first_within or min(_FIRST_STEP_SECONDS, program.run.silence_seconds)
    calls: dict[int, tuple[Channel, Hello]] = {}
    expected = 1
    while len(calls) < expected:
        program.drain()
        waited = time.monotonic() - started
        is_over = waits_on is not None and not waits_on(program.seen_in_words())
        if (waited >= within or is_over) and not calls:
            raise program.no_step(waited)
        if waited >= within:
            missing = sorted(set(range(expected)) - calls.keys())
            raise program.run.failure(
                f"of {expected} ranks {', '.join(map(str, missing))} took no step in {duration(waited)}", THREE_WAYS
            )
        if waited >= _NOTICE_SECONDS:
            notice(f"it waits for the first step: {program.seen_in_words()}")
        try:
            channel, message = listener.greet(_DRAIN_SECONDS)
        except Silence:
            if program.output_ended and program.run.has_ended():  # one that only closed its output may still train
                raise program.ended_without_a_step() from None
            if not calls and (why := program.why_not_measured()):
                raise program.not_measured("the program can't be measured", why) from None
            continue
        undo.callback(channel.close)
        hello = program.checked(Hello, message)
        others = [other.pid for _, other in calls.values()]
        if hello.rank in calls or (others and hello.ranks != expected):
            raise two(program, [*others, hello.pid])
        expected = hello.ranks
        calls[hello.rank] = channel, hello
    ranks = []
    for _, (channel, hello) in sorted(calls.items()):
        ranks.append(rank := Rank(program, hello))
        undo.callback(rank.close)
        undo.callback(rank.go_on)
        channel.most_bytes = MOST_BYTES
        rank.adopt(channel, phase)
    return ranks


_WRITES = re.compile(r"(?<![a-z])(out|sav|log|checkpoint|ckpt|result|run|work(?!er))", re.IGNORECASE)
_PORT = re.compile(r"(^|[-_.]|master)port$", re.IGNORECASE)


def why_not_at_once(a: Command, b: Command) -> str:
    """Why two programs can't run at once without one writing what the other does; "" where nothing shows that."""
    if Path(a.cwd).resolve() == Path(b.cwd).resolve():
        return "both run in one folder, where each may write the files of the other"
    ours = set(_named_values(a))
    for name, value in _named_values(b):
        is_folder = value.startswith("/") and _WRITES.search(name)
        is_port = value.isdecimal() and _PORT.search(name)
        if (name, value) in ours and (is_folder or is_port):
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
