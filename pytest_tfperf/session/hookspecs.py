"""Hooks that a conftest.py may implement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_tfperf.core.workload import Workload


@pytest.hookspec
def pytest_tfperf_models() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Names for models of your own: `{"wavenet": "mypkg.nets:wavenet"}`; the function returns a Keras model."""


@pytest.hookspec
def pytest_tfperf_pipelines() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Names for input pipelines of your own: `{"parquet": "mypkg.data:parquet"}`; see docs/own-models.md."""


@pytest.hookspec(firstresult=True)
def pytest_tfperf_workload_name(workload: Workload) -> str | None:
    """The name of a workload in tables and messages in place of its id; None for none. A test's `name=` comes first."""
