"""A profile in words: where its trace lies, and which operations grew."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_tfperf.core.op_times import Growth
from pytest_tfperf.core.profile import Profile

_NOTHING = 0.01  # as a fraction of the operation's present time


def profile_lines(profile: Profile | None) -> Iterator[tuple[str, str]]:
    """Labelled lines about a profile; none without a profile."""
    if profile is None:
        return
    if profile.folder:
        yield "profile", f"{profile.folder}    (open with {profile.command})"
    else:
        yield "profile", f"none: {profile.fault}"
    for growth in profile.grown:
        yield "grew", _growth(growth)


def _growth(growth: Growth) -> str:
    """For example "Conv2D block3/conv 1.2 -> 3.4 ms a step"."""
    name = growth.name if growth.name == growth.type else f"{growth.type} {growth.name}"
    before = _milliseconds(growth.before_seconds)
    if growth.is_at_most:
        before = f"under {before}" if growth.before_seconds > _NOTHING * growth.seconds else "0"
    return f"{name} {before} -> {_milliseconds(growth.seconds)} ms a step"


def _milliseconds(seconds: float) -> str:
    """At least two digits: "1.2", "0.034", "123"; "0" for less than half a microsecond."""
    value = seconds * 1e3
    if value < 0.0005:
        return "0"
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"
