"""Reference environments: the packages and code that baselines were recorded with, on disk, and their launchers.

On disk there is a virtual environment for each lock, and beside it a git worktree for each commit.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import final

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, WorkloadError, one_of, worded
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from pytest_tfperf.revisions.git import commit_of, repository_of, require_commit
from pytest_tfperf.revisions.lock import (
    SUFFIX,
    Lock,
    contradiction,
    forget_locks,
    read_lock,
    unrepeatable,
    unrepeatable_commit,
    write_lock,
)
from pytest_tfperf.revisions.pythons import (
    NAME_ONE,
    fault_of,
    find_python,
    lock_of,
    make_virtual_environment,
    require_python,
    try_imports,
)
from pytest_tfperf.revisions.worktrees import add_worktree, alone_in, remove_worktree
from pytest_tfperf.workers import catalogue
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.processes import Interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceEnvironment:
    """A Python with the packages, and the user's code at the commit, of recorded baselines."""

    name: str  # its name in `tfperf reference list`, or the text given to --tfperf-reference
    python: Path  # the interpreter, an absolute path
    checkout: Checkout | None = None  # the user's code; None for the current code
    is_named: bool = False  # --tfperf-reference names it: the user maintains it, no `tfperf reference` knows it

    @property
    def interpreter(self) -> Interpreter:
        """The Python with that code."""
        return Interpreter(str(self.python)) if self.checkout is None else self.checkout.interpreter(self.python)


def parse_reference(text: str) -> tuple[Path, Path | None]:
    """The Python and the folder of code that `--tfperf-reference=PYTHON[:SOURCE_DIR]` names; None for today's code.

    Raises:
        ValueError: PYTHON can't be run, or SOURCE_DIR is no folder.
    """
    python, colon, folder = text.partition(":")
    interpreter = find_python(python)
    if not colon:
        return interpreter, None
    source = Path(folder).expanduser().absolute()
    if not folder or not source.is_dir():
        raise ValueError(f"must name a folder of source code after the colon, and {folder!r} is none")
    return interpreter, source


def named(python: Path, source: Path | None, root: Path) -> ReferenceEnvironment:
    """The environment that `parse_reference` has found; its code takes the place of the project in `root`."""
    name = str(python) if source is None else f"{python}:{source}"
    checkout = None if source is None else _checkout(name, root, source)
    return ReferenceEnvironment(name=name, python=python, checkout=checkout, is_named=True)


def _checkout(name: str, repository: Path, source: Path, beside: Path | None = None) -> Checkout:
    title = f"the reference environment {name}"
    return Checkout(repository=repository.resolve(), folder=source.resolve(), name=title, beside=beside)


def check(environment: ReferenceEnvironment, workloads: Iterable[Workload]) -> tuple[str, dict[str, str]]:
    """Check that the Python imports TensorFlow, and that the code has the workloads' models and pipelines.

    Takes as long as importing TensorFlow, and trains nothing. Returns TensorFlow's version, and id -> reason for each
    workload whose model or pipeline is missing, there or here.

    Raises:
        TfperfError: nothing can be measured in it.
    """
    needed: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    for workload in workloads:
        try:
            functions = [catalogue.resolve(field, getattr(workload, field)) for field in ("model", "input_pipeline")]
            # Our own are always there.
            needed[workload.id] = [name for name in functions if not name.startswith("pytest_tfperf.")]
        except WorkloadError as error:  # a row of a model that was renamed, or whose conftest.py was not loaded
            unknown[workload.id] = str(error)
    try:
        tensorflow, faults = try_imports(environment.interpreter, set(chain.from_iterable(needed.values())))
    except TfperfError as error:
        why = str(error.lines[0])
        raise TfperfError(
            f"the reference environment {environment.name} can't be used: {why}", next_step=_next_step(environment)
        ) from None
    for id, own in needed.items():
        if why := "; ".join(faults[name] for name in own if name in faults):
            unknown[id] = why
    return tensorflow, unknown


def _next_step(environment: ReferenceEnvironment) -> str:
    another = "name another: --tfperf-reference=PYTHON"
    if environment.is_named:
        return f"Install what {environment.python} lacks (Python 3.11 or newer, with TensorFlow), or {another}"
    return f"Build it again (tfperf reference remove {environment.name}, then tfperf reference create), or {another}"


