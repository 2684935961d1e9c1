"""Baselines on disk: one CSV for each machine, read whole or not at all, written atomically under a lock."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, final

from pytest_tfperf.core.baseline import Baseline, BaselineUpdate, Key
from pytest_tfperf.core.topology import check_name, is_name
from pytest_tfperf.errors import BaselineError, worded
from pytest_tfperf.stores import baseline_file, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


_PACKAGE: Final = Path(__file__).parents[1]
# The documents' baselines: `published/` in an installed wheel, `baselines/` in a checkout.
_PUBLISHED: Final = next((f for f in (_PACKAGE / "published", _PACKAGE.parent / "baselines") if f.is_dir()), None)

_WAY_OUT: Final = (
    "Make it writable, or name another folder with --tfperf-baselines=DIR (or the ini value tfperf_baselines)"
)


@final
class BaselineStore:
    """The user's folder of baselines, over the published ones that ship with the package.

    Args:
        folder: where `update` writes; it need not exist before.
        published: a read-only folder, whose published rows alone count; None for no such folder.
    """

    def __init__(self, folder: Path, published: Path | None = _PUBLISHED) -> None:
        self.folder = folder
        self._folders = [folder] if published is None else [published, folder]
        self._locked = False
        self._read: dict[Path, tuple[tuple[int, ...], dict[Key, Baseline]]] = {}

    def load(self, machine: str) -> dict[Key, Baseline]:
        """Return a machine's throughputs by key, none for an unknown machine; a user's row replaces the shipped row.

        Raises:
            BaselineError: a name that can't be a machine's, or a file that can't be read whole; names file and line.
        """
        return {key: row for key, row in self._load(machine).items() if not key.figure}

    def figures(self, machine: str) -> dict[Key, Baseline]:
        """Return a machine's rows of figures beside the throughput, by key.

        Raises:
            BaselineError: as `load`.
        """
        return {key: row for key, row in self._load(machine).items() if key.figure}

    def _load(self, machine: str) -> dict[Key, Baseline]:
        check_name(machine)
        rows: dict[Key, Baseline] = {}
        for folder in self._folders:
            rows |= self._rows(folder, machine)
        return rows

    def machines(self) -> list[str]:
        """Return the machines that have a file, published ones included."""
        names = {file.stem for folder in self._folders if folder.is_dir() for file in folder.glob("*.csv")}
        return sorted(filter(is_name, names), key=baseline_file.natural)

    def published(self, like: Key | None = None) -> list[Baseline]:
        """Return the published rows of all machines with a key, or all, even where a measured row has the same key.

        Files that can't be read are ignored: another machine's file must not cost this machine its verdict.
        """
        published: dict[tuple[str, Key], Baseline] = {}
        for machine in self.machines():
            for folder in self._folders:
                with suppress(BaselineError):
                    for row in self._rows(folder, machine).values():
                        if not (row.is_measured or row.key.figure) and like in (None, row.key):
                            published[machine, row.key] = row
        return list(published.values())

    def update(
        self, machine: str, rows: Mapping[Key, Baseline], without: Collection[Key] = ()
    ) -> tuple[BaselineUpdate, ...]:
        """Write rows into the machine's file, whose other rows stay but those `without`, and return the changes.

        Takes the lock for the moment where the session does not hold it.

        Raises:
            BaselineError: the file can't be read whole or written, or another session holds the lock; nothing is lost.
        """
        check_name(machine)
        assert all(row.key == key and row.machine == machine for key, row in rows.items())
        path = self.folder / f"{machine}.csv"
        with nullcontext() if self._locked else self.lock():
            before = self._load(machine)
            kept = {key: row for key, row in self._rows(self.folder, machine).items() if key not in without}
            self._write(path, (kept | dict(rows)).values())
        return tuple(BaselineUpdate(before.get(key), row) for key, row in rows.items())

    def rewrite(self, machine: str, rows: Iterable[Baseline]) -> None:
        """Write a machine's file anew, whatever it holds now, with these rows alone; delete it where there are none.

        Raises:
            BaselineError: the file can't be written, or another session holds the lock; nothing is lost.
        """
        check_name(machine)
        with self.lock():
            self._write(self.folder / f"{machine}.csv", rows)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder, and keep other sessions from updating it until the block ends or the process dies.

        Raises:
            BaselineError: another session holds the lock (names it), or the folder can't be written.
        """
        path = self.folder / ".lock"
        with self._acquired(path):
            self._locked = True
            try:
                yield
            finally:
                self._locked = False
                path.unlink(missing_ok=True)

    def _acquired(self, path: Path) -> IO[str]:
        """Return the open lock file, locked."""
        while True:
            with worded(self.folder, "written", _WAY_OUT, kind=BaselineError):
                self.folder.mkdir(parents=True, exist_ok=True)
            with worded(path, "written", _WAY_OUT, kind=BaselineError):
                file = open(path, "a+", encoding="utf-8", opener=_without_links)  # noqa: SIM115  # the caller closes it
                try:
                    _acquire(file, self.folder)
                except BaseException:
                    with suppress(OSError):  # a full disk: closing tries to write the rest again
                        file.close()
                    raise
            if os.fstat(file.fileno()).st_nlink:  # else the session before has just deleted it
                return file
            file.close()

    def _write(self, path: Path, rows: Iterable[Baseline]) -> None:
        rows = list(rows)
        with worded(path, "written", _WAY_OUT, kind=BaselineError):
            if rows:
                files.replace(path, baseline_file.render(rows))
            else:
                path.unlink(missing_ok=True)

    def _rows(self, folder: Path, machine: str) -> dict[Key, Baseline]:
        """Return the rows of a file that count; it is parsed again only where it has changed."""
        path = folder / f"{machine}.csv"
        with worded(path, "read", "Repair it, or name another folder", kind=BaselineError):
            try:
                status = path.stat()
            except FileNotFoundError:
                return {}
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
            if path not in self._read or self._read[path][0] != version:
                self._read[path] = (version, baseline_file.parse(path.read_bytes(), machine, str(path)))
        rows = self._read[path][1]
        if folder == self.folder:
            return rows
        return {key: row for key, row in rows.items() if not row.is_measured}


def _acquire(file: IO[str], folder: Path) -> None:
    """Lock the open file and write the owner into it; closing the file or the end of the process releases the lock."""
    import fcntl  # not at the top: Windows has none, and tests there import our types

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {os.uname().nodename} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        file.flush()
    except BlockingIOError:
        file.seek(0)
        raise BaselineError(
            f"{folder}: another session updates these baselines ({file.read()})",
            next_step="Wait for it to end, or end it: the lock goes with its process",
        ) from None


def _without_links(path: str, flags: int) -> int:
    """Open a file, but not one that a link names: its owner would be written into another file."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
