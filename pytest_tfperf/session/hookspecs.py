"""Hooks that a conftest.py may implement."""

from __future__ import annotations

from collections.abc import Mapping

import pytest


@pytest.hookspec
def pytest_tfperf_models() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Names for models of your own: `{"wavenet": "mypkg.nets:wavenet"}`; the function returns a Keras model."""


@pytest.hookspec
def pytest_tfperf_pipelines() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Names for input pipelines of your own: `{"parquet": "mypkg.data:parquet"}`; see docs/own-models.md."""
