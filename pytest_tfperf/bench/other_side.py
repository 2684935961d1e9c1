"""What a session compares each check with, in place of a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pytest_tfperf.bench.comparing import Effort
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.pairs import ErrorRates
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the comparisons of a session are decided.

    Args:
        tolerance: holds for all tests; None for each test's own.
        effort: when each is given up.
        error_rates: how often one may be wrong.
        compares_figures: whether the figures of each check are compared, too.
    """

    tolerance: Tolerance | None = None
    effort: Effort = field(default_factory=Effort)
    error_rates: ErrorRates = field(default_factory=ErrorRates)
    compares_figures: bool = True


class OtherSide(Protocol):
    """Side a of each check's comparison, and what is special about side b; one for a session."""

    @property
    def announcement(self) -> Sequence[str]:
        """Lines before the first test: what is compared with what."""

    @property
    def facts(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """What tells a and b apart, for the environment of either: "commit" -> "1a2b3c4d5e6f"."""

    @property
    def terms(self) -> Terms:
        """How comparisons are decided."""

    @property
    def may_lack_code(self) -> bool:
        """Whether what a's code can't run is measured alone; otherwise it is an error."""

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """What starts the workers of a and of b; `here` starts them on the current code, `launch` under a Python."""

    def refuse(self, subject: Subject, test: str) -> None:
        """Return if the subject of a test (pytest's node id) can be compared.

        Raises:
            NotCompared: the other side has no such test.
            TfperfError: both sides would be the same.
        """

    def close(self) -> None:
        """Release what the session held."""
