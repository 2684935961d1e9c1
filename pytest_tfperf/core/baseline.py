"""The committed number that a throughput or another figure is judged against: the `Baseline` and its key."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from pytest_tfperf.core.figure import RATE, SHARE, Figure, is_figure_name, renamed
from pytest_tfperf.errors import BaselineError

MOST_TOLERANCE: Final = 0.5
"""The largest change that a bounded tolerance accepts. A larger number, as 0.95, is meant as the share to keep."""

PUBLISHED_TOLERANCE = 0.05
"""The tolerance in both directions of a published baseline, unless its row has its own."""

_UNIT = re.compile(r"[^\s/,][^/,]{0,39}")
_TOPOLOGY = re.compile(r"[1-9]\d{0,5}x[1-9]\d{0,5}", re.ASCII)


def is_unit(word: object) -> bool:
    """Whether a word can be what a throughput counts: "images" in images/s."""
    return isinstance(word, str) and _UNIT.fullmatch(word) is not None


def require_topology(text: str) -> None:
    """Check that a text reads "nodes x devices per node", as "2x4".

    Raises:
        BaselineError: it does not; gives an example.
    """
    if not _TOPOLOGY.fullmatch(text):
        raise BaselineError(f"topology {text!r}: write nodes x devices per node, as in 2x4")


RUNS: Final = 5
"""Fresh runs of a recorded baseline, if they agree."""

UNDER_LOAD: Final = "recorded under load: "
"""The beginning of a row's note where its runs were disturbed, and the user accepted that."""

READ: Final = "read "
"""The beginning of a figure's note that says where the program printed it: "read at step 400"."""


class Provenance(StrEnum):
    """Where a baseline comes from.

    `published`: a document; `measured`: recorded by `--update-baselines`; `provisional`: earlier sessions of this
    machine, in place of a row that was never recorded. A provisional baseline is never written into a file.
    """

    PUBLISHED = "published"
    MEASURED = "measured"
    PROVISIONAL = "provisional"


