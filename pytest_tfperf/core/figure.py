"""Figures: the numbers of a run that a test is judged by. Throughput is the first; a `Figure` describes any other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pytest_tfperf.errors import WorkloadError, known_names, unknown

RATE: Final = "throughput"
PEAK_MEMORY: Final = "peak_memory"
FIRST_STEP: Final = "first_step"
LOSS: Final = "loss"
RETRACES: Final = "retraces"

_TIMES: Final = ("us", "ms", "s", "min", "h")
_PER_TIME: Final = ("/s", "/min", "/h")

FIXED_STEP: Final = 10
"""The step whose loss a workload is judged by, and up to which its traces are counted.

Every run reaches it, because it belongs to the warm-up. How many steps a run takes in all depends on their speed.
"""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)


def is_figure_name(text: object) -> bool:
    """Whether a text can be a figure's name, which is a cell of a baselines file."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


class Better(StrEnum):
    """The direction in which a figure is better; `same`: any change is bad."""

    LOWER = "lower"
    HIGHER = "higher"
    SAME = "same"


class Takes(StrEnum):
    """The value that counts of those that a program prints."""

    FIRST = "first"
    LAST = "last"
    MEDIAN = "median"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that a check is judged by beside its throughput.

    A change fails only if it exceeds both the relative and the absolute tolerance: a nearly constant figure must not
    fail for one page of memory more. Arguments that are left out have the built-in figure's own defaults.

    Args:
        name: `peak_memory`, `first_step`, `loss`, `retraces`, or the user's own; the key of its baseline.
        unit: the unit of its values: "bytes", "s", or the user's word; "" for none.
        better: the direction in which it is better. The default is "lower".
        tolerance: the accepted change as a fraction, 0.05 for 5 %, which is the default.
        absolute: the change in the figure's unit that is accepted in any case. The default is 0.
        limit: the highest allowed value, or the lowest where higher is better; it needs no baseline.
        field: of a program: the field of JSON lines that holds it; "eval.loss" for `loss` inside of `eval`.
        pattern: of a program: a regular expression with one named group, which holds it.
        takes: of a program that prints it several times: the "first" value, the "last" or the "median".
        at_step: of a program: the step up to which values count. The last value is then that of this step, interpolated
            between the two nearest printed steps.

    Raises:
        WorkloadError: an argument that is not allowed; says what to write.
    """

    name: str
    unit: str | None = None
    better: Better | str | None = None
    tolerance: float | None = None
    absolute: float | None = None
    limit: float | None = None
    field: str = ""
    pattern: str = ""
    takes: Takes | str = Takes.LAST
    at_step: int | None = None

    def __post_init__(self) -> None:
        if not is_figure_name(self.name):
            raise WorkloadError(
                f"Figure({self.name!r:.80}): the name must be at most 40 lower-case letters, digits and '_', as in "
                "'eval_loss': it is the key of a baseline"
            )
        for name in ("unit", "better", "tolerance", "absolute"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(self.definition, name))
        for name, kind in (("better", Better), ("takes", Takes)):
            if getattr(self, name) not in list(kind):
                given = getattr(self, name)
                raise WorkloadError(f"{self.name}: {unknown(name, given)}", next_step=known_names(given, tuple(kind)))
            object.__setattr__(self, name, kind(getattr(self, name)))
        self._require_texts()
        self._require_place()
        self._require_number("tolerance", lambda x: 0 <= x < 1, "a fraction from 0 to below 1, 0.05 for 5 %")
        self._require_number("absolute", lambda x: 0 <= x < math.inf, f"a number from 0, in {self.unit or 'its unit'}")
        if self.limit is not None:
            self._require_number("limit", math.isfinite, "a finite number")
        is_noisy = not self.definition.is_count
        if is_noisy and not (self.tolerance or self.absolute or self.limit is not None):
            raise WorkloadError(f"{self.name}: tolerance and absolute are both 0, so noise would fail it: give one")

    @property
    def with_speed(self) -> int:
        """Its relation to the machine's speed: 1 for a rate, -1 for a time, 0 for any other figure."""
        unit = self.unit or ""
        return -1 if unit in _TIMES else 1 if unit.endswith(_PER_TIME) else 0

    def _require_texts(self) -> None:
        for name in ("unit", "field", "pattern"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.isprintable():
                raise WorkloadError(f"{self.name}: {name}={text!r:.80} must be a line of text")
        if self.field and self.pattern:
            raise WorkloadError(f"{self.name}: field and pattern are given: give the one that tells it")
        if (self.field or self.pattern) and self.is_measured:
            raise WorkloadError(f"{self.name} is measured, and not read from the output: leave field and pattern out")
        if self.pattern:
            try:
                groups = re.compile(self.pattern).groupindex
            except (re.error, RecursionError, OverflowError) as error:
                raise WorkloadError(
                    f"{self.name}: pattern={self.pattern!r} is no regular expression: {error}"
                ) from None
            if len(groups) != 1:
                raise WorkloadError(
                    f"{self.name}: pattern={self.pattern!r} must have one named group, as in "
                    rf"r'eval loss (?P<{self.name}>\S+)'"
                )

    def _require_place(self) -> None:
        is_given = self.at_step is not None or self.takes is not Takes.LAST
        if is_given and self.is_measured:
            raise WorkloadError(f"{self.name} is measured, and not read from the output: leave takes and at_step out")
        if self.at_step is None:
            return
        if type(self.at_step) is not int or self.at_step < 1:
            raise WorkloadError(f"{self.name}: at_step={self.at_step!r:.80} must be a whole number from 1")
        if self.takes is Takes.FIRST:
            raise WorkloadError(f"{self.name}: the first value is the same at each step: leave takes or at_step out")

    def _require_number(self, name: str, allows: Callable[[float], bool], what: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not allows(value):
            raise WorkloadError(f"{self.name}: {name}={value!r:.80} must be {what}")

    @property
    def definition(self) -> BuiltIn:
        """The definition of a built-in figure, or the defaults of users' figures."""
        return _BUILT_IN.get(self.name, _OF_USERS)

    @property
    def words(self) -> Mapping[str, str]:
        """A message's words for the figure and its changes, by placeholder."""
        return _WORDS_OF_RATE if self.name == RATE else _WORDS

    @property
    def is_built_in(self) -> bool:
        """Whether this package defines it."""
        return self.name in _BUILT_IN

    @property
    def is_measured(self) -> bool:
        """Whether it is measured, and not read from a program's output."""
        return self.definition.is_measured

    @property
    def is_read(self) -> bool:
        """Whether its own field or pattern reads it from a program's output."""
        return bool(self.field or self.pattern)

    @property
    def needs_the_end(self) -> bool:
        """Whether its value depends on where a program's output ends.

        The loss does not: where a program may be ended early, it is taken from a reading that every run has.
        """
        is_printed = self.is_read or self.name == LOSS
        is_loss = self.name == LOSS and self.takes is Takes.LAST
        return is_printed and self.at_step is None and self.takes is not Takes.FIRST and not is_loss

    @property
    def signs(self) -> tuple[int, ...]:
        """The factors that make a change for the worse negative; two where any change is bad."""
        return {Better.LOWER: (-1,), Better.HIGHER: (1,), Better.SAME: (-1, 1)}[Better(self.better or "")]

    def accepted(self, target: float) -> float:
        """Return the accepted change from a baseline, in the figure's unit: the larger of both tolerances."""
        return max((self.tolerance or 0.0) * abs(target), self.absolute or 0.0)

    def exceeds_limit(self, value: float) -> bool:
        """Whether a value is beyond the hard limit."""
        if self.limit is None:
            return False
        return value < self.limit if self.better is Better.HIGHER else value > self.limit


@dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """The definition of a built-in figure; the defaults are those of users' figures."""

    shown: str = ""  # its name in messages; "" for the name itself
    # unit, better, tolerance, absolute: the defaults of the `Figure`
    unit: str = ""
    better: Better = Better.LOWER
    tolerance: float = 0.05
    absolute: float = 0.0
    more_and_less: tuple[str, str] = ("higher", "lower")  # a message's words for a rise and a fall
    # it is measured, and not read from a program's output; its unit is fixed, its values are above 0
    is_measured: bool = False
    is_of_programs: bool = True  # it can be measured or read of a program
    is_count: bool = False  # its values do not vary, so that it needs no tolerance
    grows: bool = False  # it grows with a run's length, so that only runs of equal length can be compared
    is_at_fixed_step: bool = False  # of a workload, it is taken at `FIXED_STEP`


_OF_USERS: Final = BuiltIn()
_BUILT_IN: Final = {
    RATE: BuiltIn(unit="examples/s", better=Better.HIGHER, tolerance=0.02),
    PEAK_MEMORY: BuiltIn(
        shown="peak memory",
        unit="bytes",
        tolerance=0.02,
        absolute=64.0 * 2**20,
        more_and_less=("more", "less"),
        is_measured=True,
        grows=True,
    ),
    FIRST_STEP: BuiltIn(
        shown="first step",
        unit="s",
        tolerance=0.3,
        absolute=2.0,
        more_and_less=("longer", "shorter"),
        is_measured=True,
    ),
    LOSS: BuiltIn(better=Better.SAME, is_at_fixed_step=True),
    RETRACES: BuiltIn(
        tolerance=0.0,
        more_and_less=("more", "fewer"),
        is_measured=True,
        is_of_programs=False,
        is_count=True,
        is_at_fixed_step=True,
    ),
}


def shown_name(name: str) -> str:
    """Return a figure's name as messages show it."""
    return _BUILT_IN.get(name, _OF_USERS).shown or name


COLD_CACHES: Final = {
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "TRITON_ALWAYS_COMPILE": "1",
}
"""Variables that switch off caches of compiled programs, so that every first step compiles the same.

CUDA_CACHE_DISABLE is left out. For Hopper, TensorFlow 2.21 has only PTX: without the driver's cache each first step
there would compile TensorFlow's own kernels anew, for many minutes.
"""


def with_cold_caches(figures: Sequence[Figure], env: Mapping[str, str]) -> Mapping[str, str]:
    """Return a program's variables; where its first step is judged, with `COLD_CACHES` unless it sets them itself."""
    is_cold = any(figure.name == FIRST_STEP for figure in figures)
    return {**(COLD_CACHES if is_cold else {}), **env}


_WORDS: Final = {
    "subject": "figure",
    "worse": "worse",
    "better": "better",
    "loss": "change for the worse",
    "too_much": "change by its whole value",
}
_WORDS_OF_RATE: Final = {
    "subject": "workload",
    "worse": "slower",
    "better": "faster",
    "loss": "slowdown",
    "too_much": "slowdown by a quarter",
}

THROUGHPUT: Final = Figure(RATE)
"""The figure that every check is judged by."""

BUILT_IN: Final = tuple(name for name in _BUILT_IN if name != RATE)
"""Names of the figures that a test can ask for without describing them."""


def figures_of(asked: object, *, of_a_program: bool) -> tuple[Figure, ...]:
    """Return the figures that a test asks for with `also=`: names of built-in figures, and `Figure`s.

    Raises:
        WorkloadError: an unknown or repeated name, or an object that is no figure; says what to write.
    """
    if isinstance(asked, str | Figure):
        asked = (asked,)
    if not isinstance(asked, Iterable):
        raise WorkloadError(
            f"also={asked!r:.80} must be a tuple of names and Figure(...), as in ('peak_memory', 'loss')"
        )
    figures: dict[str, Figure] = {}
    for given in asked:
        figure = _figure(given, of_a_program=of_a_program)
        if figure.name in figures:
            raise WorkloadError(f"also: {figure.name} is given twice: give each figure once")
        figures[figure.name] = figure
    return tuple(figures.values())


def at_fixed_steps(name: str, place: str = "") -> str:
    """Return the next step where a program prints a figure at different steps in different runs.

    `place` is where a run printed it, as "at step 400", which gives the step to write.
    """
    step = place.removeprefix("at step ")
    number = step if step.isdecimal() else "N"
    return (
        f"let the program print {name} at fixed steps, or give Figure({name!r}, at_step={number}, ...): between two "
        "printed steps it is interpolated"
    )


def require_fixed_places(figures: Iterable[Figure]) -> None:
    """Check that the figures of a program that may be ended early are read at the same step of every run.

    Raises:
        WorkloadError: a figure is read where the program happens to end; says what to write.
    """
    for figure in figures:
        if figure.needs_the_end:
            raise WorkloadError(
                f"{figure.name}: takes={str(figure.takes)!r} reads up to the end, and the program is ended as soon as "
                "its rate is known, at another step in each run",
                next_step="Give reads=Reads(until_end=True) to read it to its end, "
                f"Figure({figure.name!r}, at_step=N, ...) for the value at step N, or takes='first'",
            )


def with_default(asked: Sequence[Figure], default: Sequence[Figure], *, of_a_program: bool) -> tuple[Figure, ...]:
    """Return a test's figures, and those of the suite's default that apply to it and that it does not give itself."""
    figures = {figure.name: figure for figure in asked}
    for figure in default:
        if figure.definition.is_of_programs or not of_a_program:
            figures.setdefault(figure.name, figure)
    return tuple(figures.values())


def _figure(given: object, *, of_a_program: bool) -> Figure:
    if isinstance(given, str) and given not in BUILT_IN:
        known = f"{known_names(given, BUILT_IN)}{_OWN if of_a_program else ''}"
        raise WorkloadError(f"also: {unknown('figure', given)}", next_step=known)
    figure = Figure(given) if isinstance(given, str) else given
    if not isinstance(figure, Figure):
        raise WorkloadError(f"also: {figure!r:.80} must be the name of a figure or a Figure(...)")
    if figure.name == RATE:
        raise WorkloadError("also: throughput is the figure by which each check is judged: give yours another name")
    if not of_a_program and (figure.is_read or not figure.is_built_in):
        raise WorkloadError(
            f"also: {figure.name}: a workload prints nothing that a figure of your own could be read from",
            next_step=f"It has {', '.join(BUILT_IN)}; a Command prints figures of its own",
        )
    if not of_a_program and (figure.at_step is not None or figure.takes is not Takes.LAST):
        raise WorkloadError(
            f"also: {figure.name}: a workload's is always that of step {FIXED_STEP}: leave takes and at_step out"
        )
    if of_a_program and not figure.definition.is_of_programs:
        raise WorkloadError(f"also: {figure.name} is counted in training that check drives, and not in a program")
    if of_a_program and not (figure.is_built_in or figure.is_read):
        raise WorkloadError(f"also: {figure.name}: say how it is read{_OWN}")
    return figure


_OWN: Final = " One of your own is Figure('eval_loss', field='eval.loss') or Figure('eval_loss', pattern=...)."
