"""A user's own program, which is measured by what it prints: the `Command`, and what `check_command` accepts."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pytest_tfperf.core.baseline import is_unit
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError, one_of

READ_BY_GROUP = ("rate", "step", "seconds", "milliseconds")
"""Groups of which a pattern has one: units per second, a counter of steps, or the time that a step takes."""

STEPS = "steps"
"""The unit of a program whose steps are counted, whatever they hold."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
# Also an id that is mistyped: as the name of a command its row would match nothing, and nobody would notice.
_LIKE_A_WORKLOAD = re.compile(rf"-b[0-9]+(-|$)|[-_]({'|'.join(VariableUpdate)})-", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program and how its output is read; a noun beside `Workload`.

    Args:
        name: what its baseline and the history call it.
        argv: the program and its arguments; empty if it was read from a file, because files hold only the name.
        folder: where it runs; "": where pytest runs.
        unit: what its throughput counts.
        pattern: a regular expression with one of the groups `READ_BY_GROUP`, and maybe `loss`; "" where lines of a
            known format are read.
        field: the field of JSON lines that holds the rate, "metrics.rate" for one inside of another; "" for none.
        examples_per_step: units in a step, over all devices; None where the program prints rates.
        until_end: read to the program's end; a rate that is printed only once is then enough.
        ranks_per_node: how many processes of it an engine starts on each of several nodes.

    Raises:
        WorkloadError: an invalid name, argument, unit, pattern or field; says what to write.
    """

    name: str
    argv: tuple[str, ...] = ()
    folder: str = ""
    unit: str = "examples"
    pattern: str = ""
    field: str = ""
    examples_per_step: int | None = None
    until_end: bool = False
    ranks_per_node: int = 1

    def __post_init__(self) -> None:
        _require_name(self.name)
        if not is_unit(self.unit):
            raise WorkloadError(
                f"{self.name}: unit={self.unit!r}: write what is counted in a second, as in 'images/s' or 'tokens/s'"
            )
        for name in ("examples_per_step", "ranks_per_node"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise WorkloadError(f"{self.name}: {name}={value!r} must be a whole number from 1")
        for name in ("pattern", "field"):
            if not isinstance(getattr(self, name), str):
                raise WorkloadError(f"{self.name}: {name}={getattr(self, name)!r} must be a text")
        if self.pattern and self.field:
            raise WorkloadError(f"{self.name}: both pattern and field are given: give the one that reads the rate")
        if self.pattern:
            self._require_readable_pattern()

    @classmethod
    def of(cls, argv: Sequence[str | Path], *, name: str, unit: str, **more: str | int | bool | None) -> Self:
        """The command for the arguments of `check_command`; `unit` ends with "/s".

        Raises:
            WorkloadError: as the class does, or no program is named.
        """
        counted = unit.removesuffix("/s") if isinstance(unit, str) else unit
        if counted == unit:
            raise WorkloadError(f"{name}: unit={unit!r}: write what is counted in a second, as in 'examples/s'")
        if isinstance(argv, str) or not argv or not all(isinstance(word, str | Path) for word in argv):
            raise WorkloadError(
                f"{name}: the command {argv!r:.80} must be a list of a program and its arguments, as in "
                '[sys.executable, "train.py", "--epochs=1"]'
            )
        given = {field: value for field, value in more.items() if value is not None}
        return cls(name=name, argv=tuple(map(str, argv)), unit=counted, **given)  # type: ignore[arg-type]

    @classmethod
    def parse(cls, id: str) -> Self:
        """The command of this name, as files know it.

        Raises:
            WorkloadError: the text is not a command's name.
        """
        return cls(name=id)

    @property
    def id(self) -> str:
        """Its name."""
        return self.name

    @property
    def digest(self) -> str:
        """Tells commands apart without saying what they are: arguments may be secret. The interpreter does not count.

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
        return 1 if self.unit == STEPS and self.examples_per_step is None else self.examples_per_step

    def _require_readable_pattern(self) -> None:
        try:
            groups = re.compile(self.pattern).groupindex
        except (re.error, RecursionError, OverflowError) as error:
            raise WorkloadError(f"{self.name}: pattern={self.pattern!r} is no regular expression: {error}") from None
        if unknown := [group for group in groups if group not in (*READ_BY_GROUP, "loss")]:
            raise WorkloadError(f"{self.name}: pattern: {one_of('group', unknown[0], (*READ_BY_GROUP, 'loss'))}")
        found = [group for group in READ_BY_GROUP if group in groups]
        if len(found) != 1:
            have = f"has the groups {' and '.join(found)}" if found else "has no named group"
            raise WorkloadError(
                f"{self.name}: pattern={self.pattern!r} {have}: it must have one of {', '.join(READ_BY_GROUP)}, as in "
                r"r'speed (?P<rate>[\d.]+)'"
            )
        if found != ["rate"] and self.counted_per_step is None:
            raise WorkloadError(f"{self.name}: the pattern reads {found[0]}: {SAY_HOW_MANY}")

    def __str__(self) -> str:
        return self.id


SAY_HOW_MANY = "say how many units a step holds over all devices with examples_per_step=N, or count unit='steps/s'"
"""The next step where steps or their times are read, and rates are wanted."""

Subject = Workload | Command
"""What a test measures. Most of the flow needs only its id."""


def parse_subject(id: str) -> Subject:
    """The workload, or else the command, of this id.

    Raises:
        WorkloadError: it is neither.
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
