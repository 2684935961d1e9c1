"""The words of acknowledged losses, and of whom a test belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_tfperf.core.acknowledgement import Acknowledgement, Standing
from pytest_tfperf.core.figure import BUILT_IN, RATE, Figure, shown_name
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import LOSSES
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import compared, written_in


def loss(entry: Acknowledgement, change: float) -> str:
    """Write a change of what is acknowledged: "13.2 % slower", "peak memory +1.5 GiB"."""
    if entry.figure == RATE:
        return compared(change).removesuffix(" than").replace("level with", "no slower")
    unit = Figure(entry.figure).unit if entry.figure in BUILT_IN else None
    return f"{shown_name(entry.figure)} {'-' if change < 0 else '+'}{written_in(unit or '', abs(change))}"


def acknowledged_test(entry: Acknowledgement, known: Iterable[Acknowledgement]) -> str:
    """Write the test of an acknowledgement, with the call where other calls of the test are acknowledged, too."""
    is_alone = sum(other.key[:3] == entry.key[:3] for other in known) < 2
    return entry.test if is_alone else f"{entry.test} ({entry.call})"


def lines_about_owner(m: Measurement) -> Iterator[Line]:
    """Yield a message's lines about the losses that the team knows of, and the owner of the test."""
    for verdict in m.verdicts:
        entry = verdict.acknowledged
        if entry is not None and verdict.outcome in LOSSES:
            known = f"acknowledged {loss(entry, entry.change)} until {entry.until}"
            match verdict.standing(m.day):
                case Standing.WORSE:
                    known = f"WORSE than {known}"
                case Standing.ENDED:
                    known += ", which is over"
            yield Line(f"{known}: {entry.why}", "known loss")
    if m.owner:
        yield Line(m.owner, "owner")
