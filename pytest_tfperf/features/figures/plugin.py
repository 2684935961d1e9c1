"""`tfperf_also`, and rows of figures that are stale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.figure import BUILT_IN, Figure, figures_of
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.features import hookimpl

if TYPE_CHECKING:
    from pytest_tfperf.core.session_verdicts import SessionRecord
    from pytest_tfperf.stores.baselines import BaselineStore


def _figures(text: str) -> tuple[Figure, ...]:
    names = text.replace(",", " ").split()
    if not names:
        raise ValueError(f"names no figure. Known: {', '.join(BUILT_IN)}")
    return figures_of(names, of_a_program=False)


ALSO: Final[Setting[tuple[Figure, ...]]] = Setting(
    name="also",
    default=(),
    parse=_figures,
    help="figures that each check judges beside its throughput: peak_memory first_step loss retraces",
    metavar="FIGURES",
    is_option=False,
)
SETTINGS: Final = (ALSO,)


@hookimpl
def figures(settings: Settings) -> tuple[Figure, ...]:
    """Those of `tfperf_also`."""
    return settings.of(ALSO)


@hookimpl
def session_ended(settings: Settings, record: SessionRecord, baselines: BaselineStore) -> Iterator[str]:
    """Name the rows of figures that the session's tests do not ask for."""
    if settings.smoke:
        return
    checked = [one for one in record.alone if one.verdict is not None]
    for machine in dict.fromkeys(one.machine for one in checked):
        here = [one for one in checked if one.machine == machine]
        asked = {one.key._replace(figure=figure.figure.name) for one in here for figure in one.figures}
        measured = {one.key for one in here}
        for key in baselines.figures(machine):
            if key._replace(figure="") in measured and key not in asked:
                yield (
                    f"{machine}.csv: the baseline of {key.figure} of {key.workload} on {key.topology} is stale: no "
                    "test of this session asks for it. Delete the row, or ask for the figure with also="
                )
