"""`tfperf_also`, and rows of figures that are stale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature, has_baselines
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.session_verdicts import SessionResult


def _figures(text: str) -> tuple[Figure, ...]:
    from pytest_tfperf.core.figure import BUILT_IN, figures_of

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


def figures(settings: Settings) -> tuple[Figure, ...]:
    """The figures of `tfperf_also`."""
    return settings.of(ALSO)


def session_ended(session: Session, result: SessionResult) -> Iterator[str]:
    """Name the rows of figures that the session's tests do not ask for."""
    if session.settings.smoke:
        return
    for machine in dict.fromkeys(m.machine for m in result.alone if m.verdict is not None):
        rows = session.baselines.figures(machine)
        if not rows:
            continue
        here = [m for m in result.alone if m.machine == machine and m.verdict is not None]
        asked = {m.key._replace(figure=verdict.figure.name) for m in here for verdict in m.figures}
        for key in rows:
            if key not in asked and any(m.key == key._replace(figure="") for m in here):
                yield (
                    f"{machine}.csv: the baseline of {key.figure} of {key.workload} on {key.topology} is stale: no "
                    "test of this session asks for it. Delete the row, or ask for the figure with also="
                )


FEATURE: Final = Feature(
    settings=(ALSO,),
    asked=has_baselines,  # rows become stale where the setting is removed
    figures=figures,
    session_ended=session_ended,
)
