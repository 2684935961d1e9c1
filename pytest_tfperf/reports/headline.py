"""A session in one sentence: the verdicts on software and machine, then how many tests have each outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.measurement_table import ACT_FIRST, kind_of, result_rank
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.reports.session_verdicts import in_one_sentence, session_clauses

_SAYS: Final = {
    Outcome.REGRESSED: "regressed",
    Outcome.INVALID: "could not be measured",
    Outcome.INCONCLUSIVE: "stayed inconclusive",
    Outcome.TOO_NOISY: "stayed too noisy to judge",
    Outcome.NO_BASELINE: "had no baseline",
    Outcome.IMPROVED: "improved",
    Outcome.PASS: "passed",
    None: "ran without a verdict",
}
_REFUSED: Final = "refused as a baseline"
_ERROR_RANK: Final = ACT_FIRST.index(Outcome.INVALID)


def session_headline(
    results: Iterable[Measurement],
    verdicts: Sequence[SessionVerdict] = (),
    *,
    not_measured: Collection[str] = (),
    refused: Collection[str] = (),
    left_out: Collection[str] = (),
) -> list[str]:
    """The clauses of one sentence without its full stop: "Machine REGRESSED (...)", "2 of 49 throughput tests passed".

    A test is a node id, and counts once, with the worst outcome of its calls and comparisons. What passed against
    less than a recorded baseline is counted apart, as "1 passed (provisional)".

    Args:
        results: what the session's calls gave.
        verdicts: on software and machine as a whole. They come first: all tests may pass in a session that fails.
        not_measured: tests that ended in an error; one with an earlier result has not passed.
        refused: tests whose baseline was refused.
        left_out: tests that `--tfperf-budget` had no time for.
    """
    worst = dict.fromkeys(refused, (_ERROR_RANK, _REFUSED))
    worst |= dict.fromkeys(not_measured, (_ERROR_RANK, _SAYS[Outcome.INVALID]))
    for result in results:
        found = result_rank(result), _says(result)
        worst[result.test] = min(worst.get(result.test, found), found)
    clauses = [*session_clauses(verdicts), *_counts(list(worst.values()))]
    return in_one_sentence([*clauses, f"{len(left_out)} left out by --tfperf-budget"] if left_out else clauses)


def _counts(outcomes: Sequence[tuple[int, str]]) -> list[str]:
    """The worst outcome first, with the number of all tests."""
    if not outcomes:
        return ["no throughput test was measured"]
    (first, number), *others = sorted(Counter(outcomes).items())
    parts = [f"{number} of {counted(len(outcomes), 'throughput test')} {first[1]}"]
    return [*parts, *(f"{number} {says}" for (_, says), number in others)]


def _says(result: Measurement) -> str:
    """Its outcome as a verb, with what the verdict rests on if it is no recorded baseline."""
    if result.is_refused:
        return _REFUSED
    kind = kind_of(result)
    return f"{_SAYS[result.outcome if result.is_decided else None]}{f' ({kind})' if kind else ''}"
