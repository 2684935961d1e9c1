"""What a baseline can resolve: a tolerance tighter than the noise between its runs promises what nobody can keep."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.noise import Noise, noise_of
from pytest_tfperf.judging.thresholds import resolvable

_SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class TooTight:
    """A row whose noise asks for a wider bound than its tolerance, even over the eight runs that decide.

    Args:
        machine, key: the row.
        tolerance: the drop that was to be accepted, a positive fraction.
        threshold: the drop from which a test fails instead.
        smallest_loss: the loss that is caught 95 times in 100.
        noise: what the runs differ by.
        own: the row's own tolerance, not the session's.
    """

    machine: str
    key: Key
    tolerance: float
    threshold: float
    smallest_loss: float
    noise: Noise
    own: bool = False


def too_tight(baseline: Baseline, noise: Noise, tolerance: Tolerance, tests: int) -> TooTight | None:
    """What `tolerance` promises too much by, held against one row; None where the row can keep it.

    Args:
        baseline: the row.
        noise: from `noise_of`.
        tolerance: what is accepted of this row.
        tests: tests in the session: each further one asks for more certainty.
    """
    if tolerance.lower is None:
        return None
    threshold, smallest_loss = resolvable(baseline, tolerance, noise, tests=tests)
    if threshold <= -tolerance.lower + _SLACK:
        return None
    return TooTight(
        machine=baseline.machine,
        key=baseline.key,
        tolerance=-tolerance.lower,
        threshold=threshold,
        smallest_loss=smallest_loss,
        noise=noise,
    )


def rows_too_tight(rows: Collection[Baseline], default: Tolerance, tests: int) -> Iterator[TooTight]:
    """Of a machine's measured rows, those that can't keep their own tolerance, or the default where they have none.

    A document's figure keeps the tolerance that it comes with, and its spread is assumed: none of these is one.
    """
    for row in rows:
        if row.provenance is Provenance.MEASURED:
            found = too_tight(row, noise_of(row, rows), default.within(row), tests)
            if found is not None:
                yield replace(found, own=row.lower is not None)


def without_spread(rows: Collection[Baseline]) -> list[Baseline]:
    """The measured rows that don't know how much their runs differ: one run, or no spread."""
    return [r for r in rows if r.provenance is Provenance.MEASURED and (r.spread is None or r.runs < 2)]