class Key(NamedTuple):
    """The key of a row within a machine's file.

    Topology is nodes x devices per node, as in "2x4"; the figure is "" for the throughput.
    """

    workload: str
    topology: str
    figure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A row of `baselines/<machine>.csv`, or a provisional baseline from earlier sessions in its place.

    Raises:
        BaselineError: an invalid value, unit, tolerance, number of runs or spread.
    """

    machine: str  # the file's name without `.csv`
    key: Key  # workload id, topology and figure
    # the throughput over all devices, in units per second, positive; of another figure its value, in its unit
    value: float
    unit: str = "images"  # what is counted, as in `Run`; of another figure its unit, which may be ""
    # the accepted drop as ReFrame writes it, -0.05 for 5 %; -inf for none; None: the default holds
    lower: float | None = None
    upper: float | None = None  # the accepted rise, 0.05 for 5 %; inf for none; None: the default holds
    provenance: Provenance = Provenance.MEASURED
    # the document and the table or section in it, the command that measured, or "3 earlier sessions here"
    source: str = ""
    date: str = ""  # ISO date of the measurement or of the document; for several sessions the first and the last
    runs: int = 1  # fresh runs that the value rests on
    # standard deviation between the runs' log throughputs; of another figure between its values, as a fraction of
    # `value`; None for a single run
    between_runs: float | None = None
    gpu: str = ""  # the GPUs' name, "" on CPUs
    gpu_fp32_tflops: float | None = None  # peak FP32 rate of each GPU, for floors; None on CPUs, or if it is not known
    # name of the requirements file beside the CSV that the reference environment is built from; "" for none
    lock: str = ""
    commit: str = ""  # git commit of the tests' repository at the time of recording; "" if it is not known
    environment: str = ""  # software versions at the time of recording, "tensorflow=2.21.0 keras=3.15.1"
    note: str = ""  # what a reader must know about the figure

    @property
    def is_measured(self) -> bool:
        """Whether `--update-baselines` recorded it."""
        return self.provenance is Provenance.MEASURED

    @property
    def load(self) -> str:
        """The accepted disturbance of its runs: "recorded under load: ..."; "" for none."""
        return self._noted(UNDER_LOAD)

    @property
    def place(self) -> str:
        """Where a program printed the figure, as "at step 400"; "" for a measured figure, or where it is not known."""
        return self._noted(READ).removeprefix(READ)

    def _noted(self, prefix: str) -> str:
        return next((part for part in self.note.split("; ") if part.startswith(prefix)), "")

    def __post_init__(self) -> None:
        is_throughput = not self.key.figure
        if not is_throughput and (self.key.figure == RATE or not is_figure_name(self.key.figure)):
            raise BaselineError(
                f"figure {self.key.figure!r}: write its name as in eval_loss, or nothing for a throughput"
            )
        if not math.isfinite(self.value) or (is_throughput and self.value <= 0):
            what = "a throughput: it must be above 0" if is_throughput else "the value of a figure"
            raise BaselineError(f"value {self.value!r} is not {what}")
        if not is_throughput and (self.lower is not None or self.upper is not None):
            raise BaselineError(f"the tolerance of {self.key.figure} is given in the test: leave lower and upper empty")
        if is_throughput and not is_unit(self.unit):
            raise BaselineError(f"unit {self.unit!r}: write the word for what is counted, as in 'tokens' for tokens/s")
        if self.lower is not None and not (-MOST_TOLERANCE <= self.lower < 0 or self.lower == -math.inf):
            raise BaselineError(
                f"lower {self.lower:g}: write the accepted drop as a negative fraction, -0.05 for 5 %, at most "
                f"{MOST_TOLERANCE:g}, or -inf for any"
            )
        if self.upper is not None and not (0 < self.upper <= MOST_TOLERANCE or self.upper == math.inf):
            raise BaselineError(
                f"upper {self.upper:g}: write the accepted rise as a positive fraction, 0.05 for 5 %, at most "
                f"{MOST_TOLERANCE:g}, or inf for any"
            )
        if self.runs < 1:
            raise BaselineError(f"runs {self.runs!r}: a value rests on at least one run")
        if self.between_runs is not None and not (math.isfinite(self.between_runs) and self.between_runs >= 0):
            raise BaselineError(
                f"between_runs {self.between_runs:g}: a standard deviation is 0 or more, or empty where not known"
            )


@dataclass(frozen=True, slots=True)
class BaselineUpdate:
    """A row that was written, and the row that it replaces, which may be a published one; None for a new row."""

    old: Baseline | None
    new: Baseline


_MOST_BETWEEN_RUNS: Final = 0.1
"""The largest standard deviation between the runs of a throughput's row; recording refuses from 0.08 on."""

_MOST_OF_A_FIGURE: Final = 1.0
"""The largest of any other figure's row, as a fraction of its value, where this is a time, a rate or memory."""

_MOST_NEAR_ZERO: Final = 1e6
"""The largest where the figure may have any sign, so that its mean may be near 0."""

_MOST_RUNS: Final = 9999
_RATES: Final = (1e-6, 1e21)
_TFLOPS: Final = (0.01, 1000.0)
_FIRST_YEAR: Final = 2000

_DATE = re.compile(r"\d{4}(-\d{2})?(-\d{2})?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}(-dirty)?", re.ASCII)
_LOCK = re.compile(r"[^/]+\.lock\.txt")
_FACT = re.compile(r"[^\s=]+=\S+")


