"""Which versions of an exported file and of a history's tables can be read. The first release defines version 1."""

from __future__ import annotations

from typing import Final

from pytest_tfperf.errors import TfperfError

VERSION: Final = 1
"""Of both. It stays where a field is added that has a default: whoever does not know it leaves it out."""


def require_version(found: object, place: str, *, otherwise: str) -> None:
    """Refuse what another version of pytest-tfperf wrote.

    Args:
        found: the version that the file or the tables name.
        place: the file or the server.
        otherwise: what to do where pytest-tfperf is to stay as it is.

    Raises:
        TfperfError: it is not `VERSION`.
    """
    if found != VERSION:
        raise TfperfError(
            f"{place}: it has version {found!r} of its format, and this pytest-tfperf reads version {VERSION}",
            next_step=f"Upgrade pytest-tfperf, or {otherwise}",
        )
