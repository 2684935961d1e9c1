"""What a session leaves behind when it ends, besides its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_tfperf.session import Session

_OUTPUTS: tuple[Callable[[Session], list[str]], ...] = ()
"""Each writes one thing, if it was asked for, and returns what to tell the user."""


def write_outputs(session: Session) -> list[str]:
    """Write all that was asked for; returns what to tell the user, one line each. A fault is told, and never raised."""
    lines = []
    for output in _OUTPUTS:
        try:
            lines += output(session)
        except (OSError, TfperfError) as error:
            lines.append(str(error))
    return lines
