"""`tfperf bisect`: which commit, or which package, lost the throughput of a test."""

from __future__ import annotations

import argparse
import shutil
from contextlib import ExitStack
from pathlib import Path

from pytest_tfperf.console.arguments import Commands, Group, add_command, checked, folder
from pytest_tfperf.console.measured_test import named, wanted_test
from pytest_tfperf.console.output import show
from pytest_tfperf.console.pytest_process import explained_interrupt
from pytest_tfperf.console.session_settings import root
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.numbers import counted


def add_to(commands: Commands) -> None:
    """Add the command."""
    bisect = add_command(
        commands,
        _run,
        "bisect: find the commit, or the package, that made a test slower",
        group=Group.CHANGE,
        examples=(
            'tfperf bisect "perf_tests/test_speed.py::test_training_speed" --good v1.4',
            'tfperf bisect "perf_tests/test_speed.py::test_training_speed"    # good: from the history or the baseline',
            'tfperf bisect "perf_tests/test_speed.py::test_training_speed" --packages old.lock.txt new.lock.txt',
        ),
        statuses={
            EXIT_GREEN: "the change was found",
            EXIT_REGRESSED: "no change was found: bad is not slower than good",
            EXIT_NOT_MEASURED: "too much could not be measured, or the last comparison did not confirm the change",
        },
        parents=[
            folder(Settings.dir, "where the search, its checkouts and environments lie"),
            folder(Settings.baselines, "folder of the baselines"),
        ],
    )
    bisect.add_argument("test", metavar="TEST", help="pytest's id of one test; of a measured one also the id's end")
    bisect.add_argument(
        "--good",
        metavar="REV",
        help="a commit that was fast (default: where the history, or else the baseline, says so)",
    )
    bisect.add_argument("--bad", metavar="REV", help="a later commit that is slow (default: HEAD)")
    bisect.add_argument(
        "--packages",
        nargs=2,
        type=Path,
        metavar=("FAST.lock", "SLOW.lock"),
        help="search the packages in which two locks differ, under the current code, and no commits",
    )
    bisect.add_argument(
        "--tolerance",
        type=checked(parse.tolerance),
        metavar="FRACTION",
        help="a loss above it is searched for, 0.01 for 1 %% (default: the test's own tolerance)",
    )
    bisect.add_argument(
        "--build",
        default="",
        metavar="COMMAND",
        help="a shell command that builds the project in each commit's checkout",
    )
    bisect.add_argument("--again", action="store_true", help="forget what an interrupted search has found")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.bisect.search import Search
    from pytest_tfperf.features.bisect.states import commit_states, package_states, range_of

    tolerance = None if arguments.tolerance is None else Tolerance.of(arguments.tolerance)
    if arguments.packages and (arguments.good or arguments.bad or arguments.build):
        raise TfperfError("--packages with --good, --bad or --build: search either packages or commits")
    project = root().absolute()
    arguments.test = _test(arguments)
    with ExitStack() as opened:
        if arguments.packages:
            fast, slow = arguments.packages
            states = package_states(fast, slow, arguments.dir)
        else:
            states = commit_states(project, *range_of(arguments, project), arguments.dir, opened, arguments.build)
        search = Search(arguments.test, states, arguments.dir, show, tolerance)
        if arguments.again:
            shutil.rmtree(search.folder, ignore_errors=True)

        def kept() -> str:
            return f"{counted(len(list(search.folder.glob('0-*.json'))), 'comparison')} kept in {search.folder}"

        with explained_interrupt(show, kept):
            return search.run()


def _test(arguments: argparse.Namespace) -> str:
    """Return the id of the test that is meant; where its file is there, it may be one that was never measured."""
    from pytest_tfperf.stores.history import History

    text, history = str(arguments.test), History(arguments.dir / "history.sqlite")
    is_id = Path(text.partition("::")[0]).is_file()
    if is_id and arguments.good:  # nothing is asked of the history
        return text
    results = history.latest() if history.database.exists else []
    if is_id and not named(text, (result.test for result in results)):
        return text
    return wanted_test(history, results, text)[0]
