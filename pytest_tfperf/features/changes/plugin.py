"""`--tfperf-fail-on-drift`: slowdowns that last and were not accepted by a new baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.features import hookimpl
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.core.past import PastResult
    from pytest_tfperf.core.session_verdicts import Change, SessionVerdict
    from pytest_tfperf.stores.history import History

FAIL_ON_DRIFT: Final[Setting[bool]] = Setting(
    name="fail_on_drift",
    default=False,
    parse=parse.flag,
    help="fail the session while the history shows a lasting slowdown that no new baseline accepted",
    of_one_session=True,
)
SETTINGS: Final = (FAIL_ON_DRIFT,)


@hookimpl
def session_verdicts(
    settings: Settings, session: str, machines: Sequence[str], history: History
) -> Iterator[SessionVerdict]:
    """A red verdict for each machine with a lasting slowdown."""
    if not settings.of(FAIL_ON_DRIFT):
        return
    from pytest_tfperf.core.session_verdicts import DriftVerdict, SessionVerdict

    for machine in machines:
        if found := lasting_slowdowns(history.results(machine=machine), session):
            yield SessionVerdict(machine=machine, found=DriftVerdict(slowdowns=tuple(found)))


_Series = tuple[str, Key]
_STILL_LOST = 0.5
"""A slowdown is over when later changes brought back more than this share of it."""


def lasting_slowdowns(results: Sequence[PastResult], session: str) -> list[Change]:
    """The slowdowns of what a session measured that are neither over nor accepted, oldest first.

    Recording a baseline after a slowdown accepts it. One of the machine is accepted when most tests' baselines were.
    What the session did not judge against a recorded baseline is left out: `throughput.measure` has nothing to accept
    a slowdown with.

    Args:
        results: of one machine, oldest first.
        session: the session's id.
    """
    from pytest_tfperf.core.session_verdicts import ChangeKind
    from pytest_tfperf.judging.lasting_changes import changes_of  # imports NumPy

    order = {name: place for place, name in enumerate(dict.fromkeys(result.session for result in results))}
    references: dict[_Series, dict[int, float]] = {}
    judged: dict[_Series, None] = {}
    for result in results:
        which = (result.test, result.key)
        if result.reference is not None:
            references.setdefault(which, {})[order[result.session]] = result.reference
            if result.session == session:
                judged[which] = None

    def concerned_by(change: Change) -> list[_Series]:
        return [which for which in judged if not change.test or which == (change.test, change.key)]

    def is_accepted(change: Change) -> bool:
        concerned = concerned_by(change)
        place = order[change.last_session] + (change.kind is not ChangeKind.STEP)
        accepted = sum(_recorded_since(references[which], place) for which in concerned)
        return 2 * accepted > len(concerned)

    changes = [one for one in changes_of(results) if concerned_by(one)]
    return [one for one in changes if one.size < 0 and _lasts(one, changes) and not is_accepted(one)]


def _lasts(change: Change, changes: Iterable[Change]) -> bool:
    """Whether later changes of the same series left it lost."""
    same = [one for one in changes if (one.test, one.key) == (change.test, change.key)]
    later = math.fsum(math.log1p(one.size) for one in same[same.index(change) + 1 :] if one.size > 0)
    return later < -(1 - _STILL_LOST) * math.log1p(change.size)


def _recorded_since(references: Mapping[int, float], place: int) -> bool:
    """Whether the latest reference is another one than before a session; `references` by the sessions' places."""
    before = [reference for at, reference in references.items() if at < place]
    return list(references.values())[-1] != (before[-1] if before else None)
