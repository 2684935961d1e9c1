"""Pull and push: the difference of names between a history and a place that keeps documents of sessions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import documents
from pytest_tfperf.workers.process_end import kill_group

if TYPE_CHECKING:
    from pytest_tfperf.features.sharing.destination import Destination
    from pytest_tfperf.stores.history_file import HistoryFile

SESSION_SECONDS: Final = 5.0
"""How long a session waits for its pull, and for its push."""

_NAME: Final = re.compile(r"v1/(?!\.)[^/]+/(?P<month>\d{4}-\d{2})/(?!\.)[^/]+\.json\.gz")
_FIRST_BYTES, _MOST_BYTES = 100_000, 2_000_000  # of a portion that is sent
_WHOLE_DAYS: Final = 90  # as `tfperf_details_days`
_A_DAY: Final = timedelta(days=1)


def pull(
    database: HistoryFile, place: Destination, machines: Collection[str] = ()
) -> Iterator[tuple[int, Sequence[str]]]:
    """Add the sessions that a history lacks, those of `machines` first, then the newest first.

    Yields, after each part, how many have been added so far, and why others were refused; what was added stays where a
    later part fails. Measurements that are older than those which a history keeps whole by default arrive without their
    details.

    Raises:
        TfperfError: the place or the history can't be used.
    """
    known, now = documents.known_names(database), datetime.now(UTC)
    whole_since, last_month = (now - _WHOLE_DAYS * _A_DAY).timestamp(), f"{now + _A_DAY:%Y-%m}"
    before, refused = 0, list[str]()
    for prefix in (*map(documents.prefix_of, machines), documents.ROOT):
        matches = filter(None, map(_NAME.fullmatch, place.list(prefix)))
        names = {match[0] for match in matches if match["month"] <= last_month} - known
        known |= names
        # After the machine a name has the month and the session's id, which begins with its time.
        newest_first = sorted(names, key=lambda name: name.split("/")[2:], reverse=True)
        added, why = 0, list[str]()
        for added, why in documents.add(database, place.get(newest_first), whole_since=whole_since):
            yield before + added, [*refused, *why]
        before, refused = before + added, [*refused, *why]


def push(database: HistoryFile, place: Destination, sessions: Mapping[str, int]) -> tuple[int, list[str]]:
    """Send the documents that the place lacks, the newest first; those that arrived stay if a later one fails.

    Returns how many were sent, and why others can't be: a damaged row keeps no other session from being sent.

    Args:
        sessions: names and numbers of sessions, as `documents.sessions_of` gives them.

    Raises:
        TfperfError: the place or the history can't be used.
    """
    prefixes = {"/".join(name.split("/")[:2]) + "/" for name in sessions}
    there = {name for prefix in sorted(prefixes) for name in place.list(prefix)}
    sent, faults = 0, list[str]()

    def encoded() -> Iterator[tuple[str, bytes]]:
        for name in reversed([*sessions]):
            if name not in there:
                try:
                    yield name, documents.encoded(database, sessions[name])
                except (TfperfError, LookupError, TypeError, ValueError) as error:
                    faults.append(f"{name} can't be sent, its rows are damaged: {error}")

    for portion in _portions(encoded()):
        place.put(portion)
        sent += len(portion)
    return sent, faults


def _portions(encoded: Iterable[tuple[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """Yield a few documents and then more and more at once, so that each session sends some in its few seconds."""
    portion: dict[str, bytes] = {}
    size, most = 0, _FIRST_BYTES
    for name, data in encoded:
        portion[name] = data
        size += len(data)
        if size >= most:
            yield portion
            portion, size, most = {}, 0, min(2 * most, _MOST_BYTES)
    if portion:
        yield portion


def in_a_process(arguments: Sequence[str], url: HistoryUrl, folder: Path, root: Path) -> tuple[int | None, list[str]]:
    """Run `tfperf history ARGUMENTS`; returns its exit status and its lines.

    After `SESSION_SECONDS` it is killed with its children, and its status is None: a driver may wait for a name server,
    or for a network that drops packets, longer than any limit of its own.
    """
    command = [sys.executable, "-P", "-m", "pytest_tfperf.cli", "history", *arguments]
    process = subprocess.Popen(
        [*command, "--history", str(folder.absolute())],
        cwd=root,
        env=os.environ | {VARIABLE: url.secret},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=SESSION_SECONDS)
        status: int | None = process.returncode
    except BaseException as error:
        kill_group(process.pid)
        if not isinstance(error, subprocess.TimeoutExpired):  # Ctrl-C
            raise
        said, _ = process.communicate()
        status = None
    return status, [line.removeprefix("tfperf: ") for line in said.splitlines() if line.strip()]
