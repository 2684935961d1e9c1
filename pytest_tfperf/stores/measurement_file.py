"""Exported measurements: one JSON object that `tfperf history --export` writes and `tfperf replay` reads.

{"version": 1, "measurements": [{"test": ..., "runs": [...], ...}, ...]}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_tfperf.core.run import Run

VERSION: Final = 1

_NEXT = "export it again: tfperf history --export -o FILE"
_MAX = 1e12  # of anything that is counted or timed here
_MAX_LOG = 100  # of differences of logarithms: exp() of a hundred times as much would overflow


def render(measurements: Iterable[Measurement]) -> str:
    """The file's text; one line for each measurement."""
    lines = ",\n".join(json.dumps(measurement.to_json()) for measurement in measurements)
    return f'{{"version": {VERSION}, "measurements": [\n{lines}\n]}}\n'


def write(path: Path, measurements: Iterable[Measurement]) -> None:
    """Write the file in one step, in the place of an earlier one.

    Raises:
        TfperfError: it can't be written.
    """
    try:
        atomic.replace(path, render(measurements).encode())
    except OSError as error:
        raise TfperfError(f"{path} can't be written: {error.strerror}. Name another file: -o FILE") from None


def is_measurement_file(path: Path) -> bool:
    """Whether a file is JSON by its first character, and so not a log; False for what can't be read."""
    try:
        with path.open("rb") as file:
            return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    except OSError:
        return False


def read(path: Path) -> tuple[Measurement, ...]:
    """The measurements of a file, in their order.

    Raises:
        TfperfError: it can't be read, is cut off, or holds a field or figure that no measurement has; names file, place
            and next step.
    """
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise TfperfError(f"{path} can't be read: {error.strerror}. Give the path of a file") from None


def parse(data: bytes, name: str) -> tuple[Measurement, ...]:
    """`read` for a file's bytes; `name` is the file, for messages."""
    whole = _json(data, name)
    version = whole.get("version")
    if isinstance(version, int) and version > VERSION:
        raise TfperfError(f"{name}: a newer pytest-tfperf wrote this file (version {version}): upgrade pytest-tfperf")
    if version != VERSION or not isinstance(whole.get("measurements"), list) or len(whole) != 2:
        raise TfperfError(f'{name}: not an export of pytest-tfperf ("version": 1 and "measurements"): {_NEXT}')
    found = []
    for index, value in enumerate(whole["measurements"]):
        place = f"{name}: measurements[{index}]"
        try:
            measurement = Measurement.from_json(value, place)
        except TfperfError as error:
            raise TfperfError(f"{error}: {_NEXT}") from None
        for fault in _faults(measurement):
            raise TfperfError(f"{place}{fault}: {_NEXT}")
        found.append(measurement)
    return tuple(found)


def _json(data: bytes, name: str) -> dict[str, Any]:
    try:
        whole = json.loads(data)
    except json.JSONDecodeError as error:
        raise TfperfError(f"{name}, line {error.lineno}: cut off or damaged ({error.msg}): {_NEXT}") from None
    except (ValueError, RecursionError):  # not UTF-8, a number of a million digits, brackets without end
        raise TfperfError(f"{name}: not JSON: {_NEXT}") from None
    return whole if isinstance(whole, dict) else {}


def _faults(measurement: Measurement) -> Iterator[str]:
    """Figures that have the right type and that no run can give; judging them would divide by 0 or overflow."""
    if not (measurement.runs or measurement.discarded):
        yield ": neither runs nor discarded runs"
    for field in ("runs", "discarded"):
        for index, run in enumerate(getattr(measurement, field)):
            yield from (f".{field}[{index}]: {fault}" for fault in _faults_of_run(run))
    for index, pair in enumerate(measurement.pairs):
        if not (abs(pair.log_ratio) < _MAX_LOG and pair.error >= 0):
            yield f".pairs[{index}]: a log_ratio of {pair.log_ratio!r} with an error of {pair.error!r}"
    if (verdict := measurement.verdict) is not None:
        if verdict.tests < 1 or not abs(verdict.common_drift) < _MAX_LOG:
            yield ".verdict: tests is a count from 1, common_drift a difference of logarithms"
        if (noise := verdict.noise) and not (0 <= noise.between_runs <= _MAX_LOG and noise.degrees_of_freedom > 0):
            yield f".verdict.noise: between_runs is from 0 to {_MAX_LOG}, degrees_of_freedom above 0"


def _faults_of_run(run: Run) -> Iterator[str]:
    if not run.windows:
        yield "no windows"
    if not 1 <= run.images_per_step <= _MAX:
        yield f"images_per_step {run.images_per_step!r} is not a count from 1"
    if run.stated_images_per_sec is not None and not 0 < run.stated_images_per_sec < _MAX:
        yield f"stated_images_per_sec {run.stated_images_per_sec!r} is not a throughput"
    for index, window in enumerate(run.windows):
        if not (1 <= window.steps <= _MAX and 1 / _MAX < window.seconds < _MAX):
            yield f"windows[{index}]: {window.steps} steps in {window.seconds} seconds"
