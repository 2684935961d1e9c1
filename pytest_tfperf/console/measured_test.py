"""The measured test that a command's argument means."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from pytest_tfperf.core.past import PastResult
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.table import shown_names

_MOST_NAMED: Final = 10


def wanted_test(results: Sequence[PastResult], text: str, session: str | None = None) -> tuple[str, str]:
    """Return the test that the text means, and the last session that measured it.

    Args:
        results: the latest of each test, or those of the session.
        text: pytest's node id or a workload's name, or a part of them.
        session: the session that all results are of; None for any.

    Raises:
        TfperfError: no test matches, or several do; the message lists them.
    """
    if session is not None and not results:
        raise TfperfError(f"the history has no session {session!r}: `tfperf history --csv` lists sessions and tests")
    matches = (
        [result for result in results if result.test == text]
        or [result for result in results if text in _functions(result.test)]
        or [result for result in results if text in names_of(result.workload, result.name)]
        or [result for result in results if text in result.test]
        or [result for result in results if is_part(text, result.workload, result.name)]
    )
    tests = list(dict.fromkeys(result.test for result in matches))
    if not tests:
        kind = "measured test" if session is None else f"test of session {session}"
        raise TfperfError(
            f"no {kind} has {text!r} in its id or name.{_nearest(text, results)} "
            "`tfperf history --csv` lists sessions and tests"
        )
    if len(tests) > 1:
        more = [f"  and {len(tests) - _MOST_NAMED} more"] if len(tests) > _MOST_NAMED else []
        names = [f"  {test}" for test in tests[:_MOST_NAMED]]
        raise TfperfError(f"{text!r} is a part of {len(tests)} tests; give more of the id:", *names, *more)
    return tests[0], matches[-1].session


def _functions(test: str) -> tuple[str, str]:
    """Return a test's function with and without its parameters, because its file may have the same name."""
    function = test.rpartition("::")[2]
    return function, function.partition("[")[0]


def names_of(workload: str, name: str) -> tuple[str, str, str]:
    """Return a workload's names: its id, its name in the test, and its name in tables."""
    return workload, name, shown_names([(workload, name)])[workload, name]


def is_part(text: str, workload: str, name: str) -> bool:
    """Whether a text is a part of a name of the workload."""
    return any(text in known for known in names_of(workload, name))


def _nearest(text: str, measured: Sequence[PastResult]) -> str:
    """Return " Did you mean 'test_resnet50[8]'?"; "" if no name is similar."""
    known = set[str]()
    for result in measured:
        known |= {result.test, *_functions(result.test), *names_of(result.workload, result.name)}
    near = get_close_matches(text, sorted(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
