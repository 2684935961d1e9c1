"""The progress line of a terminal, the plain lines of a pipe in its place, and the step lines that `-v` prints."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.run import OwnRun, Plan, Run
from pytest_tfperf.core.throughput import window_statistics
from pytest_tfperf.lines import one_line, printable
from pytest_tfperf.reports.invalid import disturbance_fact
from pytest_tfperf.reports.numbers import duration, rate, time_span

PLAIN_SECONDS = 29.0
"""The time between two plain lines, so that a CI system's log shows progress and stays short."""

_SAVE, _RESTORE, _CLEAR_TO_END = "\x1b7", "\x1b8", "\x1b[K"
_AGED_SECONDS = 10.0
_RULE = "-" * 64
_DISPLAY_EVERY = 10  # steps, as tf_cnn_benchmarks


@dataclass(frozen=True, slots=True)
class _Shown:
    """The state that is shown, and when it began: a phase that the worker is at work on, or the steps so far.

    A notice is a state that the user should know at once; its text says how long it has lasted.
    """

    text: str
    since: float
    speed: str = ""
    left: str = ""
    is_phase: bool = False
    is_notice: bool = False

    def age(self, now: float) -> str:
        """How long it has lasted, "for 35 s"; "" for a short time."""
        seconds = now - self.since
        return f"for {duration(seconds)}" if seconds >= _AGED_SECONDS and not self.is_notice else ""


