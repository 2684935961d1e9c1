"""Baselines on disk: one CSV for each machine, read whole or not at all, written atomically under a lock."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, final

from pytest_tfperf.core.baseline import Baseline, Change, Key, Provenance
from pytest_tfperf.core.machine_key import check_name, is_name
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.stores import atomic, baseline_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def published_folder() -> Path | None:
    """The documents' baselines: `published/` in an installed wheel, `baselines/` in a checkout, else None."""
    package = Path(__file__).parents[1]
    return next((f for f in (package / "published", package.parent / "baselines") if f.is_dir()), None)


_PUBLISHED: Final = published_folder()


@final
class BaselineStore:
    """The user's folder of baselines, over the published ones that ship with the package.

    Args:
        folder: where `update` writes; it need not exist before.
        published: a folder that is only read, and of which only the published rows count; None for none.
    """

    def __init__(self, folder: Path, published: Path | None = _PUBLISHED) -> None:
        self.folder = folder
        self._published = published
        self._locked = False
        self._read: dict[Path, tuple[tuple[int, ...], dict[Key, Baseline]]] = {}

    def load(self, machine: str) -> dict[Key, Baseline]:
        """All rows of a machine; the user's row wins over the shipped one of the same key. Unknown machine: none.

        Raises:
            BaselineError: a name that can't be a machine's, or a file that can't be read whole (file and line named).
        """
        check_name(machine)
        rows: dict[Key, Baseline] = {}
        for folder in self._folders():
            rows |= self._rows(folder, machine)
        return rows

    def machines(self) -> list[str]:
        """The machines that have a file, the published ones included."""
        return sorted({name for folder in self._folders() for name in _machines(folder)}, key=baseline_file.natural)

    @property
    def places(self) -> str:
        """The folders that are read, in words."""
        folders = dict.fromkeys(folder.resolve() for folder in reversed(self._folders()))
        return " and ".join(map(str, folders))

    def published(self) -> list[Baseline]:
        """Every published row, machine by machine; raises as `load` does."""
        keys = {key: None for machine in self.machines() for key in self.load(machine)}
        return [row for key in keys for row in self.published_like(key)]

    def published_like(self, key: Key, *, readable: bool = False) -> list[Baseline]:
        """The published rows with this key, of every machine; a measured row hides none of them.

        Raises as `load` does; with `readable` files that can't be read are passed over (`unreadable` tells of them).
        """
        found: dict[str, Baseline] = {}
        for folder in self._folders():
            for machine in _machines(folder):
                with suppress(BaselineError) if readable else nullcontext():
                    row = self._rows(folder, machine).get(key)
                    if row is not None and row.provenance is Provenance.PUBLISHED:
                        found[machine] = row
        return [found[machine] for machine in sorted(found, key=baseline_file.natural)]

    def unreadable(self, *but: str) -> list[str]:
        """What is wrong with the files that can't be read, those of the machines in `but` left out."""
        faults = []
        for machine in self.machines():
            try:
                if machine not in but:
                    self.load(machine)
            except BaselineError as error:
                faults.append(str(error))
        return faults

    def update(self, machine: str, rows: Mapping[Key, Baseline]) -> tuple[Change, ...]:
        """Write these rows into the machine's file, leave its other rows as they are, and say what changed.

        Takes the lock for the moment where the session does not hold it.

        Raises:
            BaselineError: the file can't be read whole or written, or another session holds the lock; nothing is lost.
        """
        check_name(machine)
        with self._hold():
            return self._write(machine, self._rows(self.folder, machine) | dict(rows), rows)

    def publish(self, machine: str, rows: Mapping[Key, Baseline]) -> tuple[Change, ...]:
        """Replace the machine's published rows by these. Measured rows stay, and win where the key is the same.

        Raises as `update` does.
        """
        check_name(machine)
        with self._hold():
            own = self._rows(self.folder, machine)
            measured = {key: row for key, row in own.items() if row.provenance is Provenance.MEASURED}
            new = {key: row for key, row in rows.items() if key not in measured}
            return self._write(machine, new | measured, new)

    def check_writable(self) -> None:
        """Make the folder and write to it once, so that a run does not find out after it has measured.

        Raises:
            BaselineError: it can't be made or written.
        """
        probe = self.folder / f".probe-{os.getpid()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"\n")
            probe.unlink()
        except OSError as error:
            raise _unwritable(self.folder, error) from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other sessions from writing baselines here, until the block ends or the process dies.

        Raises:
            BaselineError: another session holds it (which, since when), or the folder can't be written.
        """
        path = self.folder / ".lock"
        with _acquire(path):
            self._locked = True
            try:
                yield
            finally:
                self._locked = False
                path.unlink(missing_ok=True)

    def _hold(self) -> AbstractContextManager[None]:
        return nullcontext() if self._locked else self.lock()

    def _folders(self) -> list[Path]:
        return [self.folder] if self._published is None else [self._published, self.folder]

    def _write(self, machine: str, whole: Mapping[Key, Baseline], new: Mapping[Key, Baseline]) -> tuple[Change, ...]:
        assert all(row.key == key and row.machine == machine for key, row in whole.items())
        before = self.load(machine)
        _replace(self.folder / f"{machine}.csv", baseline_file.render(whole.values()))
        return tuple(Change(before.get(key), row) for key, row in new.items())

    def _rows(self, folder: Path, machine: str) -> dict[Key, Baseline]:
        """The rows that count of one file, read again only when the file has changed."""
        path = folder / f"{machine}.csv"
        try:
            status = path.stat()
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
            if path not in self._read or self._read[path][0] != version:
                self._read[path] = (version, baseline_file.parse(path.read_bytes(), machine, str(path)))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BaselineError(f"{path} can't be read: {error.strerror}. Mend it, or name another folder") from None
        rows = self._read[path][1]
        if folder == self.folder:
            return rows
        return {key: row for key, row in rows.items() if row.provenance is Provenance.PUBLISHED}


def _machines(folder: Path) -> list[str]:
    """The machines of one folder; a file that no machine's name can reach is none of them."""
    if not folder.is_dir():
        return []
    return [file.stem for file in folder.glob("*.csv") if is_name(file.stem)]


