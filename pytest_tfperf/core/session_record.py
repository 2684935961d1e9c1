"""What came of a session, for what is written at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.session_verdicts import SessionVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """What came of a session.

    Args:
        selection: the throughput tests that pytest selected.
        results: what they gave, in order.
        verdicts: on software and machine as a whole.
        not_measured: of each test that ended in an error, the message.
        refused: of each test that was measured and whose baseline was refused, the message.
        left_out: tests that there was no time for, and the seconds that each would take.
        remarks: further lines of its summary.
        keeps_history: whether it added what it measured to the history.
    """

    selection: Selection = field(default_factory=Selection)
    results: Sequence[Measurement | Comparison] = ()
    verdicts: Sequence[SessionVerdict] = ()
    not_measured: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, float] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    keeps_history: bool = False

    @property
    def measurements(self) -> list[Measurement]:
        """The results that are no comparisons."""
        return [one for one in self.results if isinstance(one, Measurement)]

    @property
    def comparisons(self) -> list[Comparison]:
        """The results that compare two sides."""
        return [one for one in self.results if isinstance(one, Comparison)]