@dataclass(kw_only=True)
class ProgressLine:
    """Shows the progress of session and run, to the right of pytest's own output; an `Observer`."""

    # To the terminal, without changing pytest's count of columns; None without one.
    write: Callable[[str], None] | None = None
    # A permanent line; None unless tf_cnn_benchmarks' lines are wanted (-v).
    write_line: Callable[[str], None] | None = None
    # A permanent line, at most one every `PLAIN_SECONDS`: in a pipe for any state, in a terminal for what its user
    # should know at once; None for neither.
    write_plain: Callable[[str], None] | None = None
    room: Callable[[], int] = lambda: 0  # returns the columns between the cursor and the right edge
    test: str = ""  # the node id of the test that is measured
    why: str = ""  # the reason why this test runs again; "" in its first run
    clock: Callable[[], float] = time.monotonic  # returns the present time in seconds
    # Held while something is shown, because `tick` is called by another thread.
    lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _begun: dict[str, float] = field(default_factory=dict, init=False)
    _tests: int = field(default=0, init=False)
    _left: Callable[[], tuple[float, float] | None] = field(default_factory=lambda: lambda: None, init=False)
    _ends: tuple[float, float] | None = field(default=None, init=False)
    _own_runs: Counter[str] = field(default_factory=Counter, init=False)
    _label: str = field(default="", init=False)
    _disturbed: tuple[str, str] = field(default=("", ""), init=False)
    _why: str = field(default="", init=False)
    _plain_after: float = field(default=math.inf, init=False)
    _shown: _Shown | None = field(default=None, init=False)
    _timed: Run | None = field(default=None, init=False)
    _printed_steps: int = field(default=0, init=False)

    def expect(self, tests: int, left: Callable[[], tuple[float, float] | None]) -> None:
        """Begin a session of so many tests; `left` returns the least and most seconds that remain, None if unknown."""
        if self._shown is not None:
            self.done()
        self._tests, self._left = tests, left

    def say(self, text: str) -> None:
        """Write a permanent line, and show from then on how long the work that it announces lasts."""
        if self.write_plain is None:
            return
        with self.lock:
            self.write_plain(one_line(text))
            self._plain_after = self.clock() + PLAIN_SECONDS
            self._shown = _Shown(text, self.clock(), is_phase=True)

    def seconds_in(self, test: str) -> float:
        """Return the seconds since a test's first run began; 0 before that."""
        begun = self._begun.get(test)
        return 0.0 if begun is None else self.clock() - begun

    def begin(self, label: str) -> None:
        """Begin a run; a test's own runs are numbered: "confirmation run 2"."""
        if not self._begun:
            self._plain_after = self.clock() + PLAIN_SECONDS
        test, fact = self._disturbed
        self._why = "; ".join(filter(None, (self.why, fact if test == self.test else "")))
        self._disturbed = "", ""
        now = self.clock()
        self._begun.setdefault(self.test, now)
        left = self._left()
        self._ends = None if left is None else (now + left[0], now + left[1])
        if label in tuple(OwnRun):
            self._own_runs[self.test] += 1
            label = f"{label} {self._own_runs[self.test]}"
        self._label, self._timed, self._printed_steps = label, None, 0

    def phase(self, name: str) -> None:
        """Show that a phase of the worker begins."""
        self._show(_Shown(name, self.clock(), is_phase=True))

    def notice(self, text: str) -> None:
        """Show what a user's command does, in a terminal as a permanent line, too."""
        self._show(_Shown(text, self.clock(), is_notice=True))

    def window(self, run: Run, plan: Plan) -> None:
        """Show a timed window; `run` holds all windows so far."""
        if self.write_line is not None:
            self._print_window(run)
        self._timed = run
        if self.write is not None or self.write_plain is not None:
            state, speed, left = progress(run, plan)
            self._show(_Shown(state, self.clock(), speed, left))

    def tick(self) -> None:
        """Show the latest state again, with how long it has lasted; called by the clock, in a thread of its own."""
        with self.lock:
            if self._shown is not None and self.clock() >= self._shown.since + 1:
                self._show(self._shown)

    def ended(self, run: Run) -> None:
        """Print the total; in `run`, windows before the steady state count as warm-up."""
        if self._timed is None or self.write_line is None:
            return
        timed, counted = steps(self._timed), steps(run)
        if self._printed_steps < timed:
            self._print_step(self._timed)
        mean, _, _ = window_statistics([self._timed])
        self._print(_RULE, f"total {self._timed.unit}/sec: {mean:.2f}", _RULE)
        if counted < timed:
            self._print(
                f"the first {timed - counted} steps came before the steady state: the result counts the other {counted}"
            )

    def disturbed(self, disturbance: Disturbance) -> None:
        """Note that the run that has ended was disturbed, for the line of the test's next run."""
        self._disturbed = self.test, f"the run before was disturbed: {disturbance_fact(disturbance)}"

    def done(self) -> None:
        """Remove the progress line."""
        with self.lock:
            self._shown = None
            if self.write is not None:
                self.write(_CLEAR_TO_END)

    def _show(self, shown: _Shown) -> None:
        """Show session and run, without the least important parts where they do not fit."""
        with self.lock:
            self._shown = shown
            if self.write_plain is not None and self.clock() >= self._plain_after:
                self._show_plain(self.write_plain, shown)
            if self.write is not None:
                self._show_in_terminal(self.write, shown)

    def _show_in_terminal(self, write: Callable[[str], None], shown: _Shown) -> None:
        session, session_left = self._session()
        parts = {
            "session": f"[{session}, {session_left}]" if session_left else session and f"[{session}]",
            "test": self.test.rpartition("::")[2],
            "run": self._label,
            "state": f"{shown.text} ..." if shown.is_phase else shown.text,
            "age": shown.age(self.clock()),
            "speed": shown.speed,
            "left": "" if session_left else shown.left,  # two remaining times would confuse
            "why": f"({self._why})" if self._why else "",
        }
        room = self.room() - 3  # a wrapped line can't be removed
        for least_important in ("why", "left", "test", "run", "session", "speed", "age"):
            if len(_joined(parts)) <= room:
                break
            parts[least_important] = ""
        write(f"{_SAVE}  {_joined(parts)[: max(room, 0)]}{_CLEAR_TO_END}{_RESTORE}")

    def _show_plain(self, write: Callable[[str], None], shown: _Shown) -> None:
        """Write session and run as a line of a log."""
        if self.write is not None and not shown.is_notice:
            return
        self._plain_after = self.clock() + PLAIN_SECONDS
        session, session_left = self._session()
        parts = (
            session and f"test {session}",
            self.test.rpartition("::")[2],
            self._label,
            " ".join(filter(None, (shown.text, aged := shown.age(self.clock())))),
            session_left or ("" if aged else shown.left),
        )
        write(one_line(f"tfperf: {', '.join(filter(None, parts))}{f' ({self._why})' if self._why else ''}"))

    def _session(self) -> tuple[str, str]:
        """Return "3/15" and "about 1 min 20 s left"; "" where unknown."""
        if not self._tests:
            return "", ""
        number = min(len(self._begun), self._tests)  # runs for the session's own verdicts come after the last test
        least, most = (max(0.0, end - self.clock()) for end in self._ends or (0.0, 0.0))
        return f"{number}/{self._tests}", f"{time_span(least, most)} left" if most >= 1 else ""

    def _print_window(self, run: Run) -> None:
        """Print tf_cnn_benchmarks' columns above the first window, and its line of the first and each tenth step."""
        if self._timed is None:
            compiled = f": compiled in {run.compile_seconds:.1f} s" if run.compile_seconds else ""
            unit = "Img" if run.unit == "images" else run.unit
            self._print(self._label + compiled, f"Step\t{unit}/sec\ttotal_loss")
        before = steps(run) - run.windows[-1].steps
        if before == 0 or steps(run) // _DISPLAY_EVERY > before // _DISPLAY_EVERY:
            self._print_step(run)

    def _print_step(self, run: Run) -> None:
        r"""Print the line of the run so far: "10\timages/sec: 50.0 +/- 0.1 (jitter = 0.2)\t7.500"."""
        self._printed_steps = steps(run)
        mean, uncertainty, jitter = window_statistics([run])
        loss = run.windows[-1].loss
        speed = f"{steps(run)}\t{run.unit}/sec: {mean:.1f} +/- {uncertainty:.1f} (jitter = {jitter:.1f})"
        self._print(speed if loss is None else f"{speed}\t{loss:.3f}")

    def _print(self, *lines: str) -> None:
        assert self.write_line is not None, "such lines are wanted"
        self.done()
        for line in lines:
            self.write_line(printable(line))


def steps(run: Run) -> int:
    """Return the number of timed steps so far."""
    return sum(window.steps for window in run.windows)


def progress(run: Run, plan: Plan) -> tuple[str, str, str]:
    """Return a run's progress, speed and most remaining time: "steps 40/100", "640 images/s", "up to 6 s left"."""
    seconds = sum(w.seconds for w in run.windows)
    what, done = ("readings", len(run.windows)) if plan.counts_readings else ("steps", steps(run))
    speed = f"{rate(sum(map(run.examples, run.windows)) / seconds)} {run.unit}/s"
    if plan.until_end:  # their number is not known in advance
        return f"{what} {done}", speed, ""
    left = min(seconds / done * max(plan.steps - done, 0), max(plan.max_seconds - seconds, 0.0))
    return f"{what} {done}/{plan.steps}", speed, f"up to {duration(left)} left"  # a run that is good may end early


def _joined(parts: Mapping[str, str]) -> str:
    return one_line("  ".join(filter(None, parts.values())))
