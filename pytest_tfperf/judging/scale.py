"""The scale on which a figure is judged: the logarithm for a throughput, its own unit for any other figure.

A rate's noise and tolerance are fractions, so ratios of rates are compared. For other figures, differences are: their
accepted change is the larger of a fraction and an amount, and a value may be 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from pytest_tfperf.core.figure import THROUGHPUT, Better, Figure
from pytest_tfperf.core.verdict import Noise, Tolerance
from pytest_tfperf.judging.thresholds import TO_BE_FOUND, accepted_rise, accepted_slowdown, is_blind

NO_RISE: Final = 100.0  # log throughput: nothing is so much faster, and floats end soon after


@dataclass(frozen=True)
class Scale:
    """Values of a figure as positions on a scale, and differences of positions as changes that a verdict shows.

    Args:
        figure: the figure.
        tolerance: of a throughput; other figures have their own.
    """

    figure: Figure
    tolerance: Tolerance

    @property
    def is_logarithm(self) -> bool:
        """Whether positions are logarithms of values."""
        return self.figure is THROUGHPUT

    @property
    def is_bounded(self) -> bool:
        """Whether any loss is too large to be accepted."""
        return not self.is_logarithm or self.tolerance.lower is not None

    @property
    def to_be_found(self) -> float:
        """The loss beyond the tolerance that noise must not let pass unsuspected where pairs can confirm it."""
        return TO_BE_FOUND if self.is_logarithm else math.inf

    def is_blind(self, threshold: float, accepted: float, target: float = math.inf) -> bool:
        """Whether noise makes a gate blind: a loss by a quarter would pass; of another figure, one by the whole value.

        A quarter may be little for another figure. `target` is its baseline; without one, it is never blind.
        """
        if self.is_logarithm:
            return is_blind(threshold, accepted)
        return threshold > max(2 * accepted, abs(target))

    def expected(self, target: float, drift: float, offset: float) -> float:
        """Return the expected position of a run.

        Args:
            target: the baseline's value.
            drift: the drift common to all tests of the session, in log throughput.
            offset: what earlier sessions add to the baseline.
        """
        if self.is_logarithm:
            return math.log(target) + drift + offset
        return target * math.exp(self.figure.with_speed * drift) + offset

    def value_at(self, target: float, change: float) -> float:
        """Return the value that differs from a target by a change of position."""
        return target * math.exp(change) if self.is_logarithm else target + change

    def accepted(self, target: float) -> float:
        """Return the accepted loss, positive; inf if any loss is accepted."""
        return accepted_slowdown(self.tolerance) if self.is_logarithm else self.figure.accepted(target)

    def accepted_rise(self, target: float) -> float:
        """Return the gain beyond which a figure is better than expected; inf where it never is."""
        if self.figure.better is Better.SAME:
            return math.inf
        return accepted_rise(self.tolerance) if self.is_logarithm else self.figure.accepted(target)

    def noise(self, noise: Noise, target: float) -> Noise:
        """Return the noise, with its standard deviation between runs on this scale."""
        return noise if self.is_logarithm else replace(noise, between_runs=noise.between_runs * abs(target))

    def of_sessions(self, sigma: float, target: float) -> float:
        """Return the standard deviation between sessions on this scale, from that of log throughput."""
        return sigma if self.is_logarithm else sigma * abs(self.figure.with_speed * target)

    def change(self, value: float, target: float) -> float:
        """Return the change of a value from its target, as a verdict shows it."""
        return value / target - 1 if self.is_logarithm else value - target

    def shown(self, change: float) -> float:
        """Return a change of position as a verdict shows it."""
        return math.expm1(min(change, NO_RISE)) if self.is_logarithm else change

    def shown_loss(self, loss: float) -> float:
        """Return a loss, which is positive, as a verdict shows it."""
        return -self.shown(-loss)