class ReferenceLaunchers:
    """The reference environments of a session's baselines.

    `find` returns the environment that serves a baseline, and raises a TfperfError if there is none. `baselines` is the
    folder for the locks of new baselines.
    """

    def __init__(
        self,
        find: Callable[[Baseline], ReferenceEnvironment],
        launch: Callable[[Interpreter], Launcher],
        root: Path,
        baselines: Path = Path(),
    ) -> None:
        self._find = find
        self._launch = launch
        self._root = root
        self._baselines = baselines
        self._locks: dict[str, str] = {}
        self._usable: dict[tuple[str, Key], ReferenceEnvironment] = {}
        self._launchers: dict[ReferenceEnvironment, Launcher] = {}

    def check(self, rows: Iterable[Baseline]) -> list[str]:
        """Check the environments of these baselines, each once, because it imports TensorFlow.

        Returns a sentence for each reason why baselines have no reference environment, with their number.
        """
        by_lock: dict[tuple[str, str], list[Baseline]] = {}
        for row in rows:
            by_lock.setdefault((row.lock, row.commit), []).append(row)
        served: dict[ReferenceEnvironment, list[Baseline]] = {}
        missing: Counter[str] = Counter()
        for alike in by_lock.values():
            try:
                served.setdefault(self._find(alike[0]), []).extend(alike)
            except TfperfError as error:
                missing[str(error)] += len(alike)
        for environment, its_rows in served.items():
            missing += self._try(environment, its_rows)
        return [
            f"{'1 baseline has' if count == 1 else f'{count} baselines have'} no reference environment: {why}"
            for why, count in missing.items()
        ]

    @property
    def serves_any(self) -> bool:
        """Whether `check` found a usable environment of any baseline."""
        return bool(self._usable)

    def launcher_for(self, row: Baseline | None) -> Launcher | None:
        """The launcher of the environment that serves a baseline; None if `check` found none that is usable."""
        environment = None if row is None else self._usable.get((row.machine, row.key))
        if environment is None:
            return None
        if environment not in self._launchers:
            local, checkout = self._launch(environment.interpreter), environment.checkout
            # Workers must not run the current code.
            launcher = local if checkout is None else CheckoutLauncher(local, checkout, may_be_same=True)
            self._launchers[environment] = launcher
        return self._launchers[environment]

    def before_recording(self, commit: str) -> str:
        """See `ReferenceEnvironments.before_recording`."""
        return unrepeatable_commit(commit)

    def lock(self, row: Baseline) -> Baseline:
        """The new row, with a lock of the packages installed here, written beside the baselines."""
        if row.machine not in self._locks:  # the packages stay the same, and listing them is slow
            self._locks[row.machine] = write_lock(self._baselines, row.machine, root=self._root)
        return replace(row, lock=self._locks[row.machine])

    def recorded(self, row: Baseline, rows: Iterable[Baseline]) -> list[str]:
        """Delete locks that no row of the machine names; returns how the row's environment will differ."""
        forget_locks(self._baselines, row.machine, {other.lock for other in rows})
        return [text for text in (unrepeatable(row), *read_lock(self._baselines / row.lock).warnings) if text]

    def _try(self, environment: ReferenceEnvironment, rows: list[Baseline]) -> Counter[str]:
        """Note the rows that can be measured in the environment; returns the reasons why others can't, with numbers."""
        subjects = {row.key.workload: parse_subject(row.key.workload) for row in rows}
        workloads = [subject for subject in subjects.values() if isinstance(subject, Workload)]
        commands = [subject.id for subject in subjects.values() if not isinstance(subject, Workload)]
        faults: dict[str, str] = {}
        if commands:  # they may train with any package
            try:
                require_python(environment.python)
            except TfperfError as error:
                faults |= dict.fromkeys(commands, str(error.lines[0]))
        if workloads:
            try:
                _, unknown = check(environment, workloads)
                faults |= {id: f"{id} is unknown to {environment.name}: {why}" for id, why in unknown.items()}
            except TfperfError as error:
                faults |= dict.fromkeys([workload.id for workload in workloads], str(error.lines[0]))
        self._usable |= {(row.machine, row.key): environment for row in rows if row.key.workload not in faults}
        return Counter(faults[row.key.workload] for row in rows if row.key.workload in faults)


# On disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An environment as `tfperf reference list` shows it."""

    name: str
    fault: str  # why it can't be used, and the next step; "" if it can
    lock: Lock | None  # None if its creation was interrupted
    commits: tuple[str, ...]  # those whose code it has
    rows: int  # number of baselines that it serves
    bytes: int


