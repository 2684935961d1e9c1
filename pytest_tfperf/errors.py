"""What can go wrong, as types. Every message gives the fact, the place and the next step."""

from __future__ import annotations

from typing import Self

from pytest_tfperf.safe_text import short_lines, shortened


class TfperfError(Exception):
    """A fault that the user can fix; its text is shown, without the passwords of URLs and with long lines shortened."""

    def __init__(self, text: object = "") -> None:
        Exception.__init__(self, short_lines(str(text)))


class WorkloadError(TfperfError, ValueError):
    """A workload that names something unknown or asks for something impossible."""


class NotInstalled(WorkloadError):
    """A workload needs a package that is not installed here; the plugin skips."""


class NotEnoughDevices(TfperfError):
    """The machine has fewer (or less equal) devices than a test asks for; the plugin skips.

    Args:
        text: what is needed and what there is.
        wanted: GPUs that were asked for; 0 if something else is missing.
    """

    def __init__(self, text: str, wanted: int = 0) -> None:
        super().__init__(text)
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
    """Nothing could be measured: the worker died, hung, or gave invalid numbers.

    Args:
        fact: what went wrong, in one line.
        below: further lines: the end of a log, the next step.
        where: what was measured, and on what; "" where the one who raises it does not know.
        brief: the fact for a line that has room for nothing else, with its cause; "" for the fact itself.
    """

    def __init__(self, fact: object = "", *below: str, where: str = "", brief: str = "") -> None:
        self.fact, self.below, self.where = str(fact), below, where
        self.brief = brief or self.fact
        super().__init__("\n".join([f"{where}: {fact}" if where else self.fact, *below]))

    def at(self, where: str, *first: str) -> Self:
        """The same error with the place before it, and further lines directly below the fact."""
        return self._again((*first, *self.below), where)

    def and_below(self, *last: str) -> Self:
        """The same error with further lines at its end."""
        return self._again((*self.below, *last), self.where)

    def _again(self, below: tuple[str, ...], where: str) -> Self:
        return type(self)(self.fact, *below, where=where, brief=self.brief)


class BaselineRefused(MeasurementError):
    """A test was measured, but its runs are no baseline: they differ too much, or there is only one."""


class Hung(MeasurementError):
    """A worker sent nothing for longer than the time-out, and was killed."""


class OutOfMemory(MeasurementError):
    """A worker ran out of memory: its devices', the host's, or what a limit leaves of it."""


class ThroughputRegression(AssertionError):
    """The confirmed drop is larger than the tolerance and than noise can explain."""


def one_of(kind: str, name: object, good: object) -> str:
    """The sentences for a bad name: it is unknown, and these are known."""
    return f"unknown {kind} {shortened(name)!r}. {known_names(name, good)}"


def known_names(name: object, good: object) -> str:
    """The good names beside a bad one, the nearest first where one is near."""
    from difflib import get_close_matches

    names = sorted(shortened(g) for g in good)  # type: ignore[attr-defined]  # any iterable of names
    if not names:
        return "There are none."
    near = get_close_matches(shortened(name), names, n=1)
    return f"{f'Did you mean {near[0]!r}? ' if near else ''}Known: {', '.join(names)}."
