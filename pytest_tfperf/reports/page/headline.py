"""The report's first sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.numbers import percent
from pytest_tfperf.reports.page.past import Drift


def sentence(
    tests: Sequence[Mapping[str, Any]], drifts: Sequence[Drift], not_measured: int = 0, comparisons: Sequence[str] = ()
) -> str:
    """ "2 of 49 tests regressed; the machine itself is 1.0 % slower than last week"..

    `comparisons` has the outcomes of interleaved comparisons, which count where nothing was measured by itself.
    """
    if not tests:
        return _compared(comparisons) if comparisons else _nothing(not_measured)
    outcomes = Counter(str(test["outcome"]) for test in tests)
    total = len(tests) + not_measured
    parts = [_regressed(outcomes, total)]
    failed = outcomes[Outcome.INVALID] + not_measured
    if failed:
        parts.append(f"{failed} could not be measured")
    sure = [drift for drift in drifts if drift.is_sure]
    for drift in sure:
        which = "the machine itself" if len({test["machine"] for test in tests}) == 1 else drift.machine
        word = "slower" if drift.change < 0 else "faster"
        parts.append(f"{which} is {percent(drift.change)} {word} than last week")
    return "; ".join(parts)


def _compared(outcomes: Sequence[str]) -> str:
    regressed = sum(word == Outcome.REGRESSED for word in outcomes)
    count = f"{len(outcomes)} comparison{'' if len(outcomes) == 1 else 's'}"
    return f"{regressed} of {count} regressed" if regressed else f"{count}, none of them regressed"


def _nothing(not_measured: int) -> str:
    if not not_measured:
        return "Nothing was measured"
    return "The test could not be measured" if not_measured == 1 else f"None of {not_measured} tests could be measured"


def _regressed(outcomes: Mapping[str, int], total: int) -> str:
    regressed = outcomes.get(Outcome.REGRESSED, 0)
    if regressed:
        return f"{regressed} of {total} test{'' if total == 1 else 's'} regressed"
    judged = sum(outcomes.get(word, 0) for word in (Outcome.PASS, Outcome.IMPROVED))
    if not judged:
        return "1 test measured, not judged" if total == 1 else f"{total} tests measured, none of them judged"
    if judged == total:
        return "The test passed" if total == 1 else f"All {total} tests passed"
    return f"No test regressed; {judged} of {total} passed"
