"""`tfperf export`: the history in other programs' formats."""

from __future__ import annotations

import argparse
from pathlib import Path
from shlex import quote

from pytest_tfperf.cli.arguments import Commands, add_command, history_place, open_history
from pytest_tfperf.cli.filters import history_filters, nothing_left, wanted
from pytest_tfperf.cli.output import show
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.document_tables import document_tables
from pytest_tfperf.reports.otava import CONFIGURATION, GROUP, otava_files

_DOCUMENTS = {
    "dgx1": ("tensorpack's DGX-1 tables: ResNet-50 on one to eight GPUs", "perf_tests/test_multigpu.py"),
    "lambda": ("Lambda's nine tables: seven models on four GPUs", "perf_tests/test_lambda.py"),
    "azure": ("Azure's table: ResNet-50 under Horovod on one and two nodes", "perf_tests/test_azure.py"),
}
"""What each document shows, and the tests that measure it."""


def add_to(commands: Commands) -> None:
    """Add the command and a command for each format."""
    export = add_command(
        commands,
        "export",
        None,
        "write the history in another program's format, or in a document's tables",
        examples=("tfperf export otava -o otava", "tfperf export dgx1"),
    )
    formats = export.add_subparsers(required=True, metavar="FORMAT")
    parents = [history_place(), history_filters()]
    otava = add_command(
        formats,
        "otava",
        _otava,
        "write CSV files and a configuration for Apache Otava, which finds change points",
        examples=("tfperf export otava -o otava --since=365d", "cd otava && OTAVA_CONFIG=otava.yaml otava analyze all"),
        parents=parents,
    )
    otava.add_argument("-o", "--output", type=Path, metavar="DIR", required=True, help="folder for the files")
    for name, (what, _) in _DOCUMENTS.items():
        document = add_command(
            formats,
            name,
            _document,
            f"show own results (of the last session, unless others are named) as {what}",
            examples=(f"tfperf export {name}", f"tfperf export {name} --session ID > {name}.md"),
            parents=parents,
        )
        document.set_defaults(document=name)


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


def _document(arguments: argparse.Namespace) -> int:
    history = open_history(arguments)
    part = wanted(arguments, history)
    results = history.results(**part)
    if not results and (error := nothing_left(history, part)):
        raise error
    if all(value is None for value in part.values()):
        results = [one for one in results if one.session == results[-1].session]
    text = document_tables(arguments.document, results)
    if not text:
        _, tests = _DOCUMENTS[arguments.document]
        which = f"session {results[-1].session}" if results else "the history"
        raise TfperfError(
            f"{which} has none of the figures of this document. Run pytest {tests}, or name a session that did: "
            "--session ID (`tfperf history --csv` lists them)"
        )
    show(text)
    return EXIT_GREEN
