"""What to type next."""

from __future__ import annotations

from shlex import quote


def rerun(test: str, again: str = "") -> str:
    """The command that runs a test alone; `again` is what it needs after the test's name (`Settings.again`)."""
    return f"pytest {quote(test)}{again}"
