"""A user's own program, measured by its output: the `Command`, and `Reads`, which says how its output is read."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from pytest_tfperf.core.baseline import is_unit
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError, known_names, unknown
from pytest_tfperf.lines import shortened

FORMATS_OF_STEPS = ("tqdm", "xgboost", "lightgbm", "catboost", "stable-baselines3", "cleanrl", "megatron-lm")
"""The known formats whose lines count steps."""

FORMATS_OF_RATES = ("tf_cnn_benchmarks", "torchtitan", "maxtext", "gensim")
"""The known formats whose lines have a rate or a step's time; `programs/formats.py` reads both."""

SAY_HOW_MANY = "say how many units a step holds over all devices with examples_per_step=N, or count unit='steps/s'"
"""The next step where a program prints steps or their times, and their size is not known."""


class Holds(StrEnum):
    """What a number is, which a pattern's group is named by."""

    RATE = "rate"  # units per second
    STEP = "step"  # a counter of steps
    SECONDS = "seconds"  # a step's time
    MILLISECONDS = "milliseconds"


class RateIs(StrEnum):
    """The time that a printed rate or time covers."""

    RECENT = "recent"
    AVERAGE = "average"  # since the first step, as tf_cnn_benchmarks and timm's benchmark.py print it


class Of(StrEnum):
    """The devices that a printed rate is of."""

    ALL = "all"
    DEVICE = "device"


