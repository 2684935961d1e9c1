"""`tfperf report`: a session from the history as one HTML page, or its facts as JSON."""

from __future__ import annotations

import argparse
import json
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
from pytest_tfperf.console.output import show
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page.past import key_of
from pytest_tfperf.features.page.render import page
from pytest_tfperf.reports.interleaved import sides
from pytest_tfperf.stores import files
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history_rows import as_stored

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
            folder("--baselines", "baselines", "folder of the baselines, for the documents' figures"),
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
    from pytest_tfperf.features.page.facts import ReportSource, report_facts, report_source  # imports NumPy

    is_page = arguments.format == "html"
    path: Path | None = arguments.output or (_PAGE if is_page else None)
    if path is not None:
        files.require_writable(path, "-o")
    history = open_history(arguments)
    selected, interleaved = _selected(history, arguments)
    measurements = _whole(history, selected)
    if not measurements and not interleaved:
        raise TfperfError("none of the measurements to report can be read")
    source = ReportSource(
        measurements=measurements,
        interleaved=interleaved,
        verdicts=_verdicts(history, selected, interleaved),
        scope=f"since {arguments.since:%Y-%m-%d %H:%M %Z}" if arguments.since else "",
    )
    source = report_source(source, history.results(), history, BaselineStore(arguments.baselines))
    facts = report_facts(source)
    found = page(facts) if is_page else json.dumps(facts, indent=1).encode()
    if path is None:
        show(found.decode())
    else:
        files.replace(path, found)
        show(f"{facts['headline']}: {path}")
    return EXIT_GREEN


def _selected(history: History, arguments: argparse.Namespace) -> tuple[list[PastResult], list[Measurement]]:
    """What to report: the latest of each test since a date, or all of one session, by default of the last.

    Raises:
        TfperfError: there is nothing.
    """
    session = session_id(history, arguments.session)
    if session is None and arguments.since is None:
        session = next((id for id, _ in reversed(history.sessions(arguments.machine))), None)
    part: Filters = {"session": session, "machine": arguments.machine, "since": arguments.since}
    beside: Filters = {**part, "is_interleaved": True}
    results, interleaved = history.results(**part), list(history.measurements(**beside))
    if not results and not interleaved:
        raise nothing_left(history, part) or TfperfError(
            f"{arguments.history}: nothing was measured here yet; run pytest first, or give --history"
        )
    if arguments.since:
        results = list({key_of(one): one for one in results}.values())
        interleaved = list({(one.machine, one.test, one.topology, *sides(one)): one for one in interleaved}.values())
    return results, interleaved


def _verdicts(
    history: History, selected: Iterable[PastResult], interleaved: Iterable[Measurement]
) -> list[SessionVerdict]:
    """The verdicts on the last of these sessions as a whole, of each machine; one that measured goes first."""
    last = {one.machine: one.session for one in interleaved} | {one.machine: one.session for one in selected}
    return [
        verdict for machine, session in last.items() for verdict in history.verdicts(session=session, machine=machine)
    ]


def _whole(history: History, selected: Iterable[PastResult]) -> list[Measurement]:
    """The whole measurements of these results, read session by session."""
    wanted = {(one.session, key_of(one)) for one in selected}
    return [
        one
        for session in dict.fromkeys(session for session, _ in sorted(wanted))
        for one in map(as_stored, history.measurements(session=session, is_interleaved=False))
        if (session, key_of(one)) in wanted
    ]
