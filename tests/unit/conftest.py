"""How Hypothesis looks for examples in these tests."""

from __future__ import annotations

from hypothesis import settings

# No test asserts a wall-clock time, and Hypothesis' deadline does: a busy machine would fail it.
settings.register_profile("no clock", deadline=None, max_examples=60)
settings.load_profile("no clock")
