"""The drops at which things happen: what raises suspicion, what fails, what would be caught."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.common_drift import Level
from pytest_tfperf.judging.noise import Noise

RUNS_TO_CONFIRM = (3, 5, 8)
"""Fresh runs that a suspicion asks for: three, where they don't clear it five, and where these don't prove it eight."""

FALSE_ALARMS_A_NIGHT = 0.03
"""Over all tests, by what noise alone gives in the last eight runs; benchmarks/verdict.py asks what comes of it."""

TOO_NOISY_TO_GATE = 0.15
"""Where one run could not catch a loss of 15 %, three come first; where they can't either, it is no baseline."""

_SUSPICION = 1.5  # spreads; below this one run passes. See docs/statistics.md for the error rates that it gives

# A loss must raise suspicion and be confirmed. At 2.05 standard errors beyond each line each happens 98 times in 100.
# At spreads of 1 and 2 % this gives 4.2 and 8.0 %; benchmarks/verdict.py finds that 4.4 and 8.3 % are caught 95 times.
_DETECTION = 2.05


def loss_seen(spread: float, runs: int) -> float:
    """The loss that a baseline of so many runs catches 95 times in 100, if their spread is true, at 2 % tolerance."""
    noise = Noise(spread, math.inf, "")
    return 1 - math.exp(-Limits([], Level(0.0, runs), Tolerance(), noise, 1).smallest_loss(RUNS_TO_CONFIRM[-1]))


def resolvable(baseline: Baseline, tolerance: Tolerance, noise: Noise, *, tests: int = 1) -> tuple[float, float]:
    """The drop that fails over the eight runs that decide, and the loss that is caught 95 times in 100.

    Positive fractions, known before anything is measured; a drop above what `tolerance` accepts is noise's.
    """
    limits, last = Limits([], Level(0.0, baseline.runs), tolerance, noise, tests), RUNS_TO_CONFIRM[-1]
    return 1 - math.exp(-limits.drop(last)), 1 - math.exp(-limits.smallest_loss(last))


class Limits:
    """The drops, in natural logarithms, at which things happen."""

    def __init__(self, runs: Sequence[RunValue], level: Level, tolerance: Tolerance, noise: Noise, tests: int) -> None:
        # A run that was cut short, or on a restless night, is known less well than the baseline's runs were.
        self._spread = max(noise.spread, _window_error(runs))
        self._known_spread = noise.spread
        self._between_nights = noise.between_nights
        self._reference_nights = level.nights
        self._degrees_of_freedom = noise.degrees_of_freedom
        self._reference_variance = _reference_variance(level.runs)
        self._tests = tests
        self.accepted = math.inf if tolerance.lower is None else -math.log1p(tolerance.lower)
        self._upper = math.inf if tolerance.upper is None else math.log1p(tolerance.upper)

    def suspicion(self, runs: int) -> float:
        """The drop of so many runs that makes us look again: a restless run is no reason to look less closely."""
        noise = _SUSPICION * self._known_spread * math.sqrt(1 / runs + self._reference_variance)
        return max(noise, self.accepted - noise)

    def drop(self, runs: int, nights: int = 1) -> float:
        """The drop of so many runs, in so many nights, that is beyond the tolerance and beyond what noise explains."""
        return max(self.accepted, self._explained(runs, nights))

    def rise(self, runs: int) -> float:
        """The same for a rise."""
        return max(self._upper, self._explained(runs))

    @property
    def begins_with(self) -> int:
        """Fresh runs that come first: one, or of a noisy row three."""
        one_misses = (_SUSPICION + _DETECTION) * self._known_spread * math.sqrt(1 + self._reference_variance)
        return 1 if one_misses <= max(-math.log1p(-TOO_NOISY_TO_GATE), self.accepted) else RUNS_TO_CONFIRM[0]

    def smallest_loss(self, last_stage: int) -> float:
        """The true loss that is caught 95 times in 100: it must raise suspicion, and then show in the last stage."""
        first = min(self.begins_with, last_stage)
        lines = {first: self.suspicion(first)} | {last_stage: self.drop(last_stage)}  # one stage, where that is all
        return max(line + _DETECTION * self._error(runs) for runs, line in lines.items())

    def _explained(self, runs: int, nights: int = 1) -> float:
        """What noise alone exceeds once in 1/alpha nights, over all tests of a night."""
        alpha = (1 - (1 - FALSE_ALARMS_A_NIGHT) ** (1 / max(self._tests, 1))) / 2
        return _t_quantile(alpha, self._degrees_of_freedom) * self._error(runs, nights)

    def _error(self, runs: int, nights: int = 1) -> float:
        """The standard deviation of a drop: of its runs and the reference's, and of the nights in which they ran."""
        of_runs = self._spread * math.sqrt(1 / runs + self._reference_variance)
        return math.hypot(of_runs, self._between_nights * math.sqrt(1 / nights + 1 / self._reference_nights))


def _window_error(runs: Sequence[RunValue]) -> float:
    """What the windows leave uncertain of a run: their standard error, where they are too few what the runs differ by.

    0 for one run of too few windows, as a log without steps is: nothing tells it.
    """
    errors = [run.error for run in runs if math.isfinite(run.error)]
    if errors:
        return statistics.fmean(errors)
    return statistics.stdev(run.log_rate for run in runs) if len(runs) > 1 else 0.0


def _reference_variance(runs: int) -> float:
    """Of a Hodges-Lehmann median over a baseline's runs, in spreads squared (1.07: its efficiency on normal data)."""
    return 1.07 / runs if runs > 1 else 1.0


def _t_quantile(alpha: float, degrees_of_freedom: float) -> float:
    if math.isinf(degrees_of_freedom):
        return -statistics.NormalDist().inv_cdf(alpha)
    from scipy.special import stdtrit

    return -float(stdtrit(degrees_of_freedom, alpha))
