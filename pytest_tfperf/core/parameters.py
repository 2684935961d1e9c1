"""What a test's parameters say that can't be: known at collection, without TensorFlow and before anything is measured.

Only what stands by itself is looked at. Whether two values suit each other is the body's to say, which may leave a
combination out; and a value of another type than the word's may be a key to something of the test's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload, checked
from pytest_tfperf.errors import TfperfError

_NUMBERS = ("batch_size", "num_packs", "steps", "warmup_steps", "tolerance")
_FLAGS = ("tf32", "xla", "forward_only")  # True and False are right, and "on" may be a test's own word for one
_WORDS = tuple(field.name for field in fields(Workload) if field.name not in (*_NUMBERS, *_FLAGS))
_RESOLVE: dict[str, Callable[[str], str]] = {
    "model": catalogue.resolve_model,
    "input_pipeline": catalogue.resolve_pipeline,
}


def faults(parameters: Mapping[str, object]) -> list[str]:
    """A sentence for each value that no workload, or no call of `throughput`'s, could have; it lists the good ones.

    Looked at are parameters that are a `Workload`, and those that are named as a workload's field or as `steps`,
    `warmup_steps` or `tolerance`.
    """
    found: dict[str, None] = {}
    for name, value in _named(parameters):
        try:
            _check(name, value)
        except TfperfError as error:
            found[str(error)] = None
    return list(found)


def _named(parameters: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in parameters.items():
        if isinstance(value, Workload):
            yield from (("model", value.model), ("input_pipeline", value.input_pipeline))
        elif (name in _WORDS and isinstance(value, str)) or (name in _NUMBERS and isinstance(value, (int, float))):
            yield name, value


def _check(name: str, value: object) -> None:
    if name == "tolerance":
        Tolerance.of(value)  # type: ignore[arg-type]  # what it must be is what is asked
    elif name in ("steps", "warmup_steps"):
        from pytest_tfperf.bench.windows import Plan  # of no use to a session that names no steps

        Plan(**{name: value})  # type: ignore[arg-type]  # as above
    else:
        checked(name, value)
        if name in _RESOLVE:
            _RESOLVE[name](str(value))
