"""The figures of a task beside its throughput, measured and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.figure_verdict import FigureVerdict
from pytest_tfperf.core.run import Pair, Plan, Run
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.judging.compared_figures import ComparedFigure, judge_compared
from pytest_tfperf.judging.figures import FigureEvidence, judge_figure
from pytest_tfperf.judging.judge import Evidence
from pytest_tfperf.judging.noise import noise_of
from pytest_tfperf.judging.pairs import ErrorRates


def only_measured(task: Task, runs: Sequence[Run]) -> tuple[FigureVerdict, ...]:
    """What the runs gave of each figure that the task asks for; nothing is judged."""
    found = []
    for figure in task.plan.also:
        values = [value for run in runs if (value := run.figures.get(figure.name)) is not None]
        value = hodges_lehmann(values) if len(values) == len(runs) else None
        found.append(FigureVerdict(figure=figure, value=value, rank=_rank(figure, runs)))
    return tuple(found)


def judged(
    task: Task, runs: Sequence[Run], pairs: Sequence[Pair], of_rate: Evidence, rows: Mapping[Key, Baseline]
) -> tuple[FigureVerdict, ...]:
    """The verdicts on the figures that a task asks for.

    Args:
        task: the call.
        runs, pairs: what was measured so far.
        of_rate: what the throughput is judged by; shares of false alarms and the reference environment are the same.
        rows: the machine's baselines of figures.
    """
    return tuple(judge_figure(_evidence(figure, task, runs, pairs, of_rate, rows)) for figure in task.plan.also)


def compared(plan: Plan, pairs: Sequence[Pair], most_pairs: int, rates: ErrorRates) -> tuple[FigureVerdict, ...]:
    """The verdicts on the figures that a plan asks for, of b against a in the pairs of a comparison.

    Args:
        plan: says which figures.
        pairs: the good ones so far.
        most_pairs: after how many the comparison ends.
        rates: how often each comparison may be wrong.
    """
    return tuple(
        judge_compared(
            ComparedFigure(
                figure=figure,
                pairs=_values(figure, pairs),
                rank=_rank(figure, [pair.b for pair in pairs]),
                most_pairs=most_pairs,
                error_rates=rates,
                figures=len(plan.also),
            )
        )
        for figure in plan.also
    )


def _values(figure: Figure, pairs: Sequence[Pair]) -> list[tuple[float | None, float | None]]:
    return [(pair.a.figures.get(figure.name), pair.b.figures.get(figure.name)) for pair in pairs]


_TIMES = ("s", "ms")  # units of figures that a slow session of the machine makes larger


def _evidence(
    figure: Figure,
    task: Task,
    runs: Sequence[Run],
    pairs: Sequence[Pair],
    of_rate: Evidence,
    rows: Mapping[Key, Baseline],
) -> FigureEvidence:
    name, figures = figure.name, len(task.plan.also)
    row = rows.get(Key(task.workload.id, task.topology.shape, name))
    alike = [other for key, other in rows.items() if key.figure == name]
    return FigureEvidence(
        figure=figure,
        values=[run.figures.get(name) for run in runs],
        pairs=_values(figure, pairs),
        rank=_rank(figure, runs),
        baseline=row,
        noise=None if row is None else noise_of(row, alike),
        session_sd=of_rate.variance.upper if figure.unit in _TIMES else 0.0,
        tests=of_rate.tests * figures,
        suspects=of_rate.suspects * figures,
        has_reference_environment=of_rate.has_reference_environment,
    )


def _rank(figure: Figure, runs: Sequence[Run]) -> str:
    return runs[-1].figure_ranks.get(figure.name, "")
