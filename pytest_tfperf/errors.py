"""What can go wrong, as types. Every message gives the fact, the place and the next step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, Self, TypeVar

from pytest_tfperf.lines import Line, lines_of, plain, short_lines, shortened


class TfperfError(Exception):
    """A fault that the user can fix; its text is shown, without the passwords of URLs and with long lines shortened.

    Args:
        fact: what went wrong, in one line that stands alone, without a full stop.
        below: further lines: the end of a log, the next step.
        next_step: what to do, with what explains it: sentences behind the fact; "" where the fact or a line below says
            it.
        where: the place: a source line, or what was measured, and on what; "" where the one who raises it does not
            know.
        brief: the fact with its cause, for a line that has room for nothing else; "" for the fact alone.
    """

    def __init__(
        self, fact: object = "", *below: Line | str, next_step: str = "", where: str = "", brief: str = ""
    ) -> None:
        self.fact, self.next_step, self.below, self.where = str(fact), next_step, below, where
        self.brief = brief or self.fact
        Exception.__init__(self, plain(self.lines))

    @property
    def text(self) -> str:
        """The fact and the next step."""
        return f"{self.fact}. {self.next_step}" if self.next_step else self.fact

    @property
    def lines(self) -> list[Line]:
        """The whole message; each line is shortened, whatever it repeats, and the next step at its end stays."""
        lines = lines_of(f"{self.where}: {self.text}" if self.where else self.text, *self.below)
        return [replace(line, text=short_lines(line.text)) for line in lines]

    @property
    def headline(self) -> str:
        """The place and the fact, without what to do."""
        return f"{self.where}: {self.fact}" if self.where else self.fact

    def at(self, where: str, *first: Line | str) -> Self:
        """The same error with the place before it, and further lines directly below the fact."""
        return self._again((*first, *self.below), ": ".join(filter(None, (where, self.where))))

    def and_below(self, *last: Line | str) -> Self:
        """The same error with further lines at its end."""
        return self._again((*self.below, *last), self.where)

    def of_type(self, kind: type[E]) -> E:
        """The same error as one of another type."""
        return kind(self.fact, *self.below, next_step=self.next_step, where=self.where, brief=self.brief)

    def _again(self, below: tuple[Line | str, ...], where: str) -> Self:
        again = type(self).__new__(type(self))
        again.__dict__ |= self.__dict__
        TfperfError.__init__(again, self.fact, *below, next_step=self.next_step, where=where, brief=self.brief)
        return again


E = TypeVar("E", bound=TfperfError)


class WorkloadError(TfperfError, ValueError):
    """A workload that names something unknown or asks for something impossible."""


class UnknownFunction(WorkloadError):
    """A workload names a function or module that cannot be found."""


class NotInstalled(WorkloadError):
    """A workload needs a package that is not installed here; the plugin skips."""


class NotEnoughDevices(TfperfError):
    """The machine has fewer (or less equal) devices than a test asks for; the plugin skips.

    Args:
        fact: what is needed and what there is.
        wanted: GPUs that were asked for; 0 if something else is missing.
    """

    def __init__(self, fact: str, wanted: int = 0, *, next_step: str = "") -> None:
        super().__init__(fact, next_step=next_step)
        self.wanted = wanted


class NotEnoughNodes(NotEnoughDevices):
    """A test asks for more nodes than the launcher knows of."""


class NoData(TfperfError):
    """A test reads a data set whose folder was not given; the plugin skips."""


class BaselineError(TfperfError):
    """A baseline file that can't be read whole, or can't be written."""


class DocumentError(TfperfError):
    """A document or log that is not in the form that its importer knows; names file and line."""


class MeasurementError(TfperfError):
    """Nothing could be measured: the worker died, hung, or gave invalid numbers."""


class BaselineRefused(MeasurementError):
    """A test was measured, but its runs are no baseline: they differ too much, or there is only one."""


class Hung(MeasurementError):
    """A worker sent nothing for longer than the time-out, and was killed."""


class OutOfMemory(MeasurementError):
    """A worker ran out of memory: its devices', the host's, or what a limit leaves of it."""


class UserCodeFailed(MeasurementError):
    """The user's own model, pipeline or program raised or ended badly; the machine is not to blame."""


class FunctionMissing(UserCodeFailed):
    """There is no model or pipeline of the name that a workload gives."""


class NotCompared(TfperfError):
    """The other side of a comparison has nothing to compare with, so what is here is measured alone; says why."""


class FailsThere(NotCompared):
    """The other side's own code can't run; whether the code here can is to be seen."""


class Failure(AssertionError):
    """A test was measured, and its outcome fails it.

    Args:
        lines: the message.
    """

    def __init__(self, *lines: Line | str) -> None:
        self.lines = list(lines_of(*lines))
        AssertionError.__init__(self, plain(self.lines))

    @property
    def brief(self) -> str:
        """Its fact, for a line that names the test already."""
        return str(self.lines[0])


class GateFailure(Failure):
    """No regression is confirmed, but `--tfperf-require-baseline` or `--tfperf-strict` fails the test all the same."""


class FailsHereOnly(Failure):
    """The code of this side can't be measured, again and again, and that of the other side can."""


class ThroughputRegression(Failure):
    """The confirmed drop is larger than the tolerance and than noise can explain."""


def one_of(kind: str, name: object, good: object) -> str:
    """The sentences for a bad name: it is unknown, and these are known."""
    return f"{unknown(kind, name)}. {known_names(name, good)}"


def unknown(kind: str, name: object) -> str:
    """The fact that a name is unknown."""
    return f"unknown {kind} {shortened(name)!r}"


def known_names(name: object, good: object) -> str:
    """The good names beside a bad one, the nearest first where one is near."""
    from difflib import get_close_matches

    names = sorted(shortened(g) for g in good)  # type: ignore[attr-defined]  # any iterable of names
    if not names:
        return "There are none."
    near = get_close_matches(shortened(name), names, n=1)
    return f"{f'Did you mean {near[0]!r}? ' if near else ''}Known: {', '.join(names)}."


_PACKAGE: Final = Path(__file__).resolve().parent

DOCS: Final = next(
    (folder for folder in (_PACKAGE / "docs", _PACKAGE.parent / "docs") if folder.is_dir()), _PACKAGE / "docs"
).as_uri()
"""The URL of the documentation that fits this version: `docs/` in an installed wheel, or that of a checkout."""


def page(name: str) -> str:
    """The URL of a page such as "cluster.md", for a next step."""
    return f"{DOCS}/{name}"