class TimedFrom(StrEnum):
    """Where the time of `Reads.examples` begins."""

    START = "start"
    FIRST_OUTPUT = "first output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How a program's output is read: one of `format`, `pattern`, `field`, `parse` and `examples`, and nothing else is.

    Args:
        format: the name of a known format, such as "tqdm" or "xgboost".
        pattern: a regular expression with one named group `rate`, `step`, `seconds` or `milliseconds`, and maybe
            `loss`. Each line that it matches is read.
        field: the field of JSON lines that holds the number; "train.rate" for `rate` inside of `train`.
        holds: the field's number: a "rate", which is the default, a "step", or a step's "seconds" or "milliseconds".
        parse: a function of a line that returns the rate in units per second, or None for a line without a rate.
        examples: units that the program processes in all; its whole run is then timed, and nothing is read.
        rate_is: "recent" for rates and times since the line before; "average" for those since the first step, which are
            converted to recent ones. None: recent, and what looks like an average is refused.
        of: "all" for rates of all devices together; "device" for those of one, which are multiplied. None: of all, and
            rates that name a device are refused where there are several.
        until_end: read until the program ends; a single printed rate is then enough.
        timed_from: the beginning of the time of `examples`: "start" or "first output".

    Raises:
        WorkloadError: an argument that is not allowed; says what to write.
    """

    format: str = ""
    pattern: str = ""
    field: str = ""
    holds: Holds | str = Holds.RATE
    # A function in a test's body is another one each time it runs.
    parse: Callable[[str], float | None] | None = dataclasses.field(default=None, compare=False)
    examples: int | None = None
    rate_is: RateIs | str | None = None
    of: Of | str | None = None
    until_end: bool = False
    timed_from: TimedFrom | str = TimedFrom.FIRST_OUTPUT

    def __post_init__(self) -> None:
        _require_count(self, "examples")
        for name in ("format", "pattern", "field"):
            if not isinstance(getattr(self, name), str):
                raise WorkloadError(f"{name}={getattr(self, name)!r} must be a text")
        if self.parse is not None and not callable(self.parse):
            raise WorkloadError(f"parse={self.parse!r} must be a function of a line that returns the rate or None")
        for name, kind in (("holds", Holds), ("rate_is", RateIs), ("of", Of), ("timed_from", TimedFrom)):
            given = getattr(self, name)
            if given not in list(kind) and not (given is None and name in ("rate_is", "of")):
                raise WorkloadError(f"{name}: {unknown('value', given)}", next_step=known_names(given, kind))
        ways = [name for name in ("format", "pattern", "field", "parse", "examples") if getattr(self, name)]
        if not ways:
            raise WorkloadError(
                "Reads() does not say what is read: give format=, pattern=, field=, parse= or examples=N; a command "
                "without reads is measured by its steps"
            )
        if len(ways) > 1:
            raise WorkloadError(f"{' and '.join(ways)} are given: give the one that tells the rate")
        known = FORMATS_OF_STEPS + FORMATS_OF_RATES
        if self.format and self.format not in known:
            raise WorkloadError(f"format: {unknown('name', self.format)}", next_step=known_names(self.format, known))
        if self.holds != Holds.RATE and not self.field:
            raise WorkloadError(f"holds={str(self.holds)!r} is of a field; a pattern's group is named by what it holds")
        if self.pattern:
            _require_one_group(self.pattern)

    @property
    def group(self) -> str:
        """What the number of a pattern or a field is, one of `Holds`; "" for other ways to read."""
        if self.pattern:
            return next(group for group in re.compile(self.pattern).groupindex if group in list(Holds))
        return str(self.holds) if self.field else ""

    @property
    def reads_steps(self) -> bool:
        """Whether its numbers give a rate only where the size of a step is known."""
        return self.group not in ("", Holds.RATE) or self.format in FORMATS_OF_STEPS

    @property
    def reads_to_the_end(self) -> bool:
        """Whether the program runs to its end."""
        return self.until_end or self.examples is not None


def _require_count(of: object, name: str) -> None:
    value = getattr(of, name)
    if value is not None and (type(value) is not int or value < 1):
        raise WorkloadError(f"{name}={value!r} must be a whole number from 1")


def _require_seconds(of: object, name: str) -> None:
    value = getattr(of, name)
    if value is not None and not (isinstance(value, int | float) and value > 0):
        raise WorkloadError(f"{name}={value!r} must be a number of seconds above 0")


def _require_one_group(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        raise WorkloadError(f"pattern={pattern!r} is no regular expression: {error}") from None
    allowed = (*Holds, "loss")
    for group in groups:
        if group not in allowed:
            raise WorkloadError(f"pattern: {unknown('group', group)}", next_step=known_names(group, allowed))
    readings = [group for group in Holds if group in groups]
    if len(readings) != 1:
        have = f"has the groups {' and '.join(readings)}" if readings else "has no named group"
        raise WorkloadError(
            f"pattern={pattern!r} {have}: it must have one of {', '.join(Holds)}, as in "
            r"r'speed (?P<rate>\S+)'"
        )


STEPS = "steps"
"""The unit of a program whose throughput is in steps."""

EXAMPLES = {"examples", "samples", "images", "img", "imgs", "sequences"}
"""Units of which a batch of a DataLoader holds as many as its size."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
# Mistyped ids, too: read as a command's name, their row would match no test, and nobody would notice.
_LIKE_A_WORKLOAD = re.compile(rf"-b[0-9]+(-|$)|[-_]({'|'.join(VariableUpdate)})-", re.ASCII)


