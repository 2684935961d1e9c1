"""The name of a workload for people; files and keys have its id."""

from __future__ import annotations

import re

_OWN_FUNCTION = re.compile(r"[\w.]+:(\w+)")


def shown_name(id: str, name: str = "") -> str:
    """The name that a test gave its workload, else the id without the modules of users' functions.

    >>> shown_name("acme.nets:small_cnn-b32-replicated-device")
    'small_cnn-b32-replicated-device'
    """
    return name or _OWN_FUNCTION.sub(r"\1", id)
