"""Which version of this package a process runs, whether or not it is installed there."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest() -> str:
    """Ten digits that differ if any module of this package differs."""
    package = Path(__file__).parent.parent
    found = hashlib.blake2s()
    for file in sorted(package.rglob("*.py")):
        found.update(str(file.relative_to(package)).encode() + file.read_bytes())
    return found.hexdigest()[:10]
