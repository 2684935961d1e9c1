"""How long tests will take: from earlier sessions, and from what this session has measured so far."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement

_LEAST_FOR_PACE = 3  # tests: the first one also imports TensorFlow


def run_seconds(
    guesses: Mapping[str, float], known: Mapping[str, float], spent: Mapping[str, float]
) -> dict[str, float]:
    """Seconds that one run of each test will probably take.

    What this session measured counts most. What earlier sessions measured is scaled by how fast this one is. A test
    that was never timed takes as long as those of the same function, of the same file, or of any.

    Args:
        guesses: of each test, for the case that nothing at all is known.
        known: seconds of a run in earlier sessions.
        spent: seconds of a run in this session.
    """
    both = known.keys() & spent.keys()
    pace = math.fsum(spent[t] for t in both) / math.fsum(known[t] for t in both) if len(both) >= _LEAST_FOR_PACE else 1
    timed = {test: seconds * pace for test, seconds in known.items()} | dict(spent)
    return {test: timed.get(test) or _alike(test, timed) or guess for test, guess in guesses.items()}


def seconds_of_a_run(result: Measurement | Comparison) -> float:
    """Of one worker, with its start and compilation; a comparison's pairs are all made at once."""
    return result.seconds / result.workers if isinstance(result, Measurement) else result.seconds


def runs_missing(result: Measurement | Comparison) -> int:
    """Runs that a result still wants before it is decided."""
    if isinstance(result, Comparison) or result.is_decided:
        return 0
    verdict = result.verdict
    runs = max(result.runs_wanted, verdict.runs_wanted if verdict else 0) - len(result.runs)
    pairs = (verdict.pairs_wanted if verdict else 0) - len(result.pairs)
    return max(runs, 0) + 2 * max(pairs, 0)


def _alike(test: str, timed: Mapping[str, float]) -> float | None:
    """The mean of the timed tests that resemble it most."""
    function, file = test.partition("[")[0], test.partition("::")[0]
    for prefix in (f"{function}[", f"{file}::", ""):
        if found := [seconds for other, seconds in timed.items() if other.startswith(prefix)]:
            return statistics.fmean(found)
    return None
