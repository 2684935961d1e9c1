"""`--tfperf-against`: each check is a comparison with another Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import hookimpl

if TYPE_CHECKING:
    from pytest_tfperf.bench.comparing import OtherSide
    from pytest_tfperf.workers.interpreters import Interpreter
    from pytest_tfperf.workers.launcher import Launcher


def _python(text: str) -> Path:
    from pytest_tfperf.revisions.pythons import find_python

    return find_python(text)


AGAINST: Final[Setting[Path | None]] = Setting(
    name="against",
    default=None,
    parse=_python,
    help="compare with another Python or virtual environment, not with baselines",
    metavar="PYTHON",
    excludes={
        "update_baselines": "a comparison has no baseline",
        "reference": "a comparison has no reference environment",
        "smoke": "one window compares nothing",
    },
)
SETTINGS: Final = (AGAINST,)


@hookimpl
def prepare(settings: Settings) -> None:
    """Refuse a Python that can't train."""
    python = settings.of(AGAINST)
    if python is not None:
        from pytest_tfperf.revisions.pythons import require_python, try_imports
        from pytest_tfperf.workers.interpreters import Interpreter

        # Where tests only run programs of another framework, neither Python need have TensorFlow.
        if find_spec("tensorflow"):
            try_imports(Interpreter(str(python)))
        else:
            require_python(python)


@hookimpl
def other_side(settings: Settings) -> OtherSide | None:
    """The Python of `--tfperf-against`."""
    python = settings.of(AGAINST)
    return None if python is None else AnotherPython(str(python))


@final
class AnotherPython:
    """The same code under another Python, with other packages: see `OtherSide`; `python` is the interpreter's path."""

    facts: Final[tuple[Mapping[str, str], Mapping[str, str]]] = ({}, {})
    may_lack_code: Final = False
    remarks: Final[Sequence[str]] = ()

    def __init__(self, python: str) -> None:
        from pytest_tfperf.bench.comparing import Terms

        self._python = python
        self.terms = Terms()
        self.announcement = (f"each check compares this Python (b) with {python} (a) instead of a baseline",)

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """See `OtherSide.launchers`."""
        from pytest_tfperf.workers.interpreters import Interpreter

        return launch(Interpreter(self._python)), here

    def refuse(self, subject: Subject, test: str) -> None:  # noqa: ARG002  # the same tests
        """Refuse a program that would run with the same packages on both sides."""
        if isinstance(subject, Command) and not subject.runs_this_python:
            raise TfperfError(
                f"{subject.id}: {subject.argv[0]} runs with the same packages on both sides of --tfperf-against",
                next_step='Begin the command with sys.executable, as in [sys.executable, "train.py"]',
            )

    def close(self) -> None:
        """Do nothing."""
