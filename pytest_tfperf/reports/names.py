"""The names of workloads that tables show: one for each, also where two have the same."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_tfperf.core.workload_name import shown_name

Named = tuple[str, str]
"""A workload's id and the name that its test gave it, "" for none."""


def shown_names(workloads: Iterable[Named]) -> dict[Named, str]:
    """What people read of each workload; those whose names would be equal are shown by their ids.

    >>> shown_names([("acme.nets:small_cnn-b32-replicated-device", "")])
    {('acme.nets:small_cnn-b32-replicated-device', ''): 'small_cnn-b32-replicated-device'}
    """
    short = {(id, name): shown_name(id, name) for id, name in workloads}
    ids: dict[str, set[str]] = {}
    for (id, _), text in short.items():
        ids.setdefault(text, set()).add(id)
    return {named: text if len(ids[text]) == 1 else named[0] for named, text in short.items()}