def _replace(path: Path, data: bytes) -> None:
    try:
        atomic.replace(path, data)
    except OSError as error:
        raise _unwritable(path, error) from None


def _acquire(path: Path) -> IO[str]:
    """The locked file, signed with who holds it; the lock goes when it is closed, or with the process."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+", encoding="utf-8", errors="replace")
        except OSError as error:
            raise _unwritable(path.parent, error) from None
        try:
            _flock(file, path)
            # The last holder removes the file: what we hold may have lost its name a moment ago.
            if _is_named(file, path):
                _sign(file)
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _is_named(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _sign(file: IO[str]) -> None:
    file.truncate(0)
    json.dump({"pid": os.getpid(), "host": os.uname().nodename, "since": time.strftime("%Y-%m-%d %H:%M:%S")}, file)
    file.flush()


def _flock(file: IO[str], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BaselineError(
            f"{path.parent}: another session updates these baselines, {_holder(file)}. "
            "Wait for it to end, or end it: the lock goes with its process"
        ) from None
    except OSError as error:
        raise BaselineError(
            f"{path} can't be locked: {error.strerror}. Put the baselines on a file system with locks"
        ) from None


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        holder = json.loads(file.read())
        return f"pid {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, TypeError, KeyError):  # taken a moment ago, and not yet signed
        return "which has not said who it is"


def _unwritable(path: Path, error: OSError) -> BaselineError:
    in_the_way = isinstance(error, (FileExistsError, NotADirectoryError))
    fact, mend = ("a file is in its way", "Move that") if in_the_way else (error.strerror, "Make it writable")
    return BaselineError(
        f"{path} can't be written: {fact}. {mend}, or name another folder with --tfperf-baselines=DIR "
        "(or the ini value tfperf_baselines)"
    )
