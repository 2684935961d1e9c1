"""`--tfperf-against`: each check is a comparison with another Python."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import NOT_WITH_ANOTHER_SIDE, Settings

if TYPE_CHECKING:
    from pytest_tfperf.bench.comparing import OtherSide
    from pytest_tfperf.bench.session import Session


def _python(text: str) -> Path:
    from pytest_tfperf.revisions.pythons import find_python

    return find_python(text)


AGAINST: Final[Setting[Path | None]] = Setting(
    name="against",
    default=None,
    parse=_python,
    help="compare with another Python or virtual environment, not with baselines",
    metavar="PYTHON",
    excludes=NOT_WITH_ANOTHER_SIDE,
)


def prepare(settings: Settings) -> None:
    """Refuse a Python that can't train."""
    python = settings.of(AGAINST)
    if python is not None:
        from pytest_tfperf.revisions.pythons import require_python, try_imports
        from pytest_tfperf.workers.processes import Interpreter

        # Where tests only run programs of another framework, neither Python need have TensorFlow.
        if find_spec("tensorflow"):
            try_imports(Interpreter(str(python)))
        else:
            require_python(python)


def other_side(session: Session) -> OtherSide | None:
    """The same code under the Python of `--tfperf-against`, with its packages."""
    python = session.settings.of(AGAINST)
    if python is None:
        return None
    from pytest_tfperf.bench.comparing import OtherSide, State

    return OtherSide(
        a=State(title=str(python), python=str(python)),
        b=State(title="this Python"),
        announcement=(f"each check compares this Python (b) with {python} (a) instead of a baseline",),
    )


FEATURE: Final = Feature(settings=(AGAINST,), prepare=prepare, other_side=other_side)
