"""How often running averages are recognised, and how often other rates are taken for averages.

    python benchmarks/averages.py --series 5000

Simulated series of 100 rates, rounded to two decimals as programs print them: noise of 1 %, rare slow readings, a
random walk, and a start that settles. Of each kind the series itself (an alarm would be false), and its average since
the start.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable

from pytest_tfperf.programs.recent_rates import is_running_average

LENGTH = 100


def noisy() -> list[float]:
    """Readings with noise of 1 %."""
    return [100 * (1 + random.gauss(0, 0.01)) for _ in range(LENGTH)]


def with_slow_readings() -> list[float]:
    """One in twenty is 30 % slower."""
    return [rate * (0.7 if random.random() < 0.05 else 1) for rate in noisy()]


def walking() -> list[float]:
    """A machine whose speed wanders."""
    rates, speed = [], 100.0
    for _ in range(LENGTH):
        speed *= 1 + random.gauss(0, 0.002)
        rates.append(speed)
    return rates


def settling() -> list[float]:
    """10 % slower at its start, and hardly noisy."""
    return [100 * (1 - 0.1 * math.exp(-n / 8)) * (1 + random.gauss(0, 0.001)) for n in range(LENGTH)]


def averages(rates: list[float]) -> list[float]:
    """Each rate averaged with those before, for the same work each."""
    seconds = 0.0
    found = []
    for n, rate in enumerate(rates, 1):
        seconds += 1 / rate
        found.append(n / seconds)
    return found


KINDS: dict[str, Callable[[], list[float]]] = {
    "noise of 1 %": noisy,
    "rare slow readings": with_slow_readings,
    "random walk": walking,
    "settling start": settling,
}


def main() -> None:
    """Print both rates of each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=5000, help="series of each kind")
    series = parser.parse_args().series
    random.seed(20261124)
    print(f"{'rates':20} {'taken for averages':>20} {'averages recognised':>20}")
    for name, make in KINDS.items():
        drawn = [make() for _ in range(series)]
        false = sum(is_running_average([round(rate, 2) for rate in rates]) for rates in drawn) / series
        found = sum(is_running_average([round(rate, 2) for rate in averages(rates)]) for rates in drawn) / series
        print(f"{name:20} {false:>20.2%} {found:>20.1%}")


if __name__ == "__main__":
    main()
