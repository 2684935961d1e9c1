"""What a session on several nodes is started with."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Launcher:
    """What a session is started with.

    Args:
        name: of the launcher.
        options: for pytest.
        variables: for its environment.
    """

    name: str
    options: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)


LOCAL = Launcher("local", ())

LOCAL_SILENCE_SECONDS = 30.0
"""Of a forked rank: a fault of any kind ends within it, and a slow machine is not called silent."""
