"""Ratios of two workloads: judged against the documents' ratios on GPUs like theirs, elsewhere shown beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf, log

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import NOTHING, Outcome, Tolerance
from pytest_tfperf.errors import BaselineError, ThroughputRegression, WorkloadError
from pytest_tfperf.judging.pairs import OF_SUSPECTS, PairsTest, trimmed_mean
from pytest_tfperf.judging.sides import OF_RATES
from pytest_tfperf.judging.thresholds import accepted_slowdown
from pytest_tfperf.lines import Line, command
from pytest_tfperf.reports.numbers import percent, rate

ALIKE = 1.5
"""A GPU is like a document's if the FP32 rate of neither is more than this many times that of the other."""


@dataclass(frozen=True, slots=True)
class MeasuredRatio:
    """A ratio, and a warning (or "") where it lies below that of a document's other GPUs or the pairs do not decide."""

    value: float
    warning: str = ""


Measure = Callable[[bool], tuple[float, float]]
"""Measures both workloads in fresh workers, in images/s; True to begin with the second one."""


def check_ratio(
    measure: Measure, published: PublishedRatio, tolerance: Tolerance, rerun: str, topology: Topology
) -> MeasuredRatio:
    """Measure the ratio of two workloads and judge it against the documents' ratio, in pairs of alternating runs.

    Only GPUs like the document's must reach its ratio. Today's GPUs compute many times as fast, and their links and
    hosts have not become faster by as much: a model that scaled 7.0 times on eight P100 may scale less without a fault.

    Args:
        measure: takes one pair.
        published: the documents' ratio.
        tolerance: how far below that the measured ratio may lie.
        rerun: the command that measures the test again.
        topology: the topology that was measured.

    Raises:
        ThroughputRegression: the ratio falls short on GPUs like the document's; names the documents' rows and figures.
    """
    least = published.value * (1 + (tolerance.lower or -1.0))
    if not published.binds(topology):
        figure, over = measure(False)
        ratio = figure / over
        return MeasuredRatio(ratio, _shown(ratio, published, topology) if ratio < least else "")
    pairs, outcome = _decided(measure, published.value, accepted_slowdown(tolerance))
    if outcome is Outcome.REGRESSED:
        raise ThroughputRegression(*_message(pairs, published, least, rerun))
    return _passed(pairs, outcome, least)


def require_ratio(measure: Measure, at_least: float, figure: Key, over: Key, rerun: str) -> MeasuredRatio:
    """Measure a ratio, as in `check_ratio`, and judge it against a limit that the test gives.

    Between this limit and 2 % above it, noise may fail the test; a higher ratio fails in at most one test in 100.

    Raises:
        ThroughputRegression: the ratio falls short.
    """
    accepted = accepted_slowdown(Tolerance())
    pairs, outcome = _decided(measure, at_least * exp(accepted), accepted)
    if outcome is Outcome.REGRESSED:
        ratio = _middle(pairs)
        headline = f"{_named(figure)} over {_named(over)}: {ratio:.3f}"
        raise ThroughputRegression(
            Line(f"{headline}, {percent(1 - ratio / at_least)} below at_least={at_least:g}"),
            _measured(pairs),
            Line(f"fails below {at_least:g}    (at_least, in the test)", "threshold"),
            command("rerun", rerun),
        )
    return _passed(pairs, outcome, at_least)


def _decided(measure: Measure, expected: float, accepted: float) -> tuple[Sequence[tuple[float, float]], Outcome]:
    """Take pairs until they decide whether the ratio is lower than expected by more than is accepted."""
    pairs: list[tuple[float, float]] = []
    while True:
        pairs.append(measure(len(pairs) % 2 == 1))
        changes = [log(figure / over / expected) for figure, over in pairs]
        test = PairsTest(changes=changes, accepted=accepted, known=OF_RATES, is_assumed=True, rates=OF_SUSPECTS)
        outcome, _, wants = test.decided()
        if wants == NOTHING:
            return pairs, outcome


def _passed(pairs: Sequence[tuple[float, float]], outcome: Outcome, least: float) -> MeasuredRatio:
    ratio = _middle(pairs)
    if outcome is not Outcome.INCONCLUSIVE:
        return MeasuredRatio(ratio)
    doubt = f"the ratio {ratio:.3f} is below {least:.3f}, but noise may explain it: {len(pairs)} pairs do not decide"
    return MeasuredRatio(ratio, f"{doubt}. Measure it again on a quieter machine")


