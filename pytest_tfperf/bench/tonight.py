"""One machine's night so far: what its tests have in common, which of them passed, what the machine gives by itself."""

from __future__ import annotations

from collections.abc import Callable

from pytest_tfperf.bench.controls import Controls
from pytest_tfperf.bench.looks import Looks
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.canary import Canaries, moved
from pytest_tfperf.core.measurement import environment_of
from pytest_tfperf.core.run import Run
from pytest_tfperf.judging.common_drift import Cause, Shift, prefix_drop, shift_of

_PRODUCT = "numpy"  # whose matrix product the canaries time


class Tonight:
    """What the verdicts on one machine share; a host's CPUs and its GPUs are two.

    Args:
        look: at the canaries; always None on GPUs, of which the host's processors say little.
    """

    def __init__(self, look: Callable[[], Canaries | None]) -> None:
        self.controls = Controls()
        self.seconds_in_vain = 0.0  # spent on tests whose fresh workers were all disturbed
        self._looks = Looks(look)
        self._first_runs: dict[tuple[str, Key], tuple[float, Run, Baseline]] = {}

    def note(self, test: str, attempt: Run, baseline: Baseline) -> None:
        """A test's first run, and the machine's own row that it is held against."""
        self._first_runs[test, baseline.key] = prefix_drop(attempt, baseline), attempt, baseline

    def look(self) -> None:
        """At the canaries, unless that was done a moment ago."""
        self._looks.lately()

    @property
    def tests(self) -> int:
        """Whose first runs are known."""
        return len(self._first_runs)

    @property
    def canaries(self) -> Canaries | None:
        """What the machine gave by itself so far; None where nobody looked."""
        return Canaries.median(self._looks.seen)

    @property
    def shift(self) -> Shift:
        """What the first runs of all tests so far have in common, and who made it; unknown until canaries tell."""
        found = shift_of(self._drops, {})
        if found.cause is Cause.NIGHT or not self._looks.decide:
            return found
        return shift_of(self._drops, moved(self._looks.seen, self._then))

    @property
    def wants_looks(self) -> bool:
        """Whether more looks at the canaries would tell who made the shift."""
        found = shift_of(self._drops, {})
        return found.cause is not Cause.NIGHT and bool(self._then) and not self._looks.decide

    def look_until_known(self) -> None:
        """At the canaries, as often as it takes to tell who made the shift: half a minute in a session."""
        if self.wants_looks:
            self._looks.until_they_decide()

    @property
    def _drops(self) -> list[float]:
        return [drop for drop, _, _ in self._first_runs.values()]

    @property
    def _then(self) -> list[Canaries]:
        """What the rows' recordings saw of the canaries."""
        return [row.canaries for _, now, row in self._first_runs.values() if row.canaries and _comparable(now, row)]


def _comparable(now: Run, row: Baseline) -> bool:
    """Whether the canaries ran the same library then: another one's speed is not the machine's."""
    then, version = environment_of(row).get(_PRODUCT), now.environment.get(_PRODUCT)
    return then is None or version is None or then == version