@dataclass(frozen=True, slots=True)
class Command:
    """A program of your own; `throughput.check` takes it in place of a `Workload`.

    Args:
        argv: the program and its arguments, as in `[sys.executable, "train.py", "--epochs=1"]`.
        name: the key of its baseline, and its name in tables and messages.
        unit: the unit of its rate, such as "images/s".
        examples_per_step: what a step holds of what the unit counts, over all devices.
        reads: how its output is read; None: it is measured by its steps.
        cwd: the folder where it runs, relative to pytest's rootdir, which is the default.
        env: environment variables that it gets beside pytest's own.
        ranks_per_node: the number of its processes on each of several nodes.
        terminal: whether it prints into a terminal of its own, for progress bars that are drawn only there.
        first_within: seconds in which its first step is expected, or its first reading once it prints; None: five
            minutes, or two for a reading, and no limit with `until_end`.

    Raises:
        WorkloadError: an argument that is not allowed, or steps are read whose size is not given; says what to
            write.
    """

    argv: Sequence[str | Path]
    _: KW_ONLY
    name: str
    unit: str = "examples/s"
    examples_per_step: int | None = None
    reads: Reads | None = None
    cwd: str | Path = ""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    ranks_per_node: int = 1
    terminal: bool = False
    first_within: float | None = None

    def __post_init__(self) -> None:
        name = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise WorkloadError(
                f"name={name!r:.120} must be at most 100 letters, digits, '.', '_' and '-': it is the key of a baseline"
            )
        if _LIKE_A_WORKLOAD.search(name):
            raise WorkloadError(
                f"name={name!r} reads like a workload's id, as in 'resnet50-b64-replicated-device': give another name"
            )
        if not isinstance(self.unit, str) or not self.unit.endswith("/s") or not is_unit(self.counted):
            raise WorkloadError(
                f"{name}: unit={self.unit!r:.80}: write what is counted in a second, as in 'images/s' or 'tokens/s'"
            )
        if not isinstance(self.argv, list | tuple) or not all(isinstance(word, str | Path) for word in self.argv):
            raise WorkloadError(
                f"{name}: the command {shortened(self.argv, 80)} must be a list of a program and its arguments, as in "
                '[sys.executable, "train.py", "--epochs=1"]'
            )
        if not isinstance(self.env, Mapping) or any(not isinstance(t, str) for pair in self.env.items() for t in pair):
            raise WorkloadError(f"{name}: env must map names of environment variables to texts")
        if not isinstance(self.cwd, str | Path):
            raise WorkloadError(f"{name}: cwd={self.cwd!r:.80} must be a folder, relative to pytest's rootdir")
        object.__setattr__(self, "argv", self.words)
        object.__setattr__(self, "env", dict(self.env))
        # The operating system ends each of these texts at a NUL.
        for kind, texts in (("argument", self.words), ("variable", [*self.env, *self.env.values()])):
            if unusable := [text for text in texts if "\0" in text]:
                shown = shortened(repr(unusable[0]), 80)
                raise WorkloadError(f"{name}: the {kind} {shown} contains a NUL character: remove it")
        if type(self.ranks_per_node) is not int or self.ranks_per_node < 1:
            raise WorkloadError(f"{name}: ranks_per_node={self.ranks_per_node!r} must be a whole number from 1")
        _require_count(self, "examples_per_step")
        _require_seconds(self, "first_within")
        if self.reads is None:
            return
        if not isinstance(self.reads, Reads):
            raise WorkloadError(f"{name}: reads={self.reads!r:.80} must be a Reads(...)")
        if self.reads.reads_steps and self.counted_per_step is None:
            raise WorkloadError(f"{name}: steps are read: {SAY_HOW_MANY}")

    @classmethod
    def parse(cls, id: str) -> Self:
        """Return the command of this name, without its arguments, which no file holds.

        Raises:
            WorkloadError: the text is not a command's name.
        """
        return cls((), name=id)

    @property
    def id(self) -> str:
        """The name, which is its id in files."""
        return self.name

    @property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments; empty where only the name is known, which is all that files hold."""
        return tuple(map(str, self.argv))

    @property
    def counted(self) -> str:
        """What its throughput counts, "images" for the unit "images/s"."""
        return self.unit.removesuffix("/s")

    @property
    def digest(self) -> str:
        """A hash of the arguments, which may be secret. The interpreter does not count.

        >>> Command(["/usr/bin/python", "a.py"], name="x").digest == Command(["py", "a.py"], name="x").digest
        True
        """
        return hashlib.sha256("\0".join(self.words[1:]).encode("utf-8", "surrogateescape")).hexdigest()[:12]

    @property
    def runs_this_python(self) -> bool:
        """Whether the program is this Python, so that a reference environment can run it with other packages."""
        return self.words[:1] == (sys.executable,)

    @property
    def counted_per_step(self) -> int | None:
        """Units in a step; None if that is not known."""
        return 1 if self.counted == STEPS and self.examples_per_step is None else self.examples_per_step

    @property
    def is_probed(self) -> bool:
        """Whether it is measured by its steps."""
        return self.reads is None

    @property
    def runs_to_its_end(self) -> bool:
        """Whether it is read until it ends by itself."""
        return self.reads is not None and self.reads.reads_to_the_end

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
