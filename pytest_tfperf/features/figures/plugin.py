"""`tfperf_also`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.core.figure import Figure


def _figures(text: str) -> tuple[Figure, ...]:
    from pytest_tfperf.core.figure import BUILT_IN, figures_of

    names = text.replace(",", " ").split()
    if not names:
        raise ValueError(f"names no figure. Known: {', '.join(BUILT_IN)}")
    return figures_of(names, None)


ALSO: Final[Setting[tuple[Figure, ...]]] = Setting(
    name="also",
    default=(),
    parse=_figures,
    help="figures that each check judges beside its throughput: peak_memory first_step loss compilations",
    metavar="FIGURES",
    is_option=False,
)


def figures(settings: Settings) -> tuple[Figure, ...]:
    """The figures of `tfperf_also`."""
    return settings.of(ALSO)


FEATURE: Final = Feature(settings=(ALSO,), figures=figures)
