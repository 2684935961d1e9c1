"""Reference environments, the packages and code that baselines were recorded with, and their launchers in a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, WorkloadError
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.lock import forget_locks, read_lock, unrepeatable, unrepeatable_commit, write_lock
from pytest_tfperf.revisions.pythons import find_python, require_python, try_imports
from pytest_tfperf.workers import catalogue
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceEnvironment:
    """An interpreter with the packages, and the user's code at the commit, of recorded baselines.

    Args:
        name: its name in `tfperf reference list`, or the text given to --tfperf-reference.
        python: the interpreter, an absolute path.
        source: folder of the user's code; None for the current code.
        replaces: the folder in whose place `source` is used; None for pytest's rootdir.
    """

    name: str
    python: Path
    source: Path | None = None
    replaces: Path | None = None

    @property
    def is_named(self) -> bool:
        """Whether --tfperf-reference names it: the user maintains it, and `tfperf reference` does not know it."""
        return self.replaces is None

    def checkout(self, root: Path) -> Checkout | None:
        """The code at the commit; None for the current code. `root` is pytest's rootdir."""
        if self.source is None:
            return None
        folder = self.source.resolve()
        return Checkout(
            repository=(self.replaces or root).resolve(),
            folder=folder,
            name=f"the reference environment {self.name}",
            beside=None if self.is_named else folder.parent,
        )

    def interpreter(self, root: Path) -> Interpreter:
        """The Python with that code; `root` is pytest's rootdir."""
        checkout = self.checkout(root)
        return Interpreter(str(self.python)) if checkout is None else checkout.interpreter(self.python)


def parse_reference(text: str) -> ReferenceEnvironment:
    """The environment that `--tfperf-reference=PYTHON[:SOURCE_DIR]` names; the user maintains it.

    Raises:
        ValueError: PYTHON can't be run, or SOURCE_DIR is no folder.
    """
    python, colon, folder = text.partition(":")
    interpreter = find_python(python)
    if not colon:
        return ReferenceEnvironment(name=text, python=interpreter)
    source = Path(folder).expanduser().absolute()
    if not folder or not source.is_dir():
        raise ValueError(f"must name a folder of source code after the colon, and {folder!r} is none")
    return ReferenceEnvironment(name=text, python=interpreter, source=source)


def check(environment: ReferenceEnvironment, workloads: Iterable[Workload], root: Path) -> tuple[str, dict[str, str]]:
    """Check that the Python imports TensorFlow, and that the code has the workloads' models and pipelines.

    Takes as long as importing TensorFlow, and trains nothing. Returns TensorFlow's version, and id -> reason for each
    workload whose model or pipeline is missing, there or here.

    Args:
        environment: the environment to check.
        workloads: the workloads to be measured in it.
        root: pytest's rootdir.

    Raises:
        TfperfError: nothing can be measured in it.
    """
    needed: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    for workload in workloads:
        try:
            needed[workload.id] = _own_functions(workload)
        except WorkloadError as error:  # a row of a model that was renamed, or whose conftest.py was not loaded
            unknown[workload.id] = str(error)
    functions = {function for own in needed.values() for function in own}
    try:
        tensorflow, faults = try_imports(environment.interpreter(root), functions)
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


def _own_functions(workload: Workload) -> list[str]:
    """The user's functions that a workload needs, as "package.module:function"; our own are always there."""
    functions = [catalogue.resolve(field, getattr(workload, field)) for field in ("model", "input_pipeline")]
    return [function for function in functions if not function.startswith("pytest_tfperf.")]


class ReferenceLaunchers:
    """The reference environments of a session's baselines.

    Args:
        find: returns the environment that serves a baseline; raises TfperfError if there is none.
        launch: returns a launcher that starts workers in an environment.
        root: pytest's rootdir.
        baselines: the folder for the locks of new baselines.
    """

    def __init__(
        self,
        find: Callable[[Baseline], ReferenceEnvironment],
        launch: Callable[[ReferenceEnvironment], Launcher],
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
            self._launchers[environment] = self._launch(environment)
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
                _, unknown = check(environment, workloads, self._root)
                faults |= {id: f"{id} is unknown to {environment.name}: {why}" for id, why in unknown.items()}
            except TfperfError as error:
                faults |= dict.fromkeys([workload.id for workload in workloads], str(error.lines[0]))
        self._usable |= {(row.machine, row.key): environment for row in rows if row.key.workload not in faults}
        return Counter(faults[row.key.workload] for row in rows if row.key.workload in faults)
