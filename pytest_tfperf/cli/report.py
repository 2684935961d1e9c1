"""`tfperf report`: a session from the history as one HTML page, or its facts as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.cli.arguments import add_command, folder, history_place, moment, open_history
from pytest_tfperf.cli.filters import session_id
from pytest_tfperf.cli.output import show
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.errors import TfperfError, one_of

if TYPE_CHECKING:
    from pytest_tfperf.cli.arguments import Commands
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.past_result import PastResult
    from pytest_tfperf.stores.history import History

_PAGE: Final = Path("tfperf-report.html")
_LATEST = 10  # sessions that an error names


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
        type=moment,
        metavar="TIME",
        help="the latest measurement of each test since a date, time or age: 2026-01-31, 30d",
    )
    which.add_argument("--machine", metavar="NAME", help="the last session of a machine")
    report.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help=f"file to write (default: {_PAGE}; JSON: to stdout)"
    )
    report.add_argument("--format", choices=("html", "json"), default="html", help="html (default) or json")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.report_source import report_source
    from pytest_tfperf.reports.page.facts import ReportSource, report_facts
    from pytest_tfperf.reports.page.render import page
    from pytest_tfperf.stores import atomic
    from pytest_tfperf.stores.baselines import BaselineStore

    is_page = arguments.format == "html"
    path: Path | None = arguments.output or (_PAGE if is_page else None)
    if path is not None:
        atomic.require_writable(path, "-o")
    history = open_history(arguments)
    arguments.session = session_id(history, arguments.session)
    past = history.results()
    if not past:
        raise TfperfError(f"{arguments.history}: nothing was measured here yet; run pytest first, or give --history")
    source = ReportSource(
        measurements=_whole(history, _selected(past, arguments)),
        scope=f"since {arguments.since:%Y-%m-%d %H:%M %Z}" if arguments.since else "",
    )
    facts = report_facts(report_source(source, past, history, BaselineStore(arguments.baselines)))
    found = page(facts) if is_page else json.dumps(facts, indent=1).encode()
    if path is None:
        show(found.decode())
    else:
        atomic.replace(path, found)
        show(f"{facts['headline']}: {path}")
    return EXIT_GREEN


def _selected(past: Sequence[PastResult], arguments: argparse.Namespace) -> list[PastResult]:
    """The results to report: of one session, or the latest of each test since a date; never none.

    The last session is the one that was made last, whatever a clock said that jumped.
    """
    from pytest_tfperf.core.iso_time import moment as parsed
    from pytest_tfperf.reports.page.past import key_of

    if arguments.since:
        in_order = sorted(past, key=lambda one: parsed(one.time))
        latest = {key_of(one): one for one in in_order if parsed(one.time) >= arguments.since}
        if not latest:
            raise TfperfError(
                f"--since: nothing was measured since {arguments.since:%Y-%m-%d %H:%M}; the last result is of "
                f"{in_order[-1].time}"
            )
        return list(latest.values())
    session = arguments.session or ""
    known = list(dict.fromkeys(one.session for one in reversed(past)))
    if session and session not in known:
        raise TfperfError(f"--session: {one_of('session', session, known[:_LATEST])} `tfperf history --csv` has all")
    machines = {one.machine for one in past}
    if arguments.machine and arguments.machine not in machines:
        raise TfperfError(f"--machine: {one_of('machine', arguments.machine, machines)}")
    here = [one for one in past if arguments.machine in (None, one.machine)]
    session = session or here[-1].session
    return [one for one in here if one.session == session]


def _whole(history: History, selected: Iterable[PastResult]) -> list[Measurement]:
    """The measurements behind these results, read session by session; their texts as the columns have them."""
    from pytest_tfperf.reports.page.past import key_of
    from pytest_tfperf.stores.history_rows import as_stored

    wanted = {(one.session, key_of(one)) for one in selected}
    return [
        one
        for session in dict.fromkeys(session for session, _ in sorted(wanted))
        for one in map(as_stored, history.measurements(session=session))
        if (session, key_of(one)) in wanted
    ]
