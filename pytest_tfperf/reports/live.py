"""What is seen while a measurement runs: the progress line, for a terminal only; with -v also lines that stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import window_statistics
from pytest_tfperf.reports.progress import begun, crosses_display_step, left_out, progress

_SAVE, _RESTORE, _CLEAR_TO_END = "\x1b7", "\x1b8", "\x1b[K"


@dataclass(kw_only=True)
class LiveLine:
    """Shows phase, steps, images/s and time left to the right of what pytest has written; a `windows.Watch`.

    The lines that stay are, run by run, a log as tf_cnn_benchmarks prints it, which `tfperf replay` reads.

    Args:
        write: writes to the terminal without moving pytest's idea of where the cursor is; None without a terminal.
        write_line: writes a line that stays; None unless tf_cnn_benchmarks' own lines are wanted too (-v).
        room: columns between the cursor and the right edge.
        test: what is measured just now.
    """

    write: Callable[[str], None] | None = None
    write_line: Callable[[str], None] | None = None
    room: Callable[[], int] = lambda: 0
    test: str = ""
    _runs: Counter[str] = field(default_factory=Counter, init=False)
    _timed: Run | None = field(default=None, init=False)
    _printed: int = field(default=0, init=False)  # steps, in the last line

    def phase(self, name: str) -> None:
        """See `Watch.phase`."""
        self._show(f"{name} ...")

    def window(self, attempt: Run, plan: Plan) -> None:
        """See `Watch.window`."""
        self._timed = attempt
        if self.write_line is not None and crosses_display_step(attempt, plan):
            self._print(self._lines(attempt))
        self._show(progress(attempt, plan))

    def ended(self, attempt: Run) -> None:
        """See `Watch.ended`."""
        if self.write_line is not None and self._timed is not None:
            self._print(self._last_lines(self._timed, attempt))

    def done(self) -> None:
        """Take the line away; see `Watch.done`."""
        if self.write is not None:
            self.write(_CLEAR_TO_END)

    def _show(self, text: str) -> None:
        if self.write is None:
            return
        room = self.room() - 3  # a line that wraps can't be taken back
        shown = f"{self.test.rpartition('::')[2]}  {text}"
        if len(shown) > room:  # the figures matter more than the name
            shown = text if len(text) <= room else ""
        self.write(f"{_SAVE}  {shown}{_CLEAR_TO_END}{_RESTORE}")

    def _print(self, lines: Iterator[str]) -> None:
        assert self.write_line is not None
        self.done()
        for line in lines:
            self.write_line(line)

    def _lines(self, attempt: Run) -> Iterator[str]:
        """tf_cnn_benchmarks' line for the attempt so far, under its header where it is the first."""
        from pytest_tfperf.stores import tf_cnn_log

        if len(attempt.windows) == 1:
            self._runs[self.test] += 1
            yield begun(self._runs[self.test], attempt)
            yield tf_cnn_log.header()
        mean, uncertainty, jitter = window_statistics(attempt.windows, attempt.images_per_step)
        self._printed = sum(w.steps for w in attempt.windows)
        yield tf_cnn_log.line(self._printed, mean, uncertainty, jitter, attempt.windows[-1].loss)

    def _last_lines(self, timed: Run, result: Run) -> Iterator[str]:
        """The last step's line, if it has none yet, and the footer."""
        from pytest_tfperf.stores import tf_cnn_log

        if self._printed < sum(w.steps for w in timed.windows):
            yield from self._lines(timed)
        mean, _, _ = window_statistics(timed.windows, timed.images_per_step)
        yield from tf_cnn_log.footer(mean).splitlines()
        yield from left_out(timed, result)
