"""The engines by name, as `--tfperf-launcher` gives them: a name, then the engine's own options.

Each file of `engines/` is one, with a class of its name.
"""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.errors import TfperfError, known_names

if TYPE_CHECKING:
    from pytest_tfperf.features.cluster.engine import Engine

LOCAL: Final = "local"
NAMES: Final = sorted(path.stem for path in (Path(__file__).parent / "engines").glob("[!_]*.py"))


def split_launcher(text: str) -> tuple[str, list[str]]:
    """Split the setting into the engine's name and its options.

    Raises:
        ValueError: the name is unknown, a quote is not closed, or `local` has options.
    """
    try:
        name, *options = shlex.split(text) or [""]
    except ValueError as error:
        raise ValueError(f"can't be split into words: {error}") from None
    if name not in (LOCAL, *NAMES):
        raise ValueError(f"is not a launcher. {known_names(name, [LOCAL, *NAMES])}")
    if name == LOCAL and options:
        raise ValueError(f"has options, and {LOCAL} takes none")
    return name, options


def find_engine(text: str) -> Engine | None:
    """The engine that this setting names; None for `local`.

    Raises:
        TfperfError: it is not installed here, or does not take these options.
    """
    name, options = split_launcher(text)
    if name == LOCAL:
        return None
    try:
        engine: Engine = getattr(import_module(f"{__package__}.engines.{name}"), name.capitalize())(options)
    except TfperfError as error:
        raise TfperfError(f"--tfperf-launcher={text}: {error}") from None
    return engine
