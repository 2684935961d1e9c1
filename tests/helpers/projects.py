"""Fixtures: a user's project for a test, or one that a module's tests share; with workers that train or play it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.inner import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with Project(tmp_path / "project") as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("shared")) as made:
        yield made


@pytest.fixture
def played_project(tmp_path: Path) -> Iterator[Project]:
    with Project(tmp_path / "project", trains=False) as made:
        yield made


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One that a module's tests share, whose workers import no TensorFlow."""
    with Project(tmp_path_factory.mktemp("played"), trains=False) as made:
        yield made
