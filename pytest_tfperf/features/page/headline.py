"""The clauses of the report's first sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.numbers import compared, counted
from pytest_tfperf.reports.session_verdicts import in_one_sentence, session_clauses


def clauses(
    tests: Sequence[Mapping[str, Any]],
    drifts: Sequence[Mapping[str, Any]],
    not_measured: Collection[str],
    comparisons: Sequence[str],
    left_out: Collection[str],
    verdicts: Sequence[SessionVerdict] = (),
) -> list[str]:
    """ "Machine REGRESSED (6.1 % slower than its baselines)", "2 of 49 tests regressed".

    `verdicts` on software and machine come first, because all tests may pass in a session that fails.
    `not_measured` has the tests that ended in an error; a test with an earlier result among them has not passed.
    `comparisons` has the outcomes of interleaved comparisons, which are counted if nothing else was measured. A test
    that is slower than earlier sessions but has no baseline has not regressed.

    What all tests of a machine have in common since last week may come from the machine or from the software, so
    neither is named.
    """
    unmeasured = [f"{len(left_out)} left out by --tfperf-budget"] if left_out else []
    if tests:
        counts = [*_counts(tests, not_measured), *unmeasured, *_drifts(tests, drifts)]
    else:
        counts = [_compared(comparisons) if comparisons else _nothing(len(not_measured)), *unmeasured]
    return in_one_sentence([*session_clauses(verdicts), *counts])


def _counts(tests: Sequence[Mapping[str, Any]], not_measured: Collection[str]) -> list[str]:
    without_result = len(set(not_measured) - {test["test"] for test in tests})
    total = len(tests) + without_result
    slower = [test for test in tests if test["outcome"] == Outcome.REGRESSED]
    provisional = sum(test["kind"] == "provisional" for test in slower)
    failed = without_result + sum(
        test["outcome"] == Outcome.INVALID or (test["outcome"] != Outcome.REGRESSED and test["test"] in not_measured)
        for test in tests
    )
    refused = sum(test["outcome"] == "refused" for test in tests)
    judged = [test for test in tests if test["outcome"] != "refused"]
    parts = [_regressed(judged, len(slower) - provisional, total - refused, not_measured)] if judged else []
    if refused:
        parts.append(f"{counted(refused, 'test')} refused as {'a baseline' if refused == 1 else 'baselines'}")
    if provisional:
        parts.append(f"{provisional} slower than earlier sessions")
    if failed and not (judged and _all_invalid(judged)):
        parts.append(f"{failed} could not be measured")
    return parts


def _drifts(tests: Sequence[Mapping[str, Any]], drifts: Sequence[Mapping[str, Any]]) -> list[str]:
    is_alone = len({test["machine"] for test in tests}) == 1
    parts = []
    for drift in drifts:
        if drift["is_sure"]:
            which = "all tests" if is_alone else f"the tests on {drift['machine']}"
            parts.append(f"{which} together are {compared(drift['change'])} last week")
    return parts


def _regressed(tests: Sequence[Mapping[str, Any]], regressed: int, total: int, not_measured: Collection[str]) -> str:
    if regressed:
        return f"{regressed} of {counted(total, 'test')} regressed"
    if _all_invalid(tests):
        return _nothing(total)
    if all(test["reference"] is None for test in tests):
        return "1 test measured, not judged" if len(tests) == 1 else f"{len(tests)} tests measured, none of them judged"
    good = [test for test in tests if test["outcome"] in (Outcome.PASS, Outcome.IMPROVED)]
    passed = sum(test["test"] not in not_measured for test in good)
    if passed == total:
        return ("The test passed" if total == 1 else f"All {total} tests passed") + _weaker(good)
    return f"No test regressed; {passed} of {total} passed" + _weaker(good)


def _weaker(good: Sequence[Mapping[str, Any]]) -> str:
    """How many passed against less than a recorded baseline, in brackets: " (3 provisional)"."""
    kinds = Counter(test["kind"] for test in good if test["kind"])
    if not kinds:
        return ""
    if list(kinds.values()) == [len(good)]:
        return f" ({next(iter(kinds))})"
    return f" ({', '.join(f'{number} {kind}' for kind, number in sorted(kinds.items()))})"


def _all_invalid(tests: Sequence[Mapping[str, Any]]) -> bool:
    return all(test["outcome"] == Outcome.INVALID for test in tests)


def _compared(outcomes: Sequence[str]) -> str:
    regressed = sum(word == Outcome.REGRESSED for word in outcomes)
    count = counted(len(outcomes), "comparison")
    return f"{regressed} of {count} regressed" if regressed else f"{count}, none of them regressed"


def _nothing(not_measured: int) -> str:
    if not not_measured:
        return "Nothing was measured"
    return "The test could not be measured" if not_measured == 1 else f"None of {not_measured} tests could be measured"
