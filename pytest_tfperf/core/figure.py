"""Figures: the numbers of a run that a test is judged by. Throughput is the first; a `Figure` describes any other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pytest_tfperf.errors import WorkloadError, known_names, unknown

RATE: Final = "throughput"
PEAK_MEMORY: Final = "peak_memory"
FIRST_STEP: Final = "first_step"
LOSS: Final = "loss"
INPUT_WAIT: Final = "input_wait"
COMPILATIONS: Final = "compilations"
RECOMPILES: Final = "recompiles"
GRAPH_BREAKS: Final = "graph_breaks"

SHARE: Final = "share"
"""The unit of a share, from 0 to 1, which messages write in percent."""

RENAMED: Final = {"retraces": COMPILATIONS}
"""Earlier names of figures, which the history may have, and today's."""

_TIMES: Final = ("us", "ms", "s", "min", "h")
_PER_TIME: Final = ("/s", "/min", "/h")

FIXED_STEP: Final = 10
"""The step whose loss is judged where no reading is stated, and up to which compilations and the like are counted.

Every run reaches it, because it belongs to the warm-up. How many steps a run takes in all depends on their speed.
"""


class Source(StrEnum):
    """What gives the figures of a run: the values are the words of messages."""

    WORKER = "a workload"
    PROBE = "a program that is measured by its steps"
    OUTPUT = "a program that is measured by its output"


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


_WAYS: Final = ("field", "pattern", "counts")


