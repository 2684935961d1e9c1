"""A run in the lines of tf_cnn_benchmarks, which `-v` prints and, for images, `tfperf replay` reads."""

from __future__ import annotations

from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import window_statistics

_RULE = "-" * 64
_DISPLAY_EVERY = 10


def header(label: str, run: Run) -> list[str]:
    """The lines above a run's first step line: "run 2: compiled in 3.2 s", and tf_cnn_benchmarks' column names."""
    compiled = f": compiled in {run.compile_seconds:.1f} s" if run.compile_seconds else ""
    return [label + compiled, f"Step\t{'Img' if run.unit == 'images' else run.unit}/sec\ttotal_loss"]


def step_line(run: Run) -> str:
    r"""The line for the run so far: "10\timages/sec: 56.9 +/- 0.1 (jitter = 0.2)\t7.848"."""
    mean, uncertainty, jitter = window_statistics(run.windows, run.examples_per_step)
    loss = run.windows[-1].loss
    speed = f"{steps(run)}\t{run.unit}/sec: {mean:.1f} +/- {uncertainty:.1f} (jitter = {jitter:.1f})"
    return speed if loss is None else f"{speed}\t{loss:.3f}"


def footer(timed: Run, result: Run) -> list[str]:
    """The total over all timed windows, and how many of their steps `result` leaves out."""
    mean, _, _ = window_statistics(timed.windows, timed.examples_per_step)
    lines = [_RULE, f"total {timed.unit}/sec: {mean:.2f}", _RULE]
    if (counted := steps(result)) < (timed_steps := steps(timed)):
        lines.append(
            f"the first {timed_steps - counted} steps came before the steady state: "
            f"the result counts the other {counted}"
        )
    return lines


def crosses_display_step(run: Run) -> bool:
    """Whether the latest window is the first or passed a multiple of 10 steps; tf_cnn_benchmarks prints these."""
    before = steps(run) - run.windows[-1].steps
    return before == 0 or steps(run) // _DISPLAY_EVERY > before // _DISPLAY_EVERY


def steps(run: Run) -> int:
    """The number of timed steps so far."""
    return sum(window.steps for window in run.windows)
