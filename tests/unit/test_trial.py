"""A trial's attempts: those that count, and those that are only shown."""

from __future__ import annotations

from measurements import attempt

from pytest_tfperf.core.run import Trial

GOOD, LATER = attempt([1.0] * 3), attempt([1.1] * 3)
SPOILT = attempt([2.0] * 3, disturbance="heat")


def test_what_was_disturbed_is_set_aside() -> None:
    assert Trial((GOOD, SPOILT, LATER)).believed() == Trial((GOOD, LATER), (SPOILT,))


def test_what_was_set_aside_before_stays_so() -> None:
    assert Trial((GOOD,), (SPOILT,)).believed() == Trial((GOOD,), (SPOILT,))
