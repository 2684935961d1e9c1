"""`--tfperf-budget`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.features import hookimpl
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.core.comparison import Comparison
    from pytest_tfperf.core.past import PastResult
    from pytest_tfperf.core.selection import Choice, Selection
    from pytest_tfperf.stores.history import History

BUDGET: Final[Setting[float | None]] = Setting(
    name="budget",
    default=None,
    parse=parse.duration,
    help="measure the most informative tests that fit into this time, and leave out the rest",
    metavar="TIME",
    of_one_session=True,
)
SETTINGS: Final = (BUDGET,)


@hookimpl
def select(
    settings: Settings, selection: Selection, seconds: Mapping[str, float], failed: Collection[str], history: History
) -> Choice | None:
    """The most informative tests that fit; those that can't run here take no time, and stay.

    What can't be read of the history makes tests look as if they had never been measured.
    """
    budget = settings.of(BUDGET)
    if budget is None:
        return None
    from pytest_tfperf.core.selection import Choice
    from pytest_tfperf.features.budget.choosing import LONG, candidates, choose

    now, remarks = datetime.now(UTC), []
    past: list[PastResult | Comparison] = []
    try:
        past += history.results()
        # Comparisons are read whole; an older one would only say that its test waits for long.
        past += history.comparisons(since=now - LONG)
    except TfperfError as error:
        remarks.append(f"{BUDGET.spelled} chose without a part of the history: {error}")
    known = candidates(
        seconds, important=[test for test in seconds if selection[test].is_important], failed=failed, past=past
    )
    run, left_out = choose(known, budget, now)
    return Choice(
        run=tuple(one.test for one in run),
        left_out={one.test: one.seconds for one in left_out},
        limit_seconds=budget,
        option=BUDGET.spelled,
        remarks=tuple(remarks),
    )


@hookimpl
def remarks(settings: Settings, left_out: Mapping[str, float], in_brief: bool) -> list[str]:
    """What was left out."""
    from pytest_tfperf.features.budget.choosing import counted_left_out, named_left_out

    budget = settings.of(BUDGET) or 0.0
    return [(counted_left_out if in_brief else named_left_out)(left_out, budget)] if left_out else []
