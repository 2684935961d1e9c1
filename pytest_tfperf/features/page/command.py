"""`tfperf report`: a session from the history as one HTML page, or its facts as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.console.arguments import (
    Commands,
    add_command,
    date_or_age,
    folder,
    history_place,
    nothing_left,
    open_history,
    session_id,
)
from pytest_tfperf.console.output import show, show_file
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastResult, moment
from pytest_tfperf.core.session_verdicts import SessionResult, SessionVerdict
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.verdict import sides
from pytest_tfperf.stores import files
from pytest_tfperf.stores.baseline_file import BaselineStore

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History
    from pytest_tfperf.stores.history_queries import Filters

_PAGE: Final = Path("tfperf-report.html")


def add_to(commands: Commands) -> None:
    """Add the command."""
    report = add_command(
        commands,
        "report",
        _run,
        "write an HTML page about a session and its history, or the same facts as JSON",
        examples=(
            "tfperf report",
            "tfperf report --machine NAME -o nightly.html",
            "tfperf report --since 30d",
            "tfperf report --session ID --format json > facts.json",
        ),
        parents=[
            history_place(),
            folder(Settings.baselines, "folder of the baselines, for the documents' figures"),
        ],
    )
    which = report.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="a session: its id, latest or previous (default: latest)")
    which.add_argument(
        "--since",
        type=date_or_age,
        metavar="TIME",
        help="the latest measurement of each test since a date, time or age: 2026-01-31, 30d",
    )
    which.add_argument("--machine", metavar="NAME", help="the last session of a machine")
    report.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help=f"file to write (default: {_PAGE}; JSON: to stdout)"
    )
    report.add_argument(
        "--format",
        choices=("html", "json"),
        default="html",
        help="html (default) or json",
    )


def _run(arguments: argparse.Namespace) -> int:
    # They import NumPy and Jinja2.
    from pytest_tfperf.features.page.facts import as_json, report_facts
    from pytest_tfperf.features.page.past import read_past
    from pytest_tfperf.features.page.render import page

    is_page = arguments.format == "html"
    path: Path | None = arguments.output or (_PAGE if is_page else None)
    if path is not None:
        files.require_writable(path, "-o")
    history = open_history(arguments)
    selected, interleaved = _selected(history, arguments)
    measurements = _whole(history, selected)
    if not measurements and not interleaved:
        raise TfperfError(
            "none of the measurements to report can be read, damaged, or older than those that the history keeps whole",
            next_step="`tfperf history --csv` has their figures",
        )
    result = SessionResult(
        results=[*measurements, *interleaved], verdicts=_verdicts(history, selected, interleaved), exit_status=None
    )
    facts = report_facts(
        result,
        read_past(history, result),
        BaselineStore(arguments.baselines).published(),
        scope=f"since {arguments.since:%Y-%m-%d %H:%M %Z}" if arguments.since else "",
    )
    content = page(facts) if is_page else as_json(facts)
    if path is None:
        show_file(content.decode())
    else:
        files.replace(path, content)
        show(f"{facts['headline']}: {path}")
    return EXIT_GREEN


def _selected(history: History, arguments: argparse.Namespace) -> tuple[list[PastResult], list[Measurement]]:
    """Select the latest result of each test since a date, or all results of a session, by default of the last."""
    session = session_id(history, arguments.session)
    if session is None and arguments.since is None:
        session = next((id for id, _ in history.newest_sessions(arguments.machine)), None)
    part: Filters = {"session": session, "machine": arguments.machine, "since": arguments.since}
    beside: Filters = {**part, "is_interleaved": True}
    if arguments.since:
        results = [result for result in history.latest() if moment(result.time) >= arguments.since]
        compared = history.comparisons(**part)
        interleaved = list({(m.machine, m.test, m.topology, *sides(m)): m for m in compared}.values())
    else:
        results, interleaved = list(history.results(**part)), list(history.measurements(**beside))
    if not results and not interleaved:
        raise nothing_left(history, part) or TfperfError(
            f"{arguments.history}: nothing was measured here yet; run pytest first, or give --history"
        )
    return results, interleaved


def _verdicts(
    history: History, selected: Iterable[PastResult], interleaved: Iterable[Measurement]
) -> list[SessionVerdict]:
    """Return the verdicts on the last of these sessions of each machine as a whole.

    A session that only compared counts if none of the machine measured without another side.
    """
    last = {m.machine: m.session for m in interleaved} | {result.machine: result.session for result in selected}
    return [
        verdict for machine, session in last.items() for verdict in history.verdicts(session=session, machine=machine)
    ]


def _whole(history: History, selected: Iterable[PastResult]) -> list[Measurement]:
    """Return the whole measurements of these results, read session by session."""
    from pytest_tfperf.features.page.past import key_of
    from pytest_tfperf.stores.history_rows import as_stored

    wanted = {(result.session, key_of(result)) for result in selected}
    return [
        m
        for session in sorted({session for session, _ in wanted})
        for m in map(as_stored, history.measurements(session=session, is_interleaved=False))
        if (session, key_of(m)) in wanted
    ]
