"""Everything that users import is in the package itself, and importing it costs no heavy library."""

from __future__ import annotations

import subprocess
import sys

import pytest
from patience import SESSION_SECONDS

import pytest_tfperf

HEAVY = ("tensorflow", "keras", "numpy", "pandas", "scipy", "psutil", "pynvml", "sqlalchemy", "pytest")


def printed(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=SESSION_SECONDS, check=True
    ).stdout.strip()


def test_importing_the_package_imports_no_heavy_library() -> None:
    code = f"import sys, pytest_tfperf.core.catalogue as c; c.models(); print([n for n in {HEAVY} if n in sys.modules])"
    assert printed(code) == "[]"


def test_public_names_are_documented() -> None:
    here = [name for name in pytest_tfperf.__all__ if name in vars(pytest_tfperf)]
    assert [name for name in here if not getattr(pytest_tfperf, name).__doc__] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Worklod'"):
        _ = pytest_tfperf.Worklod
