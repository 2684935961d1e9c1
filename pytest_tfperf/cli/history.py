"""`tfperf history`: what was measured here, shown or exported."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.cli.arguments import add_command, folder
from pytest_tfperf.cli.output import show, width
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.cli.arguments import Commands
    from pytest_tfperf.stores.history import History


def add_to(commands: Commands) -> None:
    """Add the command."""
    history = add_command(
        commands,
        "history",
        _run,
        "show or export what was measured here",
        examples=(
            "tfperf history",
            "tfperf history --csv > measurements.csv",
            "tfperf history --export --session ID -o session.json",
        ),
        parents=[folder("--dir", ".tfperf", "folder of the history")],
    )
    history.add_argument("--csv", action="store_true", help="print every measurement as CSV")
    history.add_argument("--export", action="store_true", help="write whole measurements as JSON, for `tfperf replay`")
    history.add_argument("--session", metavar="ID", help="export only this session (the table shows the ids)")
    history.add_argument("--test", metavar="NODEID", help="export only this test")
    history.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the export to FILE, not to stdout")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.reports.comparisons import latest_comparisons
    from pytest_tfperf.reports.history import by_workload
    from pytest_tfperf.stores.history import History

    history = History(arguments.dir / "history.sqlite")
    if arguments.export:
        return _export(history, arguments)
    if arguments.session or arguments.test or arguments.output:
        raise TfperfError("--session, --test and -o belong to an export: add --export")
    measured = history.frame()
    if arguments.csv:
        show(measured.to_csv(index=False).rstrip("\n"))
        return EXIT_GREEN
    columns = width()
    names, units = history.names_and_units()
    tables = [by_workload(measured, names, units, columns), latest_comparisons(history.comparisons(), columns)]
    show("\n\n".join("\n".join(lines) for lines in tables if lines) or "nothing was measured here yet")
    return EXIT_GREEN


def _export(history: History, arguments: argparse.Namespace) -> int:
    from pytest_tfperf.stores import measurement_file

    measurements = list(history.measurements(arguments.session, arguments.test))
    if not measurements:
        raise TfperfError("the history holds no such measurement: `tfperf history --csv` lists sessions and tests")
    if arguments.output is None:
        show(measurement_file.render(measurements))
    else:
        measurement_file.write(arguments.output, measurements)
    return EXIT_GREEN
