"""The measured test that a command's argument means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from shlex import quote
from typing import TYPE_CHECKING

from pytest_tfperf.core.past import Value
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.table import shown_names

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History


def wanted_test(history: History, results: Sequence[Value], text: str, session: str | None = None) -> tuple[str, str]:
    """Return the test that the text means, and the last session that measured it.

    Args:
        history: is asked where no result matches, for the tests that were only compared.
        results: the latest of each test, or those of the session.
        text: pytest's node id, its end (see `named`), a workload's name, or a part of them.
        session: the session that all results are of; None for any.

    Raises:
        TfperfError: no test matches, or several do; the message lists them.
    """
    ids = set(named(text, [result.test for result in results]))
    matches = (
        [result for result in results if result.test in ids]
        or [result for result in results if text in names_of(result.workload, result.name)]
        or [result for result in results if text in result.test]
        or [result for result in results if is_part(text, result.workload, result.name)]
    )
    tests = list(dict.fromkeys(result.test for result in matches))
    if not tests:
        raise _unknown(history, results, text, session)
    if len(tests) > 1:
        raise several(text, tests)
    return tests[0], matches[-1].session


def _unknown(history: History, results: Sequence[Value], text: str, session: str | None) -> TfperfError:
    compared = history.values_of("test", session=session, is_interleaved=True)
    meant = named(text, compared) or [test for test in compared if text in test]
    if meant:
        return TfperfError(
            f"{meant[0]} was only compared with another side, and not measured alone",
            next_step=f"Its last comparison: tfperf history --test {quote(meant[0])}",
        )
    if session is not None and not (results or compared):
        return TfperfError(f"the history has no session {session!r}: `tfperf history --csv` lists sessions and tests")
    kind = "measured test" if session is None else f"test of session {session}"
    return TfperfError(
        f"no {kind} has {text!r} in its id or name.{_nearest(text, results)} "
        "`tfperf history --csv` lists sessions and tests"
    )


def filtered_test(history: History, text: str | None) -> str | None:
    """Return the id that a filter's text is, or is the end of; the text itself where the history has no such test.

    Raises:
        TfperfError: several tests' ids end in it.
    """
    if text is None or history.has(test=text):
        return text
    tests = named(text, history.values_of("test"))
    if len(tests) > 1:
        raise several(text, tests)
    return tests[0] if tests else text


def several(text: str, tests: Iterable[str]) -> TfperfError:
    """Return the error for a text that means several tests; it lists them all."""
    names = [f"  {test}" for test in tests]
    return TfperfError(f"{text!r} is a part of {len(names)} tests; give more of the id:", *names)


def named(text: str, tests: Iterable[str]) -> list[str]:
    """Return the test of this id, or else all tests whose id ends in it, with or without their parameters.

    An end begins at a folder, the file, a class or the function: `test_a.py::test_b`, `TestA::test_b[8]`, `test_b`.
    """
    known = list(dict.fromkeys(tests))
    return [text] if text in known else [test for test in known if text in _ends(test)]


def _ends(test: str) -> list[str]:
    """Return the ends of an id, each without and with the parameters."""
    # Parameters may hold "/", "::" and "[". They begin at the first "[" behind the file: no class or function has one.
    path, separator, names = test.partition("::")
    function, bracket, parameters = names.partition("[")
    folders, classes = path.split("/"), function.split("::")
    ends = ["/".join(folders[index:]) + separator + function for index in range(len(folders))]
    ends += ["::".join(classes[index:]) for index in range(len(classes))]
    return [end + whole for end in ends for whole in ("", bracket + parameters)]


def names_of(workload: str, name: str) -> tuple[str, str, str]:
    """Return a workload's names: its id, its name in the test, and its name in tables."""
    return workload, name, shown_names([(workload, name)])[workload, name]


def is_part(text: str, workload: str, name: str) -> bool:
    """Whether a text is a part of a name of the workload."""
    return any(text in known for known in names_of(workload, name))


def _nearest(text: str, measured: Sequence[Value]) -> str:
    """Return " Did you mean 'test_resnet50[8]'?"; "" if no name is similar."""
    known = set[str]()
    for result in measured:
        known |= {*_ends(result.test), *names_of(result.workload, result.name)}
    near = get_close_matches(text, sorted(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
