"""A user's own program, measured by its output: the `Command`, and `Reads`, which says how its output is read."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from pytest_tfperf.core.baseline import is_unit
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError, known_names, unknown
from pytest_tfperf.lines import shortened

READ_BY_GROUP = ("rate", "step", "seconds", "milliseconds")
"""The groups of a pattern, of which it has one: units per second, a counter of steps, or a step's time."""

SAY_HOW_MANY = (
    "say how many units a step holds over all devices with reads=Reads(examples_per_step=N), or count unit='steps/s'"
)
"""The next step where a program prints steps or their times, and their size is not known."""


class RateIs(StrEnum):
    """The time that a printed rate covers."""

    RECENT = "recent"
    AVERAGE = "average"  # since the first step, as tf_cnn_benchmarks and timm's benchmark.py print it


class TimedFrom(StrEnum):
    """Where the time of `Reads.examples` begins."""

    START = "start"
    FIRST_OUTPUT = "first output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How a program's output is read; without arguments, lines in the known formats are.

    At most one of `pattern`, `field`, `parse` and `examples` is given.

    Args:
        pattern: a regular expression with one named group `rate`, `step`, `seconds` or `milliseconds`, and maybe
            `loss`.
        field: the field of JSON lines that holds the rate; "train.rate" for `rate` inside of `train`.
        parse: a function of a line that returns the rate in units per second, or None for a line without a rate.
        examples_per_step: units in a step, over all devices, where the program prints steps or their times.
        rate_is: "average" for rates since the first step, which are converted to recent rates; "recent" for rates that
            only look like averages. None: the averages of known formats are converted, and other rates that look like
            averages are refused.
        until_end: read until the program ends; a single printed rate is then enough.
        examples: units that the program processes in all; its whole run is then timed, and nothing is read.
        timed_from: the beginning of that time: "start" or "first output".
        first_within: seconds in which the first reading is expected once the program prints; None: 40 s while it goes
            on printing, two minutes where it falls silent, and no limit with `until_end`.

    Raises:
        WorkloadError: an argument that is not allowed; says what to write.
    """

    pattern: str = ""
    field: str = ""
    parse: Callable[[str], float | None] | None = None
    examples_per_step: int | None = None
    rate_is: RateIs | str | None = None
    until_end: bool = False
    examples: int | None = None
    timed_from: TimedFrom | str = TimedFrom.FIRST_OUTPUT
    first_within: float | None = None

    def __post_init__(self) -> None:
        for name in ("examples_per_step", "examples"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise WorkloadError(f"{name}={value!r} must be a whole number from 1")
        for name in ("pattern", "field"):
            if not isinstance(getattr(self, name), str):
                raise WorkloadError(f"{name}={getattr(self, name)!r} must be a text")
        if self.parse is not None and not callable(self.parse):
            raise WorkloadError(f"parse={self.parse!r} must be a function of a line that returns the rate or None")
        if self.rate_is is not None and self.rate_is not in list(RateIs):
            raise WorkloadError(
                f"rate_is: {unknown('value', self.rate_is)}", next_step=known_names(self.rate_is, RateIs)
            )
        if self.timed_from not in list(TimedFrom):
            known = known_names(self.timed_from, TimedFrom)
            raise WorkloadError(f"timed_from: {unknown('value', self.timed_from)}", next_step=known)
        if self.first_within is not None and not (isinstance(self.first_within, int | float) and self.first_within > 0):
            raise WorkloadError(f"first_within={self.first_within!r} must be a number of seconds above 0")
        ways = [name for name in ("pattern", "field", "parse", "examples") if getattr(self, name)]
        if len(ways) > 1:
            raise WorkloadError(f"{' and '.join(ways)} are given: give the one that tells the rate")
        if self.pattern:
            _require_one_group(self.pattern)

    @property
    def reads_to_the_end(self) -> bool:
        """Whether the program runs to its end."""
        return self.until_end or self.examples is not None


def _require_one_group(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        raise WorkloadError(f"pattern={pattern!r} is no regular expression: {error}") from None
    allowed = (*READ_BY_GROUP, "loss")
    for group in groups:
        if group not in allowed:
            raise WorkloadError(f"pattern: {unknown('group', group)}", next_step=known_names(group, allowed))
    readings = [group for group in READ_BY_GROUP if group in groups]
    if len(readings) != 1:
        have = f"has the groups {' and '.join(readings)}" if readings else "has no named group"
        raise WorkloadError(
            f"pattern={pattern!r} {have}: it must have one of {', '.join(READ_BY_GROUP)}, as in "
            r"r'speed (?P<rate>\S+)'"
        )


STEPS = "steps"
"""The unit of a program whose throughput is in steps."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
# Mistyped ids, too: read as a command's name, their row would match no test, and nobody would notice.
_LIKE_A_WORKLOAD = re.compile(rf"-b[0-9]+(-|$)|[-_]({'|'.join(VariableUpdate)})-", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program and how its output is read; a noun beside `Workload`.

    Args:
        name: what its baseline and the history call it.
        argv: the program and its arguments; empty if it was read from a file, because files hold only the name.
        folder: where it runs; "": where pytest runs.
        unit: what its throughput counts.
        reads: how its output is read.
        ranks_per_node: how many processes of it an engine starts on each of several nodes.
        environment: further variables for it, as pairs; it also gets pytest's.
        terminal: whether it gets a terminal of its own: some programs print their progress only to a terminal.

    Raises:
        WorkloadError: an invalid name, argument or unit, or a pattern of steps whose size is not given; says what to
            write.
    """

    name: str
    argv: tuple[str, ...] = ()
    folder: str = ""
    unit: str = "examples"
    reads: Reads = field(default_factory=Reads)
    ranks_per_node: int = 1
    environment: tuple[tuple[str, str], ...] = ()
    terminal: bool = False

    def __post_init__(self) -> None:
        _require_name(self.name)
        if not is_unit(self.unit):
            raise WorkloadError(
                f"{self.name}: unit={self.unit!r}: write what is counted in a second, as in 'images/s' or 'tokens/s'"
            )
        if type(self.ranks_per_node) is not int or self.ranks_per_node < 1:
            raise WorkloadError(f"{self.name}: ranks_per_node={self.ranks_per_node!r} must be a whole number from 1")
        if not isinstance(self.reads, Reads):
            raise WorkloadError(f"{self.name}: reads={self.reads!r:.80} must be a Reads(...)")
        if self.reads.pattern and "(?P<rate>" not in self.reads.pattern and self.counted_per_step is None:
            raise WorkloadError(f"{self.name}: the pattern reads steps: {SAY_HOW_MANY}")

    @classmethod
    def of(
        cls,
        argv: Sequence[str | Path],
        *,
        name: str,
        unit: str,
        folder: str = "",
        reads: Reads | None = None,
        ranks_per_node: int = 1,
        environment: Mapping[str, str] | None = None,
        terminal: bool = False,
    ) -> Self:
        """Make the command from the arguments of `check_command`; `unit` ends with "/s".

        Raises:
            WorkloadError: as the class does, or no program is named.
        """
        counted = unit.removesuffix("/s") if isinstance(unit, str) else unit
        if counted == unit:
            raise WorkloadError(f"{name}: unit={unit!r}: write what is counted in a second, as in 'examples/s'")
        if isinstance(argv, str) or not argv or not all(isinstance(word, str | Path) for word in argv):
            raise WorkloadError(
                f"{name}: the command {shortened(argv, 80)} must be a list of a program and its arguments, as in "
                '[sys.executable, "train.py", "--epochs=1"]'
            )
        variables = environment or {}
        if any(not isinstance(text, str) for pair in variables.items() for text in pair):
            raise WorkloadError(f"{name}: env must map names of environment variables to texts")
        # The operating system ends each of these texts at a NUL.
        for kind, texts in (("argument", argv), ("variable", [*variables, *variables.values()])):
            if unusable := [str(text) for text in texts if "\0" in str(text)]:
                shown = shortened(repr(unusable[0]), 80)
                raise WorkloadError(f"{name}: the {kind} {shown} contains a NUL character: remove it")
        return cls(
            name=name,
            argv=tuple(map(str, argv)),
            unit=counted,
            folder=folder,
            reads=Reads() if reads is None else reads,
            ranks_per_node=ranks_per_node,
            environment=tuple(sorted(variables.items())),
            terminal=terminal,
        )

    @classmethod
    def parse(cls, id: str) -> Self:
        """Return the command of this name, without its arguments, which no file holds.

        Raises:
            WorkloadError: the text is not a command's name.
        """
        return cls(name=id)

    @property
    def id(self) -> str:
        """The name, which is its id in files."""
        return self.name

    @property
    def digest(self) -> str:
        """A hash of the arguments, which may be secret. The interpreter does not count.

        >>> Command(name="x", argv=("/usr/bin/python", "a.py")).digest == Command(name="x", argv=("py", "a.py")).digest
        True
        """
        return hashlib.sha256("\0".join(self.argv[1:]).encode("utf-8", "surrogateescape")).hexdigest()[:12]

    @property
    def runs_this_python(self) -> bool:
        """Whether the program is this Python, so that a reference environment can run it with other packages."""
        return self.argv[:1] == (sys.executable,)

    @property
    def counted_per_step(self) -> int | None:
        """Units in a step; None if that is not known."""
        given = self.reads.examples_per_step
        return 1 if self.unit == STEPS and given is None else given

    def __str__(self) -> str:
        return self.id


Subject = Workload | Command
"""A test measures either. Most of the flow needs only its id."""


def parse_subject(id: str) -> Subject:
    """Return the workload, or else the command, of this id.

    Raises:
        WorkloadError: it is the id of neither.
    """
    try:
        return Workload.parse(id)
    except WorkloadError:
        if not _NAME.fullmatch(id) or _LIKE_A_WORKLOAD.search(id):
            raise
    return Command.parse(id)


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WorkloadError(
            f"name={name!r:.120} must be at most 100 letters, digits, '.', '_' and '-': it is the key of a baseline"
        )
    if _LIKE_A_WORKLOAD.search(name):
        raise WorkloadError(
            f"name={name!r} reads like a workload's id, as in 'resnet50-b64-replicated-device': give another name"
        )
