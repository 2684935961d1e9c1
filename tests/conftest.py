"""What all kinds of tests need."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.helpers.azure_logs import azure_logs
from tests.helpers.expected import same_texts
from tests.helpers.projects import played, played_project, project, shared
from tests.helpers.stand_in_libraries import build_library, driver_libraries, nvml_scenario

__all__ = [
    "azure_logs",
    "build_library",
    "driver_libraries",
    "nvml_scenario",
    "played",
    "played_project",
    "project",
    "same_texts",
    "shared",
]

# A session that a test starts is no worker of the xdist that runs the test; pytest-benchmark would take it for one.
os.environ.pop("PYTEST_XDIST_WORKER", None)

# OpenBLAS starts a thread for each core where NumPy or SciPy is imported, and each session of these tests imports both:
# a quarter of a second of two cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No test asserts a wall-clock time, and Hypothesis' deadline and its check of how long examples take to draw do: a busy
# machine would fail them.
settings.register_profile("no clock", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
# HYPOTHESIS_PROFILE=long .venv/bin/python -m pytest tests/session/test_fuzz.py
settings.register_profile("long", settings.get_profile("no clock"), max_examples=3000)
# The same examples in each run, and the first that fails suffices (tools/mutants).
settings.register_profile(
    "mutants",
    settings.get_profile("no clock"),
    max_examples=20,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "no clock"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without collections of garbage: modules of tests and TensorFlow's import leave none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
