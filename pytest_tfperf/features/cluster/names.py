"""The engines by name, as `--tfperf-launcher` gives them: a name, then the engine's own options."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

from pytest_tfperf.errors import TfperfError, known_names
from pytest_tfperf.features.cluster.engine import Engine
from pytest_tfperf.features.cluster.engines.external import External
from pytest_tfperf.features.cluster.engines.mpirun import Mpirun
from pytest_tfperf.features.cluster.engines.ray import Ray
from pytest_tfperf.features.cluster.engines.slurm import Slurm

LOCAL = "local"
_ENGINES: dict[str, Callable[[Sequence[str]], Any]] = {
    "mpirun": Mpirun,
    "slurm": Slurm,
    "ray": Ray,
    "external": External,
}


def split_launcher(text: str) -> tuple[str, list[str]]:
    """Split the setting into the engine's name and its options.

    Raises:
        ValueError: the name is unknown, a quote is not closed, or `local` has options.
    """
    try:
        name, *options = shlex.split(text) or [""]
    except ValueError as error:
        raise ValueError(f"can't be split into words: {error}") from None
    if name != LOCAL and name not in _ENGINES:
        raise ValueError(f"is not a launcher. {known_names(name, [LOCAL, *_ENGINES])}")
    if name == LOCAL and options:
        raise ValueError(f"has options, and {LOCAL} takes none")
    return name, options


def find_engine(text: str) -> Engine | None:
    """The engine that this setting names; None for `local`.

    Raises:
        TfperfError: it is not installed here, or does not take these options.
    """
    name, options = split_launcher(text)
    try:
        return None if name == LOCAL else _ENGINES[name](options)
    except TfperfError as error:
        raise TfperfError(f"--tfperf-launcher={text}: {error}") from None
