"""What tests of other commits share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.inner import Project
from tests.helpers.repositories import Repository
from tests.helpers.sides import Sides


@pytest.fixture
def repository(project: Project) -> Repository:
    return Repository(project)


@pytest.fixture
def sides(project: Project) -> Iterator[Sides]:
    made = Sides(project)
    made.repository.cost(0.02)  # not committed: the base's is 0.01
    yield made
    made.close()
