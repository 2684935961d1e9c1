"""`--tfperf-fail-on-drift`: slowdowns that last and were not accepted by a new baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.features import hookimpl

if TYPE_CHECKING:
    from pytest_tfperf.core.session_verdicts import SessionVerdict
    from pytest_tfperf.stores.history import History

FAIL_ON_DRIFT: Final[Setting[bool]] = Setting(
    name="fail_on_drift",
    default=False,
    parse=parse.flag,
    help="fail the session while the history shows a lasting slowdown, or a figure that became worse for good, that no "
    "new baseline accepted",
    of_one_session=True,
)
SETTINGS: Final = (FAIL_ON_DRIFT,)


@hookimpl
def session_verdicts(
    settings: Settings, session: str, machines: Sequence[str], history: History
) -> Iterator[SessionVerdict]:
    """A red verdict for each machine with a lasting slowdown, or a figure that became worse for good."""
    if not settings.of(FAIL_ON_DRIFT):
        return
    from pytest_tfperf.core.session_verdicts import DriftVerdict, SessionVerdict
    from pytest_tfperf.features.changes.lasting_losses import lasting_losses  # imports NumPy

    for machine in machines:
        results = [*history.results(machine=machine), *history.figure_results(machine=machine)]
        if found := lasting_losses(results, session):
            yield SessionVerdict(machine=machine, found=DriftVerdict(slowdowns=tuple(found)))
