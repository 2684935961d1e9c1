"""`tfperf report`: a session from the history as one HTML page, a site of several files, or its facts as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.console.arguments import (
    Commands,
    Group,
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
from pytest_tfperf.core.past import Value
from pytest_tfperf.core.session_verdicts import SessionResult, SessionVerdict
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page import site as site_folder
from pytest_tfperf.reports.verdict import sides
from pytest_tfperf.stores import files
from pytest_tfperf.stores.baseline_file import BaselineStore

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import Filters, History

_PAGE: Final = Path("tfperf-report.html")


def add_to(commands: Commands) -> None:
    """Add the command."""
    report = add_command(
        commands,
        _run,
        "report: write an HTML page or a site about a session and its history. --format=json prints its facts",
        group=Group.EVERY_DAY,
        examples=(
            "tfperf report",
            "tfperf report --machine NAME -o nightly.html",
            "tfperf report --since 30d",
            "tfperf report --site public",
            "tfperf report --session ID --format json > facts.json",
        ),
        parents=[history_place(), folder(Settings.baselines, "folder of the baselines, for the documents' figures")],
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
    where = report.add_mutually_exclusive_group()
    where.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help=f"file to write (default: {_PAGE}; JSON: to stdout)"
    )
    where.add_argument(
        "--site",
        type=Path,
        metavar="DIR",
        help="write a site to this folder, for a web server or as an artifact: index.html, and a file for each test "
        "that is loaded when its row is opened (default: the last session of each machine)",
    )
    report.add_argument("--format", choices=("html", "json"), default="html", help="html (default) or json")


def _run(arguments: argparse.Namespace) -> int:
    # They import NumPy and Jinja2.
    from pytest_tfperf.features.page.facts import as_json
    from pytest_tfperf.features.page.render import page, site

    is_page = arguments.format == "html"
    path: Path | None = arguments.site or arguments.output or (_PAGE if is_page else None)
    if arguments.site is not None:
        if not is_page:
            raise TfperfError("a site is HTML", next_step="Leave out --site, or --format json")
        site_folder.require_own(arguments.site)
    elif path is not None:
        files.require_writable(path, "-o")
    facts = _facts(arguments)
    if path is None:
        show_file(as_json(facts).decode())
        return EXIT_GREEN
    if arguments.site is not None:
        site_folder.write(path, site(facts))
        path /= "index.html"
    else:
        files.replace(path, page(facts) if is_page else as_json(facts))
    show(f"{facts['headline']}: {path}")
    return EXIT_GREEN


def _facts(arguments: argparse.Namespace) -> dict[str, Any]:
    from pytest_tfperf.features.page.facts import report_facts
    from pytest_tfperf.features.page.past import read_past

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
    return report_facts(
        result,
        read_past(history, result, arguments.since),
        BaselineStore(arguments.baselines).published(),
        scope=f"since {arguments.since:%Y-%m-%d %H:%M %Z}" if arguments.since else "",
    )


def _selected(history: History, arguments: argparse.Namespace) -> tuple[list[Value], list[Measurement]]:
    """Select the latest result of each test since a date, or all results of a session.

    By default that is the last session, and for a site the last session of each machine; one that only compared counts
    there if the machine never measured without another side.
    """
    session = session_id(history, arguments.session)
    part: Filters = {"session": session, "machine": arguments.machine, "since": arguments.since}
    parts = [part] if session is not None else []
    if arguments.since:
        results = [result for result in history.latest() if result.at >= arguments.since.timestamp()]
        compared = history.comparisons(**part)
        interleaved = list({(m.machine, m.test, m.topology, *sides(m)): m for m in compared}.values())
    else:
        if session is None:
            is_site = arguments.site is not None
            machines = history.values_of("machine") if is_site and arguments.machine is None else [arguments.machine]
            for machine in machines:
                alone = history.newest_sessions(machine, alone_only=True) if is_site else ()
                last = next((id for id, _ in chain(alone, history.newest_sessions(machine))), None)
                parts.append({**part, "session": last, "machine": machine})
        of_rates: list[Filters] = [{**part, "figure": ""} for part in parts]
        results = [value for part in of_rates for value in history.values(**part)]
        beside: list[Filters] = [{**part, "is_interleaved": True} for part in parts]
        interleaved = [m for part in beside for m in history.measurements(**part)]
    if not results and not interleaved:
        raise nothing_left(history, part) or TfperfError(
            f"{arguments.history}: nothing was measured here yet; run pytest first, or give --history"
        )
    return results, interleaved


def _verdicts(history: History, selected: Iterable[Value], interleaved: Iterable[Measurement]) -> list[SessionVerdict]:
    """Return the verdicts on the last of these sessions of each machine as a whole.

    A session that only compared counts if none of the machine measured without another side.
    """
    last = {m.machine: m.session for m in interleaved} | {result.machine: result.session for result in selected}
    return [
        verdict for machine, session in last.items() for verdict in history.verdicts(session=session, machine=machine)
    ]


def _whole(history: History, selected: Iterable[Value]) -> list[Measurement]:
    """Return the whole measurements of these results, read session by session."""
    from pytest_tfperf.features.page.past import key_of

    wanted = {(result.session, key_of(result)) for result in selected}
    return [
        m
        for session in sorted({session for session, _ in wanted})
        for m in history.measurements(session=session, is_interleaved=False)
        if (session, key_of(m)) in wanted
    ]
