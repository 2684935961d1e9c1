"""Projects to run pytest in."""

from projects import project, shared

__all__ = ["project", "shared"]
