"""How Hypothesis looks for examples in these tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No test asserts a wall-clock time, and Hypothesis' deadline and its check of how long examples take to draw do: a busy
# machine would fail them.
settings.register_profile("no clock", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")
