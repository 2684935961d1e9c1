"""Which of the documents' figures a selection of tests would measure, as far as their parameters tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import NotBuiltYet


def key_of(parameters: Mapping[str, object]) -> Key | None:
    """What a GPU test with these parameters measures: its `Workload`, on `gpus` GPUs of each of `nodes` (1).

    None for a test that doesn't tell: without exactly one parameter that is a Workload, or without whole `gpus`.
    """
    workloads = [value for value in parameters.values() if isinstance(value, Workload)]
    gpus, nodes = parameters.get("gpus"), parameters.get("nodes", 1)
    if len(workloads) != 1 or not isinstance(gpus, int) or not isinstance(nodes, int):
        return None
    return Key(workloads[0].id, f"{nodes}x{gpus}")


def unmeasured(published: Iterable[Baseline], keys: Collection[Key]) -> list[Baseline]:
    """The rows that no test with one of these keys measures; in their order."""
    return [row for row in published if row.key not in keys]


def not_built(published: Iterable[Baseline]) -> dict[Key, str]:
    """What keeps this version from training some rows' workloads, in a word; their tests are skipped."""
    words = {row.key: _not_built(row.key) for row in published}
    return {key: word for key, word in words.items() if word}


def _not_built(key: Key) -> str:
    workload = Workload.parse(key.workload)
    try:
        catalogue.check(workload)
    except NotBuiltYet:
        return workload.variable_update.value
    return "" if key.topology.startswith("1x") else "several nodes"
