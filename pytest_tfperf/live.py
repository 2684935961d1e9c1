"""The progress line while a measurement runs: for a terminal only, it leaves no trace in a CI log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_tfperf.measuring.windows import Plan
from pytest_tfperf.reports.progress import crosses_display_step, progress
from pytest_tfperf.throughput import window_statistics
from pytest_tfperf.trial import Attempt

_SAVE, _RESTORE, _CLEAR_TO_END = "\x1b7", "\x1b8", "\x1b[K"


@dataclass(kw_only=True)
class LiveLine:
    """Shows phase, steps, images/s and time left to the right of what pytest has written; a `windows.Watch`.

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

    def phase(self, name: str) -> None:
        """See `Watch.phase`."""
        self._show(f"{name} ...")

    def window(self, attempt: Attempt, plan: Plan) -> None:
        """See `Watch.window`."""
        if self.write_line is not None and crosses_display_step(attempt, plan):
            self.done()
            for line in _lines(attempt):
                self.write_line(line)
        self._show(progress(attempt, plan))

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


def _lines(attempt: Attempt) -> list[str]:
    """tf_cnn_benchmarks' line for the attempt so far, under its header where it is the first."""
    from pytest_tfperf.stores import tf_cnn_log

    mean, uncertainty, jitter = window_statistics(attempt.windows, attempt.images_per_step)
    steps = sum(w.steps for w in attempt.windows)
    line = tf_cnn_log.line(steps, mean, uncertainty, jitter, attempt.windows[-1].loss)
    return [tf_cnn_log.header(), line] if len(attempt.windows) == 1 else [line]