def require_plausible(row: Baseline) -> None:
    """Check that the numbers and texts of a committed row make sense, alone and together.

    Provisional baselines, which are never written, need not pass.

    Raises:
        BaselineError: a number or text makes no sense; says what to write.
    """
    _require_reference(row)
    _require_runs(row)
    _require_date(row.date)
    if (rate := row.gpu_fp32_tflops) is not None:
        if not _TFLOPS[0] <= rate <= _TFLOPS[1]:
            raise BaselineError(f"gpu_fp32_tflops {rate:g}: write one GPU's rate in TFLOP/s, as in 10.6, or nothing")
        if not row.gpu:
            raise BaselineError(f"gpu_fp32_tflops {rate:g} without a gpu: write the GPU's name, or leave both empty")
    if row.provenance is Provenance.PUBLISHED and (row.lock or row.commit or not row.source):
        raise BaselineError("provenance published: name the document in source, and leave lock and commit empty")
    if row.lock and not _LOCK.fullmatch(row.lock):
        raise BaselineError(f"lock {row.lock!r}: write the name of a file beside this one, as in box-1e520b95.lock.txt")
    if row.commit and not _COMMIT.fullmatch(row.commit):
        raise BaselineError(f"commit {row.commit!r}: write the hash that git shows, or nothing; a branch would move")
    names = set()
    for fact in row.environment.split():
        name = fact.partition("=")[0]
        if not _FACT.fullmatch(fact):
            raise BaselineError(f"environment: {fact!r} must be NAME=VERSION, as in tensorflow=2.21.0 keras=3.15.1")
        if name in names:
            raise BaselineError(f"environment: {name} is given twice: keep one")
        names.add(name)


def _require_reference(row: Baseline) -> None:
    low, high = _RATES
    size = abs(row.value)
    if size > high or (not row.key.figure and size < low):
        raise BaselineError(f"value {row.value:g} is none that can be measured: correct it, or delete the row")
    if not row.key.figure:
        if not any(map(str.isalpha, row.unit)):
            raise BaselineError(f"unit {row.unit}/s: write the word for what is counted, as in images/s")
        return
    if next_step := renamed(row.key.figure):
        raise BaselineError(f"figure {row.key.figure!r}: no figure has this name any more", next_step=next_step)
    if (figure := Figure(row.key.figure)).is_measured:
        if row.unit != (unit := figure.unit):
            raise BaselineError(f"unit {row.unit!r}: {row.key.figure} is in {unit or 'no unit'}")
        may_be_zero = figure.is_count or unit == SHARE
        if row.value < 0 or (row.value == 0 and not may_be_zero):
            least = "at least" if may_be_zero else "above"
            raise BaselineError(f"value {row.value:g}: {row.key.figure} is {least} 0 {unit}".rstrip())
        if unit == SHARE and row.value > 1:
            raise BaselineError(f"value {row.value:g}: {row.key.figure} is a share, from 0 to 1")


def _require_runs(row: Baseline) -> None:
    if row.runs > _MOST_RUNS:
        raise BaselineError(f"runs {row.runs}: write how many runs the value rests on, {_MOST_RUNS} at most")
    if row.between_runs is None:
        return
    if row.runs == 1:
        raise BaselineError(f"between_runs {row.between_runs:g} of a single run: leave it empty, or correct runs")
    most = _MOST_BETWEEN_RUNS
    if row.key.figure:
        is_positive = row.unit == "bytes" or Figure(row.key.figure, unit=row.unit).with_speed
        most = _MOST_OF_A_FIGURE if is_positive and row.value > 0 else _MOST_NEAR_ZERO
    if row.between_runs > most:
        raise BaselineError(
            f"between_runs {row.between_runs:g} is above {most:g}: write the standard deviation between the runs as a "
            "fraction, 0.02 for 2 %"
        )


def _require_date(text: str) -> None:
    if not text:
        return
    try:
        day = date.fromisoformat((text + "-01-01")[:10]) if _DATE.fullmatch(text) else None
    except ValueError:  # no such day
        day = None
    if day is None or day.year < _FIRST_YEAR:
        raise BaselineError(f"date {text!r}: write the day of the measurement, as in 2026-01-31")
    if day > (today := date.today()) + timedelta(days=1):  # in another time zone it may be tomorrow
        raise BaselineError(f"date {text} is in the future: today is {today}")
