"""`tfperf history`: show or export measurements; features add actions."""

from __future__ import annotations

import argparse
import statistics
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.console.arguments import (
    Commands,
    Group,
    add_command,
    history_filters,
    history_place,
    nothing_left,
    open_history,
    wanted,
)
from pytest_tfperf.console.output import show, show_csv, show_file, show_json, width
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.past import Value
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.measurement_table import latest_interleaved
from pytest_tfperf.reports.numbers import change, rate
from pytest_tfperf.reports.table import Columns, paragraphs, shown_names, table
from pytest_tfperf.stores import documents, measurement_file

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import Filters, History


def add_to(commands: Commands) -> Commands:
    """Add the command; returns the subparsers to which features add its actions."""
    history = add_command(
        commands,
        _run,
        "history: show or export what was measured",
        group=Group.EVERY_DAY,
        examples=(
            "tfperf history",
            "tfperf history --machine=dgx1-p100 --since=30d",
            "tfperf history --csv > measurements.csv",
            "tfperf history --session=latest --json",
            "tfperf history --export --session ID -o session.json",
        ),
        parents=[history_place(), history_filters()],
    )
    action = history.add_mutually_exclusive_group()
    action.add_argument("--csv", action="store_true", help="print every measurement as CSV")
    action.add_argument("--json", action="store_true", help="print every measurement as JSON, with the fields of --csv")
    action.add_argument(
        "--export", action="store_true", help="write whole measurements as JSON, for `tfperf replay` and `import`"
    )
    history.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the export to FILE, not to stdout")
    actions: Commands = history.add_subparsers(metavar="ACTION")
    return actions


def _run(arguments: argparse.Namespace) -> int:
    if arguments.output and not arguments.export:
        raise TfperfError("-o belongs to an export: add --export")
    history = open_history(arguments)
    if arguments.export:
        return _export(history, arguments)
    return _show(history, arguments)


def _show(history: History, arguments: argparse.Namespace) -> int:
    part = wanted(arguments, history)
    if arguments.csv:
        from pytest_tfperf.stores.history import COLUMNS

        show_csv(COLUMNS, history.rows(**part))
        return EXIT_GREEN
    if arguments.json:
        show_json(plain(list(history.rows(**part))))
        return EXIT_GREEN
    columns = width()
    of_rates: Filters = {**part, "figure": ""}
    alone = by_workload(
        history.values(**of_rates), columns, lambda last: history.values(session=last.session, test=last.test)
    )
    compared = latest_interleaved(history.comparisons(**part), columns)
    if not alone and not compared:
        if error := nothing_left(history, part):
            raise error
        show("nothing was measured here yet")
        return EXIT_GREEN
    show(*paragraphs(alone, map(str, compared)))
    return EXIT_GREEN


def _export(history: History, arguments: argparse.Namespace) -> int:
    part = wanted(arguments, history)
    alone: Filters = {**part, "is_interleaved": False}
    measurements = list(history.measurements(**alone))
    if not measurements:
        raise nothing_left(history, alone) or TfperfError("nothing was measured here yet")
    others = {name for name, value in part.items() if value is not None} - {"session", "machine"}
    of_session = [] if others else documents.numbers_of(history.database, part["session"], part["machine"])
    if len(of_session) == 1:  # a whole session, which `import` can add to another history
        text = documents.exported(history.database, of_session[0], history.unread)
    else:
        text = measurement_file.render(measurements)
    if arguments.output is None:
        show_file(text)
    else:
        measurement_file.write(arguments.output, text)
    return EXIT_GREEN


_COLUMNS = Columns(
    right={"measured", "median", "last", "change"},
    optional=("median", "when", "session", "machine", "measured"),
    ids=("workload",),
)


def by_workload(
    results: Iterable[Value], width: int | None = None, figures_of: Callable[[Value], Iterable[Value]] = lambda _: ()
) -> list[str]:
    """A table with a line for each machine, workload and topology.

    The outcome is that of the last test, with its figure where the throughput's outcome differs. `change` is the last
    measurement against the median of all measurements of its unit that are valid and not slowed on purpose. Name, unit,
    session and time are those of the last measurement.

    Args:
        results: in order; they are read once, and not kept.
        width: the terminal's, None for no limit.
        figures_of: the figures of a result's test in its session.
    """
    values: dict[tuple[str, str, str], dict[tuple[str, bool], array[float]]] = defaultdict(dict)
    lasts: dict[tuple[str, str, str], Value] = {}
    named: dict[tuple[str, str], None] = {}
    for result in results:
        group = result.machine, result.workload, result.topology
        is_valid = result.outcome is not Outcome.INVALID and not result.is_slowed_on_purpose
        values[group].setdefault((result.unit, is_valid), array("d")).append(result.value)
        lasts[group] = result
        named[result.workload, result.name] = None
    names = shown_names(named)
    rows = []
    for (machine, workload, topology), measured in sorted(values.items()):
        last = lasts[machine, workload, topology]
        # Values that are INVALID or slowed on purpose count only where there are no others.
        median = statistics.median(measured.get((last.unit, True)) or measured[last.unit, False])
        figures = figures_of(last) if last.test_outcome != last.outcome_word else ()
        to_blame = (
            each
            for each in figures
            if each.series.figure and each.number == last.number and str(each.outcome) == last.test_outcome
        )
        figure = next((shown_name(each.key.figure) for each in to_blame), None)
        rows.append(
            {
                "outcome": f"{last.test_outcome or 'measured'}{f' ({figure})' if figure else ''}",
                "machine": machine,
                "workload": names[workload, last.name],
                "topology": topology,
                "measured": str(sum(map(len, measured.values()))),
                "median": rate(median),
                "last": rate(last.value),
                "unit": f"{last.unit}/s",
                "change": change(last.value / median - 1),
                "when": last.time,
                "session": last.session,
            }
        )
    return table(rows, _COLUMNS, width)
