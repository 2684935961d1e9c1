"""The history in another program's format.

For teams that watch their figures with Apache Otava.
`tfperf export`; a session is not touched.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from pytest_tfperf.console.arguments import (
    Commands,
    add_command,
    history_filters,
    history_place,
    nothing_left,
    open_history,
    wanted,
)
from pytest_tfperf.console.output import show
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.past import PastResult, moment
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import csv_cell, one_line


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
    files = otava_files([*history.results(**part), *history.figure_results(**part)])
    if not files:
        raise nothing_left(history, part) or TfperfError(
            "the history holds no result that Otava could read: `tfperf history` shows what was measured"
        )
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (arguments.output / name).write_text(text, encoding="utf-8")
    show(f"cd {quote(str(arguments.output))} && OTAVA_CONFIG={CONFIGURATION} otava analyze {GROUP}")
    return EXIT_GREEN


CONFIGURATION: Final = "otava.yaml"
GROUP: Final = "all"
"""Otava's name for all series together."""

_RATE = "examples_per_sec"


def otava_files(results: Iterable[PastResult]) -> dict[str, str]:
    """File name -> text; empty if no result can be used.

    A series is one workload on one topology of one machine, or one of its figures, oldest first. INVALID results, and
    those with an injected slowdown, are left out: they do not show how fast the software is. So are those in another
    unit than the latest.
    """
    series: dict[str, list[PastResult]] = {}
    for one in results:
        is_figure = math.isfinite(one.value) and one.outcome is not Outcome.INVALID
        if is_figure and not one.is_slowed_on_purpose:
            name = "/".join(filter(None, (one.machine, *one.key)))
            series.setdefault(one_line(name), []).append(one)
    if not series:
        return {}
    files = {_file(name): _csv(_of_one_unit(found)) for name, found in series.items()}
    return files | {CONFIGURATION: _configuration({name: series[name][-1] for name in sorted(series)})}


def _of_one_unit(results: Iterable[PastResult]) -> list[PastResult]:
    in_order = sorted(results, key=lambda one: moment(one.time))
    return [one for one in in_order if one.is_like(in_order[-1])]


def _configuration(series: Mapping[str, PastResult]) -> str:
    """The configuration as JSON, which is valid YAML; each series by its last result.

    Otava knows two directions. Of a figure that should stay the same, it calls a rise a regression.
    """
    tests = {
        name: {
            "type": "csv",
            "file": _file(name),
            "time_column": "time",
            "attributes": ["commit", "session"],
            "metrics": {
                _metric(last): {"column": _column(last), "direction": 1 if last.better is Better.HIGHER else -1}
            },
        }
        for name, last in series.items()
    }
    return json.dumps({"tests": tests, "test_groups": {GROUP: list(series)}}, indent=2, ensure_ascii=False) + "\n"


def _metric(one: PastResult) -> str:
    return one.key.figure or _RATE


def _column(one: PastResult) -> str:
    """A figure may be called as another column is."""
    return "value" if one.figure else _RATE


def _csv(results: Sequence[PastResult]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("time", _column(results[-1]), "commit", "session", "test"))
    columns = ("time", "value", "commit", "session", "test")
    rows.writerows([csv_cell(getattr(one, column)) for column in columns] for one in results)
    return text.getvalue()


def _file(series: str) -> str:
    """A readable file name that is unique even if only special characters of two series differ."""
    return f"{re.sub(r'[^A-Za-z0-9.-]+', '-', series)[:100]}-{hashlib.sha256(series.encode()).hexdigest()[:8]}.csv"
