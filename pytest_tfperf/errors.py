"""The errors of this package. Every message gives the fact, the location and the next step."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Self, TypeVar

from pytest_tfperf.lines import Line, lines_of, plain, short_lines, shortened


class TfperfError(Exception):
    """A fault that the user can fix; its text is shown, without the passwords of URLs and with long lines shortened.

    Args:
        fact: the fault, in one line that stands alone, without a full stop.
        below: further lines: the end of a log, the next step.
        next_step: sentences that follow the fact; "" where the fact or a line below has the next step.
        where: the location: a source line, or the workload and its devices; "" where the raising code does not know it.
        brief: the fact with its cause, for where only one line is shown; "" for the fact alone.
    """

    def __init__(
        self, fact: object = "", *below: Line | str, next_step: str = "", where: str = "", brief: str = ""
    ) -> None:
        self.fact, self.next_step, self.below, self.where = str(fact), next_step, below, where
        self.brief = brief or self.fact
        Exception.__init__(self, self.fact)

    def __str__(self) -> str:
        return plain(self.lines)

    def __repr__(self) -> str:  # the fact in `args` may have a password
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def text(self) -> str:
        """The fact and the next step."""
        return f"{self.fact}. {self.next_step}" if self.next_step else self.fact

    @property
    def lines(self) -> list[Line]:
        """The whole message; a long line loses its middle, and keeps the next step at its end."""
        lines = lines_of(f"{self.where}: {self.text}" if self.where else self.text, *self.below)
        return [replace(line, text=short_lines(line.text)) for line in lines]

    @property
    def headline(self) -> str:
        """The location and the fact, without the next step."""
        return f"{self.where}: {self.fact}" if self.where else self.fact

    def at(self, where: str, *first: Line | str) -> Self:
        """Return the same error with a location before it, and further lines directly below the fact."""
        return self._again((*first, *self.below), ": ".join(filter(None, (where, self.where))))

    def and_below(self, *last: Line | str) -> Self:
        """Return the same error with further lines at its end."""
        return self._again((*self.below, *last), self.where)

    def of_type(self, kind: type[E]) -> E:
        """Return the same error as another type."""
        return kind(self.fact, *self.below, next_step=self.next_step, where=self.where, brief=self.brief)

    def _again(self, below: tuple[Line | str, ...], where: str) -> Self:
        # Subclasses have other arguments, and attributes of their own, which are kept.
        copy = type(self).__new__(type(self))
        copy.__dict__ |= self.__dict__
        TfperfError.__init__(copy, self.fact, *below, next_step=self.next_step, where=where, brief=self.brief)
        return copy


E = TypeVar("E", bound=TfperfError)


class WorkloadError(TfperfError, ValueError):
    """A workload has an unknown name or an impossible combination of options."""


class UnknownFunction(WorkloadError):
    """A workload names a function or module that cannot be found."""


class NotInstalled(WorkloadError):
    """A workload needs a package that is not installed here; the plugin skips."""


class NotEnoughDevices(TfperfError):
    """The machine has fewer (or less equal) devices than a test asks for; the plugin skips.

    `wanted` is the number of GPUs asked for; 0 if something else is missing.
    """

    def __init__(self, fact: str, wanted: int = 0, *, next_step: str = "") -> None:
        super().__init__(fact, next_step=next_step)
        self.wanted = wanted


class NotEnoughNodes(NotEnoughDevices):
    """A test asks for more nodes than the launcher knows of."""


class NoData(TfperfError):
    """A test reads a data set whose folder was not given; the plugin skips."""


class BaselineError(TfperfError):
    """A file of baselines can't be read whole or can't be written."""


class MeasurementError(TfperfError):
    """Nothing could be measured: the worker died, hung, or gave invalid numbers."""


class BaselineRefused(MeasurementError):
    """A test was measured, but its runs are no baseline: they differ too much, or there is only one."""


class Hung(MeasurementError):
    """A worker sent nothing for longer than the time-out, and was killed."""


class TrainingEnded(MeasurementError):
    """A training ended by itself before all windows were taken; those before it count."""


class OneAtATime(MeasurementError):
    """Two trainings can't run at once, so that their windows could be taken in turn."""