def _is_step(number: object) -> bool:
    return type(number) is int and number >= 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that a check is judged by beside its throughput.

    A change fails only if it exceeds both the relative and the absolute tolerance: a nearly constant figure must not
    fail for one page of memory more. Arguments that are left out have the built-in figure's own defaults.

    Args:
        name: a built-in figure's, as `peak_memory`, or the user's own; the key of its baseline.
        unit: the unit of its values: "bytes", "s", "share" from 0 to 1, or the user's word; "" for none.
        better: the direction in which it is better. The default is "lower".
        tolerance: the accepted change as a fraction, 0.05 for 5 %, which is the default.
        absolute: the change in the figure's unit that is accepted in any case. The default is 0.
        limit: the highest allowed value, or the lowest where higher is better; it needs no baseline.
        field: of a program: the field of JSON lines that holds it; "eval.loss" for `loss` inside of `eval`.
        pattern: of a program: a regular expression with one named group, which holds it.
        counts: of a program: a regular expression whose lines are counted, those with several matches once. As every
            count it is exact: its tolerance is 0 unless another is given.
        takes: of a program that prints it several times: the "first" value, the "last" or the "median".
        at_step: of a program: the step up to which values count. The last value is then that of this step, interpolated
            between the two nearest printed steps.
        steps: the first and the last of the steps over which the mean is taken, as `(50, 100)`: of the losses of a
            workload or of a program's steps, or of the values that a program prints at them.

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
    counts: str = ""
    takes: Takes | str = Takes.LAST
    at_step: int | None = None
    steps: tuple[int, int] | None = None

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
        if not (self.is_count or self.tolerance or self.absolute or self.limit is not None):
            raise WorkloadError(
                f"{self.name}: tolerance and absolute are both 0, so noise would fail it: give one",
                next_step="A count that never varies is exact with absolute=0.5",
            )

    @property
    def with_speed(self) -> int:
        """Its relation to the machine's speed: 1 for a rate, -1 for a time, 0 for any other figure."""
        unit = self.unit or ""
        return -1 if unit in _TIMES else 1 if unit.endswith(_PER_TIME) else 0

    def _require_texts(self) -> None:
        for name in ("unit", "field", "pattern", "counts"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.isprintable():
                raise WorkloadError(f"{self.name}: {name}={text!r:.80} must be a line of text")
        given = [name for name in _WAYS if getattr(self, name)]
        if len(given) > 1:
            raise WorkloadError(f"{self.name}: {' and '.join(given)} are given: give the one that tells it")
        if given and self.is_measured:
            raise WorkloadError(f"{self.name} is measured, and not read from the output: leave {given[0]} out")
        if self.counts and self.is_built_in:
            raise WorkloadError(
                f"{self.name}: counts= counts lines: give the count a name of its own, as in "
                "Figure('warnings', counts=...)"
            )
        for name in {"pattern", "counts"}.intersection(given):
            try:
                groups = re.compile(getattr(self, name)).groupindex
            except (re.error, RecursionError, OverflowError) as error:
                raise WorkloadError(
                    f"{self.name}: {name}={getattr(self, name)!r} is no regular expression: {error}"
                ) from None
            if name == "pattern" and len(groups) != 1:
                raise WorkloadError(
                    f"{self.name}: pattern={self.pattern!r} must have one named group, as in "
                    rf"r'eval loss (?P<{self.name}>\S+)'"
                )

    def _require_place(self) -> None:
        given = [name for name in ("at_step", "steps") if getattr(self, name) is not None]
        given += ["takes"] if self.takes is not Takes.LAST else []
        if given and self.is_measured:
            raise WorkloadError(f"{self.name} is measured, and not read at a step: leave {' and '.join(given)} out")
        if self.counts and given not in ([], ["at_step"]):
            raise WorkloadError(f"{self.name}: lines are counted up to at_step: leave {given[-1]} out")
        if self.at_step is not None and not _is_step(self.at_step):
            raise WorkloadError(f"{self.name}: at_step={self.at_step!r:.80} must be a whole number from 1")
        if self.at_step is not None and self.takes is Takes.FIRST:
            raise WorkloadError(f"{self.name}: the first value is the same at each step: leave takes or at_step out")
        if self.steps is None:
            return
        if given != ["steps"]:
            raise WorkloadError(f"{self.name}: steps= takes the mean over steps: leave at_step and takes out")
        ends = self.steps if isinstance(self.steps, tuple | list) else ()
        if len(ends) != 2 or not all(map(_is_step, ends)) or not ends[0] < ends[1]:
            raise WorkloadError(
                f"{self.name}: steps={self.steps!r:.80} must be the first step and a later one, as (50, 100)"
            )
        object.__setattr__(self, "steps", tuple(ends))

    def _require_number(self, name: str, allows: Callable[[float], bool], what: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not allows(value):
            raise WorkloadError(f"{self.name}: {name}={value!r:.80} must be {what}")

    @property
    def definition(self) -> BuiltIn:
        """The definition of a built-in figure, or the defaults of users' figures."""
        name = RENAMED.get(self.name, self.name)
        return _BUILT_IN.get(name, _COUNTED_BY_USERS if self.counts else _OF_USERS)

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
        """Whether its own field, pattern or count reads it from a program's output."""
        return bool(self.field or self.pattern or self.counts)

    @property
    def is_count(self) -> bool:
        """Whether its values are counts, which do not vary."""
        return self.definition.is_count

    @property
    def last_step(self) -> int | None:
        """The step after which no value counts; None where it is not given."""
        return self.at_step if self.steps is None else self.steps[1]

    @property
    def window_ends(self) -> Iterable[int]:
        """The steps with which windows of the warm-up must end, so that it has its value.

        A program prints it up to the last of them; what it prints between two windows belongs to no step.
        """
        if self.is_read:
            return () if self.last_step is None else (self.last_step,)
        if self.steps is not None:
            return range(self.steps[0] - 1, self.steps[1] + 1)
        return (FIXED_STEP,) if self.definition.is_at_fixed_step else ()

    @property
    def needs_the_end(self) -> bool:
        """Whether its value depends on where a program's output ends.

        The loss does not: where a program may be ended early, it is taken from a reading that every run has.
        """
        is_printed = self.is_read or self.name == LOSS
        is_loss = self.name == LOSS and self.takes is Takes.LAST
        return is_printed and self.last_step is None and self.takes is not Takes.FIRST and not is_loss

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
    # it is measured, and not read from a program's output; its unit is fixed, its values are not negative
    is_measured: bool = False
    sources: Collection[Source] = tuple(Source)  # what it can be measured of
    is_count: bool = False  # its values do not vary, so that it needs no tolerance
    grows: bool = False  # it grows with a run's length, so that only runs of equal length can be compared
    is_at_fixed_step: bool = False  # of a workload, and of a program's steps, it is taken at `FIXED_STEP`


_OF_USERS: Final = BuiltIn(sources=(Source.PROBE, Source.OUTPUT))
_COUNTED_BY_USERS: Final = replace(_OF_USERS, tolerance=0.0, more_and_less=("more", "fewer"), is_count=True)
_COUNTED: Final = replace(_COUNTED_BY_USERS, is_measured=True, is_at_fixed_step=True)
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
    # A share may be 0, where every change is infinitely many percent of it.
    INPUT_WAIT: BuiltIn(
        shown="input wait",
        unit=SHARE,
        tolerance=0.0,
        absolute=0.05,
        more_and_less=("more", "less"),
        is_measured=True,
        sources=(Source.PROBE,),
    ),
    # After the first step: what it compiles shows in `first_step`, and is none of a user's mistakes.
    COMPILATIONS: replace(_COUNTED, sources=(Source.WORKER, Source.PROBE)),
    RECOMPILES: replace(_COUNTED, sources=(Source.PROBE,)),
    GRAPH_BREAKS: replace(_COUNTED, shown="graph breaks", sources=(Source.PROBE,)),
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


def built_in_of(source: Source | None) -> tuple[str, ...]:
    """Return the names of the built-in figures that a source has; None for all."""
    return tuple(name for name in BUILT_IN if source is None or source in _BUILT_IN[name].sources)


def figures_of(asked: object, source: Source | None) -> tuple[Figure, ...]:
    """Return the figures that a test asks for with `also=`: names of built-in figures, and `Figure`s.

    `source` is that of all runs; None for the figures of a suite, of which each test takes those that it can have.

    Raises:
        WorkloadError: an unknown or repeated name, an object that is no figure, or a figure that the source does not
            have; says what to write.
    """
    if isinstance(asked, str | Figure):
        asked = (asked,)
    if not isinstance(asked, Iterable):
        raise WorkloadError(
            f"also={asked!r:.80} must be a tuple of names and Figure(...), as in ('peak_memory', 'loss')"
        )
    figures: dict[str, Figure] = {}
    for given in asked:
        figure = _figure(given, source)
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


def over_steps(steps: tuple[int, int]) -> str:
    """Return the place of a mean over steps, which rows name."""
    return f"over steps {steps[0]} to {steps[1]}"


def require_fixed_places(figures: Iterable[Figure]) -> None:
    """Check that the figures of a program that may be ended early are read at the same step of every run.

    Raises:
        WorkloadError: a figure is read where the program happens to end; says what to write.
    """
    for figure in figures:
        if figure.needs_the_end:
            way = "counts=" if figure.counts else f"takes={str(figure.takes)!r}"
            raise WorkloadError(
                f"{figure.name}: {way} reads up to the end, and the program is ended as soon as its rate is known, at "
                "another step in each run",
                next_step="Give until_end=True in Reads(...) to read it to its end, "
                f"Figure({figure.name!r}, at_step=N, ...) for the value at step N, or takes='first'",
            )


def with_default(asked: Sequence[Figure], default: Sequence[Figure], source: Source) -> tuple[Figure, ...]:
    """Return a test's figures, and those of the suite's default that its source has and the test does not give."""
    figures = {figure.name: figure for figure in asked}
    for figure in default:
        if source in figure.definition.sources:
            figures.setdefault(figure.name, figure)
    return tuple(figures.values())


def renamed(name: str) -> str:
    """Return the next step where a figure is given by its earlier name; "" for today's names."""
    if name not in RENAMED:
        return ""
    return f"Write {RENAMED[name]!r}, which leaves out the first step, and record its baselines again"


def _figure(given: object, source: Source | None) -> Figure:
    has = built_in_of(source)
    if isinstance(given, str) and given not in BUILT_IN:
        known = f"{known_names(given, has)}{'' if source is Source.WORKER else _OWN}"
        raise WorkloadError(f"also: {unknown('figure', given)}", next_step=renamed(given) or known)
    figure = Figure(given) if isinstance(given, str) else given
    if not isinstance(figure, Figure):
        raise WorkloadError(f"also: {figure!r:.80} must be the name of a figure or a Figure(...)")
    if figure.name == RATE:
        raise WorkloadError("also: throughput is the figure by which each check is judged: give yours another name")
    if figure.name in RENAMED:
        raise WorkloadError(f"also: {unknown('figure', figure.name)}", next_step=renamed(figure.name))
    if source is None:
        return figure
    if source is Source.WORKER and (figure.is_read or not figure.is_built_in):
        raise WorkloadError(
            f"also: {figure.name}: a workload prints nothing that a figure of your own could be read from",
            next_step=f"It has {', '.join(has)}; a Command prints figures of its own",
        )
    if not (figure.is_built_in or figure.is_read):
        raise WorkloadError(f"also: {figure.name}: say how it is read{_OWN}")
    if source not in figure.definition.sources:
        raise WorkloadError(
            f"also: {figure.name} is not known of {source}, which has {', '.join(has)}",
            next_step="A Command without reads= is measured by its steps" if source is Source.OUTPUT else "",
        )
    if source is not Source.OUTPUT and not figure.is_read:
        if figure.at_step is not None or figure.takes is not Takes.LAST:
            raise WorkloadError(
                f"also: the {figure.name} of {source} is that of step {FIXED_STEP}, or with steps=(50, 100) the mean "
                "over these: leave takes and at_step out"
            )
        if figure.steps is not None and figure.steps[0] < 2:
            raise WorkloadError(f"also: {figure.name}: steps={figure.steps} must begin at 2: step 1 compiles")
    return figure


_OWN: Final = " One of your own is Figure('eval_loss', field='eval.loss') or Figure('eval_loss', pattern=...)."
