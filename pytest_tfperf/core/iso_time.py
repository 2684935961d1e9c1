"""Times as measurements keep them: ISO 8601 texts, which a history may hold damaged."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=2**18)  # a year of 300 tests, each read several times
def moment(time: str) -> datetime:
    """An ISO time; one without a zone is taken as UTC, and text that is no time as the oldest of all."""
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
