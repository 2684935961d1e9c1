"""The short names of workloads that tables show; messages and files have the full ids."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OWN_FUNCTION = re.compile(r"[\w.]+:(\w+)")

Named = tuple[str, str]
"""A workload's id and the name that its test gave it, "" for none."""


def shown_names(workloads: Iterable[Named]) -> dict[Named, str]:
    """Short names for tables: the test's name, or the id without the modules of users' functions.

    Workloads whose short names would be equal are shown by their ids.

    >>> shown_names([("acme.nets:small_cnn-b32-replicated-device", "")])
    {('acme.nets:small_cnn-b32-replicated-device', ''): 'small_cnn-b32-replicated-device'}
    """
    short = {(id, name): name or _OWN_FUNCTION.sub(r"\1", id) for id, name in workloads}
    ids: dict[str, set[str]] = {}
    for (id, _), text in short.items():
        ids.setdefault(text, set()).add(id)
    return {named: text if len(ids[text]) == 1 else named[0] for named, text in short.items()}


def with_id(id: str, name: str) -> str:
    """A workload as a message names it: "small-cnn (nets:cnn-b8-replicated-device)", or its id alone."""
    return f"{name} ({id})" if name else id
