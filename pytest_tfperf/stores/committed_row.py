"""What must hold of a row that is committed: people edit these files, and a number that makes no sense blinds a gate.

The noun itself (`core/baseline.py`) refuses what no row can be, provisional ones included.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import date, timedelta
from typing import Final

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.errors import BaselineError

MOST_BETWEEN_RUNS: Final = 0.1
"""The largest standard deviation between the runs of a throughput's row: recording refuses from 0.08 on."""

_MOST_OF_A_FIGURE: Final = 1.0
"""The same of a figure's row, as a fraction of its reference, where the figure is a time, a rate or memory."""

_MOST_NEAR_ZERO: Final = 1e6
"""The same where a figure may have any sign: its mean may be near 0."""

_MOST_RUNS: Final = 9999
_RATES: Final = (1e-6, 1e21)
_TFLOPS: Final = (0.01, 1000.0)
_FIRST_YEAR: Final = 2000

_DATE = re.compile(r"\d{4}(-\d{2})?(-\d{2})?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}(-dirty)?", re.ASCII)
_LOCK = re.compile(r"[^/]+\.lock\.txt")
_FACT = re.compile(r"[^\s=]+=\S+")


def require_plausible(row: Baseline, today: date | None = None) -> None:
    """Return if each number and text of a row makes sense, by itself and beside the others.

    Args:
        row: is or will be a line of a baselines file.
        today: the date; None for the system's.

    Raises:
        BaselineError: one does not; says what to write.
    """
    _require_reference(row)
    _require_runs(row)
    _require_date(row.date, today or date.today())
    _require_gpu(row)
    if row.provenance is Provenance.PUBLISHED and (row.lock or row.commit or not row.source):
        raise BaselineError("provenance published: name the document in source, and leave lock and commit empty")
    if row.lock and not _LOCK.fullmatch(row.lock):
        raise BaselineError(f"lock {row.lock!r}: write the name of a file beside this one, as in box-1e520b95.lock.txt")
    if row.commit and not _COMMIT.fullmatch(row.commit):
        raise BaselineError(f"commit {row.commit!r}: write the hash that git shows, or nothing; a branch would move")
    _require_environment(row.environment)


def _require_reference(row: Baseline) -> None:
    low, high = _RATES
    size = abs(row.reference)
    if size > high or (not row.key.figure and size < low):
        raise BaselineError(f"reference {row.reference:g} is none that can be measured: correct it, or delete the row")
    if not row.key.figure:
        if not any(map(str.isalpha, row.unit)):
            raise BaselineError(f"unit {row.unit}/s: write the word for what is counted, as in images/s")
        return
    if (figure := Figure(row.key.figure)).is_measured:
        if row.unit != (unit := figure.unit):
            raise BaselineError(f"unit {row.unit!r}: {row.key.figure} is in {unit or 'no unit'}")
        if row.reference <= 0:
            raise BaselineError(f"reference {row.reference:g}: {row.key.figure} is above 0 {unit}".rstrip())


def _require_runs(row: Baseline) -> None:
    if row.runs > _MOST_RUNS:
        raise BaselineError(f"runs {row.runs}: write how many runs the reference rests on, {_MOST_RUNS} at most")
    if row.between_runs is None:
        return
    if row.runs == 1:
        raise BaselineError(f"between_runs {row.between_runs:g} of a single run: leave it empty, or correct runs")
    most = _most_between_runs(row)
    if row.between_runs > most:
        raise BaselineError(
            f"between_runs {row.between_runs:g} is above {most:g}: write the standard deviation between the runs as a "
            "fraction, 0.02 for 2 %"
        )


def _most_between_runs(row: Baseline) -> float:
    """The largest standard deviation, as a fraction of the reference, that its runs can have."""
    if not row.key.figure:
        return MOST_BETWEEN_RUNS
    is_positive = row.unit == "bytes" or Figure(row.key.figure, unit=row.unit).with_speed
    return _MOST_OF_A_FIGURE if is_positive and row.reference > 0 else _MOST_NEAR_ZERO


def _require_date(text: str, today: date) -> None:
    if not text:
        return
    try:
        day = date.fromisoformat((text + "-01-01")[:10]) if _DATE.fullmatch(text) else None
    except ValueError:  # no such day
        day = None
    if day is None or day.year < _FIRST_YEAR:
        raise BaselineError(f"date {text!r}: write the day of the measurement, as in 2026-01-31")
    if day > today + timedelta(days=1):  # elsewhere it may be tomorrow
        raise BaselineError(f"date {text} is in the future: today is {today}")


def _require_gpu(row: Baseline) -> None:
    rate, (low, high) = row.gpu_fp32_tflops, _TFLOPS
    if rate is None:
        return
    if not low <= rate <= high:
        raise BaselineError(f"gpu_fp32_tflops {rate:g}: write one GPU's rate in TFLOP/s, as in 10.6, or nothing")
    if not row.gpu:
        raise BaselineError(f"gpu_fp32_tflops {rate:g} without a gpu: write the GPU's name, or leave both empty")


def _require_environment(text: str) -> None:
    facts = text.split()
    if strange := [fact for fact in facts if not _FACT.fullmatch(fact)]:
        raise BaselineError(f"environment: {strange[0]!r} must be NAME=VERSION, as in tensorflow=2.21.0 keras=3.15.1")
    counts = Counter(fact.partition("=")[0] for fact in facts)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise BaselineError(f"environment: {twice[0]} is given twice: keep one")
