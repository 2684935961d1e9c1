"""Exported measurements: a JSON file that `tfperf history --export` writes and `tfperf replay` reads.

{"version": 1, "measurements": [{"test": ..., "runs": [...], ...}, ...]}

A history's tables keep measurements in the same form. The document of a session (stores/documents.py) has them, too,
beside the session's rows; where it travels, gzip compresses it, and the runs have no windows.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.stores import files
from pytest_tfperf.stores.kept import require_version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_tfperf.core.run import Run

_HEAD = 1000  # characters, which contain "measurements", the first or second name, in any formatting

VERSION: Final = 1
"""The version of these files; added fields, which have defaults, don't change it."""

IMPOSSIBLE: Final = "no runs or pairs, a run without a rate, or a figure that no run gives"
_MOST_LOG: Final = 100.0  # of a rate or its error, as a logarithm: a factor of 1e43
_NEXT = "export it again: tfperf history --export -o FILE"
_NEWER = "or upgrade pytest-tfperf, if a newer version wrote it"


def render(measurements: Iterable[Measurement]) -> str:
    """Return the file's text, a line for each measurement."""
    lines = ",\n".join(json.dumps(plain(measurement)) for measurement in measurements)
    return f'{{"version": {VERSION}, "measurements": [\n{lines}\n]}}\n'


def write(path: Path, text: str) -> None:
    """Write a file's text atomically; an earlier file is replaced.

    Raises:
        TfperfError: it can't be written.
    """
    with worded(path, "written", "Name another file: -o FILE"):
        files.replace(path, text.encode())


def is_measurement_file(text: str) -> bool:
    """Whether a text is an export, complete or cut off; other JSON, such as Docker's, may contain a log."""
    return text.lstrip().startswith("{") and '"measurements"' in text[:_HEAD]


def read(path: Path) -> tuple[Measurement, ...]:
    """Return the measurements of a file, in order.

    Raises:
        TfperfError: it can't be read, is cut off, or has a damaged field or a newer version; names place and next step.
    """
    return parse(files.read(path), files.shown(path))


def parse(text: str, name: str, *, with_windows: bool = False) -> tuple[Measurement, ...]:
    """Parse a file's text as `read` does; `name` is the file, for messages."""
    try:
        whole = plain_json.from_json(text)
    except json.JSONDecodeError as error:
        raise TfperfError(f"{name}, line {error.lineno}: cut off or damaged ({error.msg}): {_NEXT}") from None
    except ValueError as error:
        raise TfperfError(f"{name}: no export of pytest-tfperf: {error}: {_NEXT}") from None
    if not isinstance(whole, dict) or not isinstance(whole.get("measurements"), list):
        raise TfperfError(f'{name}: not an export of pytest-tfperf ("version": 1 and "measurements"): {_NEXT}')
    again = "export it with this one: tfperf history --export -o FILE"
    require_version(whole.get("version"), name, newest=VERSION, otherwise=again)
    measurements = []
    for index, value in enumerate(whole["measurements"]):
        place = f"{name}: measurements[{index}]"
        try:
            measurement = build(Measurement, value, place, newer=True)
        except TfperfError as error:
            raise TfperfError(f"{error}: {_NEXT}, {_NEWER}") from None
        if not is_possible(measurement):
            raise TfperfError(f"{place}: {IMPOSSIBLE}: {_NEXT}")
        if with_windows and not has_windows(measurement):
            raise TfperfError(f"{place} came from another machine, without its windows: {_NEXT} there")
        measurements.append(measurement)
    return tuple(measurements)


def is_possible(measurement: Measurement) -> bool:
    """Whether it has runs, windows that take time if any, and finite figures, unlike damaged or edited files."""
    pairs = [run for pair in (*measurement.pairs, *measurement.discarded_pairs) for run in (pair.a, pair.b)]
    runs = [*measurement.runs, *measurement.discarded]
    counted = pairs if measurement.other else runs
    has_ratio = measurement.other is None or bool(measurement.verdicts)
    values = [value for run in measurement.throughput.runs for value in (run.log_rate, run.error)]
    # The error of a single window is infinite, because it is unknown.
    is_sane = all(abs(value) <= _MOST_LOG or value == math.inf for value in values)
    is_sane = is_sane and 0 < measurement.throughput.examples_per_sec < math.inf
    return bool(counted) and has_ratio and is_sane and all(map(_takes_time, [*runs, *pairs]))


def _takes_time(run: Run) -> bool:
    stated = run.stated_examples_per_sec
    positive = [run.examples_per_step, *(w.steps for w in run.windows), *(w.seconds for w in run.windows)]
    has_rate = bool(run.windows) if stated is None else 0 < stated < math.inf
    return has_rate and all(0 < value < math.inf for value in positive)


def has_windows(measurement: Measurement) -> bool:
    """Whether its runs have windows, which don't travel with the document of a session."""
    runs = [*measurement.runs, *(run for pair in measurement.pairs for run in (pair.a, pair.b))]
    return all(run.windows for run in runs)
