"""What to type next."""

from __future__ import annotations

import os
from shlex import quote

from pytest_tfperf.settings import AS_IT_STANDS, Again


def rerun(test: str, again: Again = AS_IT_STANDS) -> str:
    """The command that runs a test alone, from where pytest was called."""
    path, separator, name = test.partition("::")
    if again.folder != again.root:
        path = os.path.relpath(again.root / path, again.folder)
    return f"pytest {quote(path + separator + name)}{again.options}"
