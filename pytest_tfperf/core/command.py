"""A user's own program, which is measured by what it prints: the `Command`, and what `check_command` accepts."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pytest_tfperf.core.baseline import is_unit
from pytest_tfperf.core.reads import SAY_HOW_MANY, Reads
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import WorkloadError

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
        reads: how its output is read.
        ranks_per_node: how many processes of it an engine starts on each of several nodes.
        environment: variables that it gets beside pytest's own, as pairs.
        terminal: it prints into a terminal of its own, because some programs draw their progress only there.

    Raises:
        WorkloadError: an invalid name, argument or unit, or steps that nobody said the size of; says what to write.
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
        variables = environment or {}
        if any(not isinstance(text, str) for pair in variables.items() for text in pair):
            raise WorkloadError(f"{name}: env must map names of environment variables to texts")
        # The operating system ends each of these texts at a NUL.
        for kind, texts in (("argument", argv), ("variable", [*variables, *variables.values()])):
            if found := [str(text) for text in texts if "\0" in str(text)]:
                raise WorkloadError(f"{name}: the {kind} {found[0]!r:.80} contains a NUL character: remove it")
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
        given = self.reads.examples_per_step
        return 1 if self.unit == STEPS and given is None else given

    def __str__(self) -> str:
        return self.id


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
