"""`--tfperf-against`: each check is a comparison with another Python."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.features import hookimpl
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.bench.comparing import OtherSide


def _python(text: str) -> Path:
    from pytest_tfperf.workers.interpreters import find_python

    return find_python(text)


AGAINST: Final[Setting[Path | None]] = Setting(
    name="against",
    default=None,
    parse=_python,
    help="compare with another Python or virtual environment, not with baselines",
    metavar="PYTHON",
    excludes={
        "update_baselines": "a comparison has no baseline",
        "hold": "a comparison has no earlier session",
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
        from pytest_tfperf.workers.interpreters import require_python, try_imports

        # Where tests only run programs of another framework, neither Python need have TensorFlow.
        (try_imports if find_spec("tensorflow") else require_python)(python)


@hookimpl
def other_side(settings: Settings) -> OtherSide | None:
    """The Python of `--tfperf-against`."""
    from pytest_tfperf.features.comparing.another_python import AnotherPython

    python = settings.of(AGAINST)
    return None if python is None else AnotherPython(str(python))
