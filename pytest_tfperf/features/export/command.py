"""`tfperf export`: the history in other programs' formats."""

from __future__ import annotations

import argparse
from pathlib import Path
from shlex import quote

from pytest_tfperf.console.arguments import Commands, add_command, history_place, open_history
from pytest_tfperf.console.filters import history_filters, nothing_left, wanted
from pytest_tfperf.console.output import show
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.export.otava import CONFIGURATION, GROUP, otava_files


def add_to(commands: Commands) -> None:
    """Add the command and a command for each format."""
    export = add_command(
        commands,
        "export",
        None,
        "write the history in another program's format",
        examples=("tfperf export otava -o otava",),
    )
    formats = export.add_subparsers(required=True, metavar="FORMAT")
    otava = add_command(
        formats,
        "otava",
        _otava,
        "write CSV files and a configuration for Apache Otava, which finds change points",
        examples=("tfperf export otava -o otava --since=365d", "cd otava && OTAVA_CONFIG=otava.yaml otava analyze all"),
        parents=[history_place(), history_filters()],
    )
    otava.add_argument("-o", "--output", type=Path, metavar="DIR", required=True, help="folder for the files")


def _otava(arguments: argparse.Namespace) -> int:
    if arguments.output.is_file():
        raise TfperfError(f"-o: {arguments.output} is a file; name a folder")
    history = open_history(arguments)
    part = wanted(arguments, history)
    files = otava_files(history.results(**part))
    if not files:
        raise nothing_left(history, part) or TfperfError(
            "the history holds no result that Otava could read: `tfperf history` shows what was measured"
        )
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (arguments.output / name).write_text(text, encoding="utf-8")
    show(f"cd {quote(str(arguments.output))} && OTAVA_CONFIG={CONFIGURATION} otava analyze {GROUP}")
    return EXIT_GREEN
