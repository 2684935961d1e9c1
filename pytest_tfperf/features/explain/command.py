"""`tfperf explain`: why a test's verdict is what it is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from pytest_tfperf.console.arguments import Commands, add_command, history_place, open_history, session_id
from pytest_tfperf.console.output import show, show_json, width
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.explain.words import explained
from pytest_tfperf.lines import rendered
from pytest_tfperf.reports.measurement_table import measurement_json
from pytest_tfperf.reports.table import shown_names
from pytest_tfperf.safe_text import shortened

_MOST_NAMED: Final = 10


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "explain",
        _run,
        "explain a test's verdict: its threshold, its noise, and what more runs would tell",
        examples=(
            "tfperf explain test_resnet50",
            'tfperf explain "perf_tests/test_a.py::test_resnet50[8]" --session 20261122-144825-c8d7f4',
            "tfperf explain test_resnet50 --json",
        ),
        parents=[history_place()],
    )
    command.add_argument("test", metavar="TEST", help="pytest's node id or the workload's name, or a part of them")
    command.add_argument(
        "--session",
        metavar="ID",
        help="session to explain: its id, latest or previous (default: the last that measured the test)",
    )
    command.add_argument("--json", action="store_true", help="print the figures as JSON")


def _run(arguments: argparse.Namespace) -> int:
    history = open_history(arguments)
    test, session = _wanted(history.results(), arguments.test, session_id(history, arguments.session))
    calls = list(history.measurements(session=session, test=test))
    if not calls:
        raise TfperfError(f"the measurement of {shortened(test)} in session {shortened(session)} can't be read")
    found = _matching(calls, arguments.test)
    if arguments.json:
        # Runs and pairs are left out, because of their many windows; `tfperf history --export` has them.
        show_json([measurement_json(one) for one in found])
    else:
        show("\n\n\n".join("\n".join(rendered(explained(one), width())) for one in found))
    return EXIT_GREEN


def _wanted(results: Sequence[PastResult], text: str, session: str | None) -> tuple[str, str]:
    """The test that the text means, and the last session that measured it.

    Raises:
        TfperfError: no test, or more than one; the message lists them.
    """
    measured = [one for one in results if session in (None, one.session)]
    if session is not None and not measured:
        raise TfperfError(f"the history has no session {session!r}: `tfperf history --csv` lists sessions and tests")
    found = (
        [one for one in measured if one.test == text]
        or [one for one in measured if text in _names(one.workload, one.name)]
        or [one for one in measured if text in one.test]
        or [one for one in measured if _is_part(text, one.workload, one.name)]
    )
    tests = list(dict.fromkeys(one.test for one in found))
    if not tests:
        kind = "measured test" if session is None else f"test of session {session}"
        raise TfperfError(
            f"no {kind} has {text!r} in its id or name.{_nearest(text, measured)} "
            "`tfperf history --csv` lists sessions and tests"
        )
    if len(tests) > 1:
        more = f"\n  and {len(tests) - _MOST_NAMED} more" if len(tests) > _MOST_NAMED else ""
        names = "".join(f"\n  {test}" for test in tests[:_MOST_NAMED])
        raise TfperfError(f"{text!r} is a part of {len(tests)} tests; give more of the id:{names}{more}")
    return tests[0], found[-1].session


def _names(workload: str, name: str) -> tuple[str, str, str]:
    """A workload's names: its id, what its test calls it, and what tables show."""
    return workload, name, shown_names([(workload, name)])[workload, name]


def _is_part(text: str, workload: str, name: str) -> bool:
    return any(text in one for one in _names(workload, name))


def _nearest(text: str, measured: Sequence[PastResult]) -> str:
    """ " Did you mean 'test_resnet50[8]'?"; "" if no name is similar."""
    known = set[str]()
    for one in measured:
        function = one.test.rpartition("::")[2]
        known |= {one.test, function, function.partition("[")[0], *_names(one.workload, one.name)}
    near = get_close_matches(text, sorted(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _matching(measurements: Sequence[Measurement], text: str) -> Sequence[Measurement]:
    """The test's calls; only those of a workload if the text names it, but not if it is a part of the test's id."""
    named = [one for one in measurements if text in _names(one.workload.id, one.name)]
    if not named and not any(text in one.test for one in measurements):
        named = [one for one in measurements if _is_part(text, one.workload.id, one.name)]
    return named or measurements
