"""What tests of other commits share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_tfperf.revisions import program_sources
from tests.helpers.inner import Project
from tests.helpers.repositories import Repository
from tests.helpers.sides import Sides


@pytest.fixture
def repository(project: Project) -> Repository:
    return Repository(project)


@pytest.fixture
def sides(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    # A busy machine may start a program so late that the looks at it, which become rare, miss what it then does.
    monkeypatch.setattr(program_sources, "_LAST_LOOK_SECONDS", 0.05)
    made = Sides(project)
    made.repository.cost(0.02)  # not committed: the base's is 0.01
    yield made
    made.close()
