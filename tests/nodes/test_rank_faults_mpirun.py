"""The tests of `test_rank_faults`, under mpirun."""

from __future__ import annotations

import pytest
from launchers import Launcher
from test_rank_faults import (  # noqa: F401  # pytest collects them here too
    IN_ANOTHER_WAY,
    faults,
    project,
    require_named,
    test_no_process_no_key_and_no_temporary_file_is_left,
    test_the_session_goes_on_and_exits_with_6,
)

from tests.helpers.inner import Finished


@pytest.fixture(scope="module")
def launcher(mpirun: Launcher) -> Launcher:
    return mpirun


@pytest.mark.parametrize("fault", IN_ANOTHER_WAY)
def test_a_fault_is_an_error_that_names_the_rank(faults: Finished, fault: str) -> None:  # noqa: F811  # the fixture
    require_named(faults, fault)
