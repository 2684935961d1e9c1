"""One measurement to take, with everything that is known before it starts, and the verdicts on its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_tfperf.bench.run_engine import Side
from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.run import Pair, Plan, Run
from pytest_tfperf.core.throughput import Throughput, hodges_lehmann, summarise
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance, Verdict, Want, Wants
from pytest_tfperf.judging.confirmation import RUN_STAGES
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import noise_of
from pytest_tfperf.judging.pairs import MOST_PAIRS, Terms
from pytest_tfperf.judging.target import Target

Call = tuple[str, int]
"""pytest's node id and the call's index in the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A call of `throughput.check` or `throughput.measure`."""

    test: str  # pytest's node id
    index: int = 0  # which of the test's calls it is
    plan: Plan
    side: Side
    target: Target  # the baseline that the result is judged against
    tolerance: Tolerance
    reference_environment: Side | None = None  # the same workload there
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)  # known losses, by figure

    @property
    def workload(self) -> Subject:
        """The workload to train."""
        return self.side.workload

    @property
    def topology(self) -> Topology:
        """The devices to train on."""
        return self.side.topology

    @property
    def call(self) -> Call:
        """The call, which identifies this task in the session."""
        return self.test, self.index


Profiler = Callable[[Task, Measurement], Profile]
"""Profiles a task that was measured; never raises, because no verdict depends on a profile."""


def unjudged(task: Task, runs: Sequence[Run], throughput: Throughput) -> tuple[Verdict, ...]:
    """Return the runs' value of each figure, the throughput first, without an outcome."""
    verdicts = [Verdict(value=throughput.examples_per_sec)]
    for figure in task.plan.also:
        values = [value for run in runs if (value := run.figures.get(figure.name)) is not None]
        value = hodges_lehmann(values) if len(values) == len(runs) else None
        verdicts.append(Verdict(figure=figure, value=value, rank=_rank(figure, runs), places=_places(figure, runs)))
    return tuple(verdicts)


def judged(
    task: Task, runs: Sequence[Run], pairs: Sequence[Pair], of_rate: Evidence, rows: Mapping[Key, Baseline]
) -> tuple[Verdict, ...]:
    """Return the verdicts on the throughput and on the figures that a task asks for.

    `of_rate` is the evidence on the throughput; the figures share its drift and its reference environment. `rows` are
    the machine's baselines of figures.
    """
    of_figures = (_evidence(figure, task, runs, pairs, of_rate, rows) for figure in task.plan.also)
    verdicts = tuple(map(judge, (of_rate, *of_figures)))
    if not task.acknowledged:
        return verdicts
    return tuple(
        with_known_loss(verdict, task.acknowledged.get(verdict.figure.name), len(runs), len(pairs))
        for verdict in verdicts
    )


def with_known_loss(verdict: Verdict, known: Acknowledgement | None, runs: int, pairs: int) -> Verdict:
    """Attach what is acknowledged to a verdict; a loss that seems to have changed wants all runs or pairs.

    The first few tell that the test passes or fails. Being picked for that, they tell its size badly.
    """
    verdict = replace(verdict, acknowledged=known)
    if not verdict.is_decided or known is None or verdict.interval is None:
        return verdict
    if not known.seems_changed(verdict.interval):
        return verdict
    if pairs:
        return replace(verdict, wants=Wants(Want.PAIRS, pairs + 1)) if pairs < MOST_PAIRS else verdict
    return replace(verdict, wants=Wants(Want.RUNS, RUN_STAGES[-1])) if runs < RUN_STAGES[-1] else verdict


def compared(plan: Plan, pairs: Sequence[Pair], terms: Terms) -> tuple[Verdict, ...]:
    """Return the verdicts on b against a in a comparison's good pairs: on the throughput, then on the plan's figures.

    The figures share the terms' error rates among them.
    """
    b = [pair.b for pair in pairs]
    of_rate = Evidence(
        throughput=summarise(b),
        target=Target(),
        tolerance=terms.tolerance or Tolerance(),
        pairs=tuple(pairs),
        is_comparison=True,
        terms=terms,
    )
    figures = (
        replace(
            of_rate,
            figure=figure,
            terms=replace(terms, at_least=None),  # of the throughput
            rank=_rank(figure, b),
            places=_places(figure, [run for pair in pairs for run in (pair.a, pair.b)]),
            suspects=len(plan.also),
        )
        for figure in plan.also
    )
    return tuple(map(judge, (of_rate, *figures)))


def _evidence(
    figure: Figure,
    task: Task,
    runs: Sequence[Run],
    pairs: Sequence[Pair],
    of_rate: Evidence,
    rows: Mapping[Key, Baseline],
) -> Evidence:
    name, figures = figure.name, len(task.plan.also)
    row = rows.get(Key(task.workload.id, task.topology.shape, name))
    alike = [baseline for key, baseline in rows.items() if key.figure == name]
    return replace(
        of_rate,
        figure=figure,
        values=[run.figures.get(name) for run in runs],
        pairs=tuple(pairs),
        rank=_rank(figure, runs),
        places=_places(figure, [*runs, *(run for pair in pairs for run in (pair.a, pair.b))]),
        target=Target(row, noise=None if row is None else noise_of(row, alike)),
        past=(),  # of the throughput
        tests=of_rate.tests * figures,
        suspects=of_rate.suspects * figures,
    )


def _rank(figure: Figure, runs: Sequence[Run]) -> str:
    return runs[-1].figure_ranks.get(figure.name, "")


def _places(figure: Figure, runs: Sequence[Run]) -> tuple[str, ...]:
    """Return where the program printed the figure in these runs, each place once."""
    return tuple(dict.fromkeys(place for run in runs if (place := run.figure_places.get(figure.name))))
