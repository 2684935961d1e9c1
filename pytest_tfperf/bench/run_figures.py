"""The figures of one run of a workload, beside its throughput."""

from __future__ import annotations

from dataclasses import replace

from pytest_tfperf.core.figure import FIRST_STEP, LOSS, PEAK_MEMORY
from pytest_tfperf.core.run import Plan, Run
from pytest_tfperf.workers.training_run import TrainingRun


def with_figures(run: Run, training: TrainingRun, plan: Plan) -> Run:
    """The run with the figures that the plan asks for; what can't be told is left out.

    Call it when the last window was read, and before anything else is measured in the worker, which needs memory.

    Raises:
        MeasurementError: from the worker.
    """
    wanted = {figure.name for figure in plan.also}
    found = {FIRST_STEP: training.first_step} if FIRST_STEP in wanted else {}
    if PEAK_MEMORY in wanted and (memory := training.peak_memory()) is not None:
        found[PEAK_MEMORY] = memory
    figures = {name: one.value for name, one in found.items()}
    if LOSS in wanted and (loss := run.warmup[0].loss) is not None:
        figures[LOSS] = loss  # of the step `LOSS_STEP`, with which the first window of the warm-up ends
    return replace(run, figures=figures, figure_ranks={name: one.rank for name, one in found.items() if one.rank})
