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

    Times of this session count most. Times of earlier sessions are scaled by how fast this session is. A test that was
    never timed is expected to take as long as tests of the same function, of the same file, or as any test.

    Args:
        guesses: a guess for each test, used if nothing is known.
        known: seconds of a run in earlier sessions.
        spent: seconds of a run in this session.
    """
    both = known.keys() & spent.keys()
    pace = 1.0
    if len(both) >= _LEAST_FOR_PACE:
        pace = math.fsum(spent[test] for test in both) / math.fsum(known[test] for test in both)
    timed = {test: seconds * pace for test, seconds in known.items()} | dict(spent)
    return {test: timed.get(test) or _alike(test, timed) or guess for test, guess in guesses.items()}


def seconds_of_a_run(result: Measurement | Comparison) -> float:
    """Seconds of one worker, with its start and compilation; a comparison takes all of its pairs in one run."""
    return result.seconds / result.workers if isinstance(result, Measurement) else result.seconds


def runs_missing(result: Measurement | Comparison) -> int:
    """How many further runs a result needs before it is decided."""
    if isinstance(result, Comparison) or result.is_decided:
        return 0
    verdict = result.verdict
    runs = max(result.runs_wanted, verdict.runs_wanted if verdict else 0) - len(result.runs)
    pairs = (verdict.pairs_wanted if verdict else 0) - len(result.pairs)
    return max(runs, 0) + 2 * max(pairs, 0)


def _alike(test: str, timed: Mapping[str, float]) -> float | None:
    """The mean time of the tests that resemble this one most; None if no test was timed."""
    function, file = test.partition("[")[0], test.partition("::")[0]
    for prefix in (f"{function}[", f"{file}::", ""):
        if found := [seconds for other, seconds in timed.items() if other.startswith(prefix)]:
            return statistics.fmean(found)
    return None
