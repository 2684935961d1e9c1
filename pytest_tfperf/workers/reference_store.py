"""Reference environments on disk: a virtual environment for each lock, beside it a git worktree for each commit."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.workers.git_worktree import (
    DIRTY,
    add_worktree,
    commit_in,
    remove_worktree,
    repository_of,
    require_commit,
)
from pytest_tfperf.workers.reference_environment import Missing, ReferenceEnvironment, State, unrepeatable
from pytest_tfperf.workers.reference_lock import SUFFIX, Lock, read_lock
from pytest_tfperf.workers.virtual_environment import NAME_ONE, installed, make_virtual_environment, minor

Progress = Callable[[str], object]
"""Is told what may take minutes, before it begins."""

_MANIFEST: Final = "reference.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is in an environment's folder; written last, so that a folder without one is half made.

    Args:
        digest: of the lock that was installed.
        python: its minor version, "3.11".
        tensorflow: version, "" where the lock has none.
        created: ISO date and time, local.
        bytes: what the folder takes on disk.
        packages: name -> version of all that was installed.
        commits: whose code is checked out.
    """

    digest: str
    python: str
    tensorflow: str
    created: str
    bytes: int
    packages: Mapping[str, str]
    commits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One environment as `tfperf reference list` shows it.

    Args:
        name: what `tfperf reference remove` takes.
        fault: why it can't be used, and what mends it; None where it is ok.
        manifest: what it is; None where its creation was interrupted.
        commits: whose code it has.
        rows: number of baselines that it serves.
    """

    name: str
    fault: Missing | None
    manifest: Manifest | None
    commits: tuple[str, ...]
    rows: int

    @property
    def state(self) -> State:
        """Whether it can be used."""
        return self.fault.state if self.fault else State.OK


@final
class ReferenceStore:
    """The reference environments in `<folder>/reference/<name>/`, named after their locks.

    Args:
        folder: tfperf's own, `.tfperf`.
        baselines: where the locks lie.
        root: the project, a folder of a git repository.
    """

    def __init__(self, folder: Path, *, baselines: Path, root: Path) -> None:
        self._folder = folder.absolute() / "reference"
        self._baselines = baselines.absolute()
        self._root = root.absolute()
        self._found: dict[tuple[str, str], ReferenceEnvironment | Missing] = {}

    def find(self, row: Baseline) -> ReferenceEnvironment | Missing:
        """The environment that serves a row, where it is whole and unchanged; looked for once a lock and commit."""
        key = (row.lock, row.commit)
        if key not in self._found:
            home = self._home(row)
            missing = unrepeatable(row) or self._venv_fault(home) or self._source_fault(home, row.commit)
            self._found[key] = missing or self._environment(row, repository_of(self._root) or self._root)
        return self._found[key]

    def create(self, row: Baseline, progress: Progress) -> ReferenceEnvironment:
        """Build what the row's environment lacks, and reuse what is whole; a failure leaves nothing half made.

        Raises:
            TfperfError: the row names no lock or commit, the commit is gone, its Python is missing, the packages can't
                be installed, the disk is full, or the code was changed by hand.
        """
        if missing := unrepeatable(row):
            raise TfperfError(str(missing))
        home, path = self._home(row), self._baselines / row.lock
        lock = read_lock(path)
        if (repository := repository_of(self._root)) is None:
            raise TfperfError(
                f"git finds no repository at {self._root}, so the code of {row.commit} can't be checked out. Call it "
                f"in the project's repository, {NAME_ONE}"
            )
        require_commit(repository, row.commit)  # before minutes go into packages
        with self._alone(progress) as held:
            home.mkdir(exist_ok=True)
            if self._venv_fault(home):
                progress(
                    f"{home.name}: installing its packages with Python {minor(lock.python)}; this can take minutes"
                )
                _begin(home)
                make_virtual_environment(home / "venv", lock, path, held)
                _complete(home, lock)
            if fault := self._source_fault(home, row.commit):
                if fault.state is State.STALE:  # somebody's changes, which are theirs to throw away
                    raise TfperfError(str(fault))
                progress(f"{home.name}: checking out {row.commit}")
                add_worktree(repository, row.commit, _source(home, row.commit))
                _complete(home, lock, row.commit)
        return self._environment(row, repository)

    def entries(self, rows: Iterable[Baseline]) -> list[Entry]:
        """All environments, by name; `rows` are the baselines that they may serve."""
        commits = [(row.lock, row.commit) for row in rows]
        return [
            self._entry(home, [commit for lock, commit in commits if lock == home.name + SUFFIX])
            for home in self._homes()
        ]

    def remove(self, name: str, progress: Progress) -> None:
        """Delete an environment, with the worktrees in it, from disk and from git.

        Raises:
            TfperfError: there is none of that name, or it can't be deleted.
        """
        homes = {home.name: home for home in self._homes()}
        if name not in homes:
            raise TfperfError(one_of("reference environment", name, homes))
        with self._alone(progress):
            for source in (homes[name] / "source").glob("*"):
                remove_worktree(self._root, source)
            shutil.rmtree(homes[name])

    def _home(self, row: Baseline) -> Path:
        return self._folder / row.lock.removesuffix(SUFFIX)

    def _homes(self) -> list[Path]:
        with suppress(OSError):
            return sorted(home for home in self._folder.iterdir() if home.is_dir() and any(home.iterdir()))
        return []

    def _environment(self, row: Baseline, repository: Path) -> ReferenceEnvironment:
        home = self._home(row)
        return ReferenceEnvironment(
            name=home.name,
            python=_python(home),
            source=_source(home, row.commit),
            replaces=repository,
            lock=row.lock,
            commit=row.commit,
        )

    def _entry(self, home: Path, wanted: list[str]) -> Entry:
        manifest = _manifest(home)
        commits = manifest.commits if manifest else ()
        faults = [self._venv_fault(home), *(self._source_fault(home, commit) for commit in commits)]
        rows = sum(commit in commits for commit in wanted)
        if not rows:
            delete = f"Delete it: {self._command('remove', home.name)}"
            faults.append(Missing(f"no baseline needs {home.name}", delete, State.STALE))
        fault = next((fault for fault in faults if fault is not None), None)
        return Entry(name=home.name, fault=fault, manifest=manifest, commits=commits, rows=rows)

    def _venv_fault(self, home: Path) -> Missing | None:
        create = f"Build it: {self._create_command(home)}"
        manifest = _manifest(home)
        if manifest is None:
            was = "was interrupted when it was created" if (home / "venv").exists() else "is not there"
            return Missing(f"the reference environment {home.name} {was}", create)
        if not os.access(_python(home), os.X_OK):
            return Missing(f"{_python(home)} is gone, or the Python that it leads to", create)
        try:
            lock = read_lock(self._baselines / (home.name + SUFFIX))
        except TfperfError as error:
            fact, _, mend = str(error).rpartition(". ")
            return Missing(fact, mend, State.STALE)
        if lock.digest != manifest.digest:
            return Missing(f"{home.name}{SUFFIX} has changed since {home} was created", create, State.STALE)
        before, now = dict(manifest.packages), installed(home / "venv")
        if changed := [name for name in sorted({**before, **now}) if now.get(name) != before.get(name)]:
            return Missing(f"packages have changed in {home}: {', '.join(changed)}", create, State.STALE)
        return None

    def _source_fault(self, home: Path, commit: str) -> Missing | None:
        source = _source(home, commit)
        found, manifest = commit_in(source), _manifest(home)
        if not found or manifest is None or commit not in manifest.commits:
            fact = f"the reference environment {home.name} has no code of the commit {commit}"
            return Missing(fact, f"Check it out: {self._create_command(home)}")
        if not found.startswith(commit) or found.endswith(DIRTY):
            mend = f"Undo that: git -C {shlex.quote(str(source))} checkout --force --detach {commit}"
            return Missing(f"the code in {source} is not that of {commit} any more", mend, State.STALE)
        return None

    @contextmanager
    def _alone(self, progress: Progress) -> Iterator[int]:
        """Wait until nobody else creates or removes here; yields the descriptor that keeps others waiting."""
        self._found.clear()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / ".gitignore").write_text("*\n", "utf-8")  # `git add .` must not take it
            with (self._folder / ".lock").open("a", encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    progress(f"waiting for another `tfperf reference`, which is at work in {self._folder}")
                    fcntl.flock(file, fcntl.LOCK_EX)
                yield file.fileno()
        except OSError as error:
            raise TfperfError(
                f"{error.filename or self._folder} can't be written: {error.strerror}. Make room or make it writable, "
                "or name another folder with --dir"
            ) from None

    def _create_command(self, home: Path) -> str:
        return self._command("create", f"--machine={home.name.rpartition('-')[0]}")

    def _command(self, action: str, what: str) -> str:
        """What to type in the current folder."""
        ours = {"--dir": (self._folder.parent, ".tfperf"), "--baselines": (self._baselines, "baselines")}
        options = [
            f"{option}={shlex.quote(os.path.relpath(path))}"
            for option, (path, default) in ours.items()
            if path != Path(default).absolute()
        ]
        return " ".join(["tfperf", "reference", action, *options, what])


def _python(home: Path) -> Path:
    return home / "venv" / "bin" / "python"


def _source(home: Path, commit: str) -> Path:
    return home / "source" / commit


def _manifest(home: Path) -> Manifest | None:
    """None where there is none, or none that can be read."""
    try:
        return build(Manifest, json.loads((home / _MANIFEST).read_text("utf-8")), _MANIFEST)
    except (OSError, ValueError, TfperfError):
        return None


def _begin(home: Path) -> None:
    """Delete the virtual environment; nothing that is put there counts before `_complete`."""
    if (manifest := _manifest(home)) is not None:
        _write(home, replace(manifest, digest=""))
    with suppress(FileNotFoundError):
        shutil.rmtree(home / "venv")


def _complete(home: Path, lock: Lock, *commits: str) -> None:
    """Note that the lock's packages, and the code of these commits, are all there."""
    before = _manifest(home)
    files = (Path(parent) / name for parent, _, names in os.walk(home) for name in names)
    manifest = Manifest(
        digest=lock.digest,
        python=minor(lock.python),
        tensorflow=lock.tensorflow,
        created=time.strftime("%Y-%m-%dT%H:%M:%S"),
        bytes=sum(file.lstat().st_blocks * 512 for file in files),
        packages=installed(home / "venv"),
        commits=tuple(sorted({*(before.commits if before else ()), *commits})),
    )
    _write(home, manifest)


def _write(home: Path, manifest: Manifest) -> None:
    temporary = home / f".{_MANIFEST}"
    temporary.write_text(json.dumps(asdict(manifest), indent=1) + "\n", "utf-8")
    temporary.replace(home / _MANIFEST)
