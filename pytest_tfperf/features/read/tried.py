"""The ways to read an output that no known format reads, as far as they give a rate for this very output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from pytest_tfperf.core.command import Command
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.features.read.printed import Printed, Result, measure
from pytest_tfperf.programs.proposals import Proposal, proposals

_MOST_TRIED = 20
_MOST_KEPT = 3


@dataclass(frozen=True)
class Tried:
    """A command that reads the output.

    Args:
        command: with the arguments that read it.
        counts: what its numbers count, as in `Proposal`.
        result: of all lines, however few.
    """

    command: Command
    counts: str
    result: Result


def tried(command: Command, printed: Printed, devices: int, *, unit_is_given: bool) -> list[Tried]:
    """The ways that read the output, those that mislead least first."""
    return list(islice(_that_read(command, printed, devices, unit_is_given=unit_is_given), _MOST_KEPT))


def _that_read(command: Command, printed: Printed, devices: int, *, unit_is_given: bool) -> Iterator[Tried]:
    kept = set()
    for proposal in islice(proposals(printed.lines()), _MOST_TRIED):
        if proposal.counts in kept:
            continue
        way = _command(command, proposal, unit_is_given=unit_is_given)
        # To its end, because some programs print a few lines in the seconds of a trial.
        to_the_end = replace(way, reads=replace(way.reads, until_end=True))
        with suppress(MeasurementError):
            result = measure(to_the_end, printed, devices)
            kept.add(proposal.counts)
            yield Tried(way, proposal.counts, result)


def _command(command: Command, proposal: Proposal, *, unit_is_given: bool) -> Command:
    """The command with what is proposed, and with what the user gave."""
    given, reads = command.reads, proposal.reads
    if proposal.counts and given.examples_per_step is not None:
        return replace(command, reads=replace(reads, examples_per_step=given.examples_per_step))
    if proposal.counts or not unit_is_given:
        return replace(command, unit=f"{proposal.unit}/s", reads=reads)
    return replace(command, reads=reads)
