"""What a report reads from files: the history's results, the session before, and the documents' figures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page.facts import ReportSource
from pytest_tfperf.features.page.past import Past
from pytest_tfperf.judging.changes import changes_of

if TYPE_CHECKING:
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.past_result import PastResult
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.history import History


def report_source(
    source: ReportSource, past: Sequence[PastResult], history: History, baselines: BaselineStore
) -> ReportSource:
    """`source` completed from the files. Of earlier sessions only `past` and one measurement a machine are read.

    Args:
        past: the history's results in its own order; what was made after the last reported session is left out.
    """
    past = _until({one.session for one in source.measurements}, past)
    previous = _previous(source.measurements, past, history)
    return replace(
        source,
        past=past,
        changes=changes_of(past),
        previous=previous,
        published=baselines.published(),
        unread=str(history.unread),
    )


def _until(sessions: Collection[str], past: Sequence[PastResult]) -> Sequence[PastResult]:
    """The results up to the last one of these sessions; all where the history has none of them."""
    last = max((place for place, one in enumerate(past) if one.session in sessions), default=len(past))
    return past[: last + 1]


def _previous(now: Sequence[Measurement], past: Sequence[PastResult], history: History) -> list[Measurement]:
    """A measurement of each machine's session before; none where it can't be read, because only its software counts."""
    found: list[Measurement] = []
    for machine, last in sorted(Past.of(past, now).before(now).items()):
        with suppress(TfperfError):
            found += islice(history.measurements(session=last.session, test=last.test, machine=machine), 1)
    return found
