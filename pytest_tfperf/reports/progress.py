"""How a measurement comes along: one line's text, and tf_cnn_benchmarks' own lines."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.run import Run
from pytest_tfperf.reports.numbers import duration, rate


def progress(attempt: Run, plan: Plan) -> str:
    """ "steps 40/100  640 images/s  6 s left" """
    steps = sum(w.steps for w in attempt.windows)
    seconds = sum(w.seconds for w in attempt.windows)
    left = seconds / steps * max(plan.steps - steps, 0)
    return (
        f"steps {steps}/{plan.steps}  {rate(attempt.images_per_step * steps / seconds)} images/s  {duration(left)} left"
    )


def begun(number: int, attempt: Run) -> str:
    """The line above a run's own: "run 2: compiled in 3.2 s"."""
    return f"run {number}" + (f": compiled in {attempt.compile_seconds:.1f} s" if attempt.compile_seconds else "")


def left_out(timed: Run, result: Run) -> Iterator[str]:
    """What of a run that was timed is not in its result."""
    steps, counted = (sum(w.steps for w in attempt.windows) for attempt in (timed, result))
    if counted < steps:
        yield f"its first {steps - counted} steps had not settled: the result is of the other {counted}"


def crosses_display_step(attempt: Run, plan: Plan) -> bool:
    """Whether the latest window is the first, or passed a 10th step, at which tf_cnn_benchmarks prints by default.

    Long runs print ten lines, not hundreds.
    """
    display_every = max(10, plan.steps // 10)
    done = sum(w.steps for w in attempt.windows)
    before = done - attempt.windows[-1].steps
    return before == 0 or done // display_every > before // display_every
