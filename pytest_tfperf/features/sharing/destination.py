"""The places that keep documents of sessions, by one interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from pytest_tfperf.core.history_url import HistoryUrl, Kind
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened

MOST_BYTES: Final = 64 * 2**20
"""The largest document that is fetched: others may have written anything."""

_BYTES_AT_ONCE: Final = 500_000  # a session sends or gets so much over a slow network in its 5 s
_NAMES_AT_ONCE: Final = 100
_MOST_OF_NAME: Final = 600  # characters; a row of PostgreSQL's index has 2,700 bytes, a key of S3 1,024


class Destination(Protocol):
    """A place that keeps documents of sessions, each under a name like "v1/MACHINE/2026-11/SESSION.json.gz".

    Each method raises TfperfError, without a secret of the URL, where the place as a whole can't be used.
    """

    def list(self, prefix: str = "v1/") -> Sequence[str]:
        """Return the names that begin with the prefix, in any order."""

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield names and documents as they arrive; those that are gone or above `MOST_BYTES` are left out."""

    def put(self, documents: Mapping[str, bytes]) -> None:
        """Store the documents, each whole or not at all; one whose name exists stays as it is."""


def destination_of(url: HistoryUrl, *, folder: Path, root: Path) -> Destination:
    """Return the place that the URL names, without a connection to it yet.

    Args:
        folder: the session's own folder, `.tfperf`, for a clone of a git repository.
        root: the folder of the tests; its repository is `git+.`, and the paths of folders are relative to it.
    """
    # Each driver is imported only where it is used: sessions without one need none of them.
    if url.kind is Kind.GIT:
        from pytest_tfperf.features.sharing.git_branch import GitBranch

        return GitBranch(url, folder=folder, root=root)
    if url.kind is Kind.POSTGRESQL:
        from pytest_tfperf.features.sharing.postgresql import PostgresqlTable

        return PostgresqlTable(url)
    from pytest_tfperf.features.sharing.stored_folder import Folder, Store

    return Folder(root / Path(url.address).expanduser()) if url.kind is Kind.FOLDER else Store(url)


def portions(sizes: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Yield names for one request each, in their order; documents above `MOST_BYTES` are left out."""
    portion: list[str] = []
    total = 0
    for name, size in sizes:
        if size > MOST_BYTES:
            continue
        if portion and (total + size > _BYTES_AT_ONCE or len(portion) == _NAMES_AT_ONCE):
            yield portion
            portion, total = [], 0
        portion.append(name)
        total += size
    if portion:
        yield portion


def is_name(name: str) -> bool:
    """Return whether a document's name is a relative path that does not leave its place."""
    is_inside = not name.startswith("/") and ".." not in name.split("/")
    return is_inside and name.isprintable() and 0 < len(name) <= _MOST_OF_NAME


def require_storable(documents: Mapping[str, bytes]) -> None:
    """Check that `get` would give the documents, before anything is stored.

    Raises:
        TfperfError: it would leave one out.
    """
    for name, data in documents.items():
        if not is_name(name):
            raise TfperfError(f"{shortened(name)!r} can't be the name of a session's document")
        if len(data) > MOST_BYTES:
            raise TfperfError(f"{name}: a document of {len(data):,} bytes is above {MOST_BYTES:,}")