@final
class ReferenceStore:
    """The reference environments in `<folder>/reference/<name>/`, named after their locks.

    Each has a virtual environment, `venv/`, and the code of each commit, `source/<commit>/`.

    `folder` is tfperf's own, `baselines` that of the locks, and `root` the project, a folder in a git repository.
    """

    def __init__(self, folder: Path, *, baselines: Path, root: Path) -> None:
        self._folder = folder.absolute() / "reference"
        self._baselines = baselines.absolute()
        self._root = root.absolute()

    def find(self, row: Baseline) -> ReferenceEnvironment:
        """The environment that serves a row.

        Raises:
            TfperfError: it is missing, incomplete, changed or unreadable; says how to build it.
        """
        home = self._home(row)
        try:
            why = unrepeatable(row) or self._packages_fault(home) or self._code_fault(home, row.commit)
            why = why or contradiction(row, read_lock(self._baselines / row.lock))
        except (OSError, UnicodeDecodeError) as error:  # another user made it, or a session is removing it
            why = f"{home} can't be read: {error}. {self._build_it(home)}"
        if why:
            raise TfperfError(why)
        return self._environment(row, repository_of(self._root) or self._root)

    def create(self, row: Baseline, progress: Callable[[str], object]) -> ReferenceEnvironment:
        """Build the missing parts of the row's environment; a failure leaves nothing incomplete.

        Raises:
            TfperfError: the row names no lock or commit, the commit is gone, its Python is missing, the packages can't
                be installed, the disk is full, or the code was changed by hand.
        """
        if why := unrepeatable(row):
            raise TfperfError(why)
        home, path = self._home(row), self._baselines / row.lock
        lock, repository = read_lock(path), repository_of(self._root)
        if why := contradiction(row, lock):
            raise TfperfError(why)
        if repository is None:
            raise TfperfError(
                f"git finds no repository at {self._root}, so the code of {row.commit} can't be checked out",
                next_step=f"Call it in the project's repository, {NAME_ONE}",
            )
        require_commit(repository, row.commit)  # before minutes go into packages
        with self._alone(progress):
            if self._packages_fault(home):
                progress(f"{home.name}: installing its packages with Python {lock.python}; this can take minutes")
                make_virtual_environment(home / "venv", path)
            source = home / "source" / row.commit
            if not source.exists():
                progress(f"{home.name}: checking out {row.commit}")
                add_worktree(repository, row.commit, source)
            elif fault := self._code_fault(home, row.commit):
                raise TfperfError(fault)
        return self._environment(row, repository)

    def entries(self, rows: Iterable[Baseline]) -> list[Entry]:
        """All environments, by name; `rows` are the baselines that they may serve."""
        wanted = Counter((row.lock, row.commit) for row in rows)
        return [self._entry(home, wanted) for home in self._homes()]

    def remove(self, name: str, progress: Callable[[str], object]) -> None:
        """Delete an environment, with the worktrees in it, from disk and from git.

        Raises:
            TfperfError: no environment has that name, or it can't be deleted.
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
        return sorted(home for home in self._folder.glob("*") if home.is_dir() and any(home.iterdir()))

    def _environment(self, row: Baseline, repository: Path) -> ReferenceEnvironment:
        home = self._home(row)
        checkout = _checkout(home.name, repository, home / "source" / row.commit, beside=(home / "source").resolve())
        return ReferenceEnvironment(name=home.name, python=home / "venv" / "bin" / "python", checkout=checkout)

    def _entry(self, home: Path, wanted: Counter[tuple[str, str]]) -> Entry:
        commits = sorted(source.name for source in (home / "source").glob("*"))
        faults = [self._packages_fault(home), *(self._code_fault(home, commit) for commit in commits)]
        return Entry(
            name=home.name,
            fault=next(filter(None, faults), ""),
            lock=lock_of(home / "venv"),
            commits=tuple(commits),
            rows=sum(wanted[home.name + SUFFIX, commit] for commit in commits),
            bytes=sum(file.lstat().st_blocks * 512 for file in home.rglob("*")),
        )

    def _packages_fault(self, home: Path) -> str:
        path = self._baselines / (home.name + SUFFIX)
        try:
            read_lock(path)
        except TfperfError as error:
            return str(error)
        fault = fault_of(home / "venv", path)
        return fault and f"{fault}. {self._build_it(home)}"

    def _code_fault(self, home: Path, commit: str) -> str:
        source = home / "source" / commit
        if not source.exists():
            return f"the code of {commit} is not in {home}. {self._build_it(home)}"
        if commit_of(source) != commit:
            return f"the code in {source} is not that of {commit} any more. Delete that folder. {self._build_it(home)}"
        return ""

    def _build_it(self, home: Path) -> str:
        """The next step: the command that builds it from the current folder."""
        folder, baselines = (shlex.quote(os.path.relpath(path)) for path in (self._folder.parent, self._baselines))
        machine = home.name.rpartition("-")[0]
        return f"Build it: tfperf reference create --machine={machine} --dir={folder} --baselines={baselines}"

    @contextmanager
    def _alone(self, progress: Callable[[str], object]) -> Iterator[None]:
        """Wait until no other process creates or removes environments here."""
        waiting = f"waiting for another `tfperf reference`, which is at work in {self._folder}"
        with (
            worded(self._folder, "written", "Make it writable, or name another folder with --dir"),
            alone_in(self._folder, lambda: progress(waiting)),
        ):
            yield