class OutOfMemory(MeasurementError):
    """A worker ran out of memory: its devices', the host's, or the part that a limit leaves."""


class DeviceFailed(MeasurementError):
    """A GPU, its driver or one of its libraries failed, or a disk is full; no side of a comparison is to blame."""


class UserCodeFailed(MeasurementError):
    """The user's own model, pipeline or program raised or ended badly; the machine is not to blame."""


class NoStep(UserCodeFailed):
    """A program took no step of a training that its probe can see, and did not fail."""


class FunctionMissing(UserCodeFailed):
    """A workload names a model or pipeline that does not exist."""


class FailsHereOnly(UserCodeFailed):
    """Side b of a comparison failed twice and side a runs: the test fails, as for a regression."""


class Lack(StrEnum):
    """The reasons why the other side of a comparison has nothing to compare with; the values are their words."""

    FOLDER = "NEW: {side} has no folder {what}"
    FILE = "NEW: {side} has no {what}"
    FUNCTION = "NEW: {what}"
    OWN_CODE = (
        "nothing of this repository is in it, so both sides would be the same. Give it a model, pipeline or program of "
        "your own"
    )
    RUNNING_CODE = "{what}"
    """Its own code fails; whether this side's does is not known yet."""


class NotCompared(TfperfError):
    """The other side of a comparison can't run this test, so this side is measured alone.

    `what` it lacks, or how its code fails; then `output` is the end of its output.
    """

    def __init__(self, lack: Lack, *output: Line, what: object = "", side: str = "", brief: str = "") -> None:
        TfperfError.__init__(self, lack.format(side=side, what=what), *output, brief=brief)
        self.lack = lack


class Failure(AssertionError):
    """A test was measured, and its outcome fails it."""

    def __init__(self, *lines: Line | str) -> None:
        self.lines = list(lines_of(*lines))
        AssertionError.__init__(self, plain(self.lines))

    @property
    def brief(self) -> str:
        """The fact, for a line that names the test already."""
        return str(self.lines[0])


class GateFailure(Failure):
    """No regression is confirmed, but `--tfperf-require-baseline` or `--tfperf-strict` fails the test."""


class ThroughputRegression(Failure):
    """The confirmed drop is larger than the tolerance and than noise can explain."""


@contextmanager
def worded(path: object, verb: str, next_step: str = "", *, kind: type[TfperfError] = TfperfError) -> Iterator[None]:
    """Raise an error of the system, or text that is not UTF-8, as "PATH can't be read: REASON. NEXT STEP".

    The verb is "read", "written" or "run". Where the disk is full, or a file is in the way of what is to be written,
    there is another next step.
    """
    try:
        yield
    except UnicodeDecodeError:
        if verb != "read":
            raise
        raise kind(f"{path} can't be {verb}: it is not UTF-8", next_step=next_step) from None
    except OSError as error:
        why, (_, comma, otherwise) = error.strerror or str(error), next_step.partition(", or ")
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            next_step = f"Free some space{comma}{otherwise}"
        elif verb == "written" and error.errno in (errno.EEXIST, errno.ENOTDIR, errno.ELOOP):
            why, next_step = "a file is in its way", f"Move that file away{comma}{otherwise}"
        raise kind(f"{path} can't be {verb}: {why}", next_step=next_step) from None


def one_of(kind: str, name: object, good: object) -> str:
    """Return the sentences for a bad name: that it is unknown, and which names are known."""
    return f"{unknown(kind, name)}. {known_names(name, good)}"


def unknown(kind: str, name: object) -> str:
    """Return the fact that a name is unknown."""
    return f"unknown {kind} {shortened(name)!r}"


def known_names(name: object, good: object) -> str:
    """Return the sentences that list the good names, after the nearest to the bad name where one is near."""
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
"""The URL of this version's documentation: `docs/` in an installed wheel, or in a checkout."""


def page(name: str) -> str:
    """Return the URL of a page such as "cluster.md", for a next step."""
    return f"{DOCS}/{name}"