def require_limit(at_least: object) -> None:
    """Refuse a limit that is no ratio.

    Raises:
        WorkloadError: the limit is not a number above 0.
    """
    if isinstance(at_least, bool) or not isinstance(at_least, int | float) or not 0 < at_least < inf:
        raise WorkloadError(f"at_least={at_least!r:.80} must be a ratio above 0, as 3.6 for four GPUs over one")


def _middle(pairs: Sequence[tuple[float, float]]) -> float:
    return exp(trimmed_mean([log(figure / over) for figure, over in pairs]))


def _measured(pairs: Sequence[tuple[float, float]]) -> Line:
    return Line("  ".join(f"{rate(a)} / {rate(b)} = {a / b:.3f}" for a, b in pairs), "measured")


def _named(key: Key) -> str:
    return f"{key.workload} on {key.topology}"


@dataclass(frozen=True, slots=True)
class PublishedRatio:
    """Two published figures of one document.

    Args:
        figure: the numerator.
        over: the denominator.
    """

    figure: Baseline
    over: Baseline

    @property
    def value(self) -> float:
        """Images/s over images/s."""
        return self.figure.value / self.over.value

    def binds(self, topology: Topology) -> bool:
        """Whether this machine must reach the ratio: its GPUs are like the document's, or the document has none."""
        then = self.figure.gpu_fp32_tflops
        if then is None:
            return True
        rates = [gpu.fp32_tflops for gpu in topology.gpus]
        is_split = topology.devices is not None and topology.devices.split
        return bool(rates) and not is_split and all(now and max(now / then, then / now) <= ALIKE for now in rates)


def published_ratio(rows: Iterable[Baseline], figure: Key, over: Key) -> PublishedRatio:
    """Return the lowest ratio of two published figures; the lowest, because it has to hold on other machines.

    Both figures are of one machine, or if no machine has both, of two machines with the same GPU in one document, as
    Azure's NC6 and NC12. Measured rows and other keys in `rows` are ignored.

    Raises:
        BaselineError: no document has both figures.
    """
    published = [row for row in rows if not row.is_measured]
    pairs = [
        PublishedRatio(a, b)
        for a in published
        for b in published
        if a.key == figure and b.key == over and (_document(a), a.gpu) == (_document(b), b.gpu)
    ]
    ratios = [pair for pair in pairs if pair.figure.machine == pair.over.machine] or pairs
    if not ratios:
        raise BaselineError(
            f"no document gives both {_named(figure)} and {_named(over)}; give a limit of your own with at_least=, or "
            "compare two workloads with throughput.compare"
        )
    return min(ratios, key=lambda ratio: ratio.value)


def _document(row: Baseline) -> str:
    return row.source.partition(",")[0]


def _shown(ratio: float, published: PublishedRatio, topology: Topology) -> str:
    figure, over = published.figure, published.over
    return (
        f"{_named(figure.key)} over {_named(over.key)}: {ratio:.3f}, "
        f"below the {published.value:.3f} of {figure.machine} ({figure.gpu}). It is not required here, because "
        f"{topology.describe()} is not like that GPU (FP32 rates within {ALIKE:g} times)"
    )


def _message(pairs: Sequence[tuple[float, float]], published: PublishedRatio, least: float, rerun: str) -> list[Line]:
    """Return the lines of the error for a ratio below the documents'.

    Args:
        pairs: measured images/s of the numerator and the denominator.
        published: the documents' ratio.
        least: the ratio that would have passed.
        rerun: the command that measures the test again.
    """
    figure, over, now = published.figure, published.over, _middle(pairs)
    tolerance = percent(1 - least / published.value)
    lines = [
        _measured(pairs),
        Line(
            f"fails below {least:.3f}    ({published.value:.3f}, tolerance {tolerance})",
            "threshold",
        ),
        Line(
            f"{rate(figure.value)} / {rate(over.value)} on {figure.machine}: {figure.source}; over {over.source}",
            "document",
        ),
        command("rerun", rerun),
    ]
    headline = (
        f"{_named(figure.key)} over {_named(over.key)}: {now:.3f}, "
        f"{percent(1 - now / published.value)} below the documents' {published.value:.3f}"
    )
    return [Line(headline), *lines]
