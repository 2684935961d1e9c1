"""The version of a kept file or a history's tables, and what its reader accepts: see docs/formats.md."""

from __future__ import annotations

from pytest_tfperf.errors import TfperfError


class NewerFormat(TfperfError):
    """A newer version of pytest-tfperf wrote it; it is left as it is."""


def require_version(version: object, place: object, *, newest: int, otherwise: str = "") -> None:
    """Check that this pytest-tfperf reads a version.

    Args:
        version: the version that is written there.
        place: the file or the server.
        newest: the newest version that is read here; all before it are, too.
        otherwise: the alternative to an upgrade of pytest-tfperf; "" for none.

    Raises:
        NewerFormat: it is a later version.
        TfperfError: it is no version, because the place is damaged.
    """
    if isinstance(version, int) and version > newest:
        raise NewerFormat(
            f"{place} has version {version} of its format, and this pytest-tfperf reads version {newest}",
            next_step=f"Upgrade pytest-tfperf{otherwise and ', or '}{otherwise}",
        )
    if version not in range(1, newest + 1):
        raise TfperfError(
            f"{place} is damaged: {version!r:.60} is no version of its format",
            next_step=f"Restore it{otherwise and ', or '}{otherwise}",
        )
