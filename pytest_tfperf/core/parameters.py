"""Parameters of tests that can't be valid: found at collection, without TensorFlow, before anything is measured.

Each parameter is checked by itself. Whether two values suit each other is for the test's body to decide, because it may
skip a combination. A value of an unexpected type may be a key to something of the test's own, and is not checked; nor
is a `model` that resembles no known one, as in `Workload(model=f"nets:{model}")`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.plan import Plan
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload, checked
from pytest_tfperf.errors import TfperfError

_NUMBERS = ("batch_size", "num_packs", "steps", "warmup_steps", "tolerance")
_FLAGS = ("tf32", "xla", "forward_only")  # True and False are valid, and "on" may be a test's own word for one
_COMMON = ("unit",)  # a word that a test may well use for something of its own
_WORDS = tuple(field.name for field in fields(Workload) if field.name not in (*_NUMBERS, *_FLAGS, *_COMMON))


def faults(parameters: Mapping[str, object]) -> list[str]:
    """One sentence for each invalid value; it lists the valid ones.

    Checked are `Workload`s, and parameters that are named as one of its fields or as `steps`, `warmup_steps` or
    `tolerance`.
    """
    found: dict[str, None] = {}  # a set that keeps the order
    for name, value in _checkable(parameters):
        try:
            _check(name, value)
        except TfperfError as error:
            found[str(error)] = None
    return list(found)


def _checkable(parameters: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in parameters.items():
        if isinstance(value, Workload):
            yield from (("model", value.model), ("input_pipeline", value.input_pipeline))
        elif name == "model" and not get_close_matches(str(value), catalogue.models()):
            continue
        elif (name in _WORDS and isinstance(value, str)) or (name in _NUMBERS and isinstance(value, (int, float))):
            yield name, value


def _check(name: str, value: object) -> None:
    if name == "tolerance":
        Tolerance.of(value)  # type: ignore[arg-type]  # its type is what is checked
    elif name in ("steps", "warmup_steps"):
        Plan(**{name: value})  # type: ignore[arg-type]  # as above
    else:
        checked(name, value)
        if name == "model":
            catalogue.resolve_model(str(value))
        elif name == "input_pipeline":
            catalogue.resolve_pipeline(str(value))
