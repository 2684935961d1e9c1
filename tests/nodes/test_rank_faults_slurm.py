"""The tests of `test_rank_faults`, under srun."""

from __future__ import annotations

import os
import subprocess

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
def launcher(srun: Launcher) -> Launcher:
    return srun


def test_no_job_is_left_in_the_queue(faults: Finished, launcher: Launcher) -> None:  # noqa: F811  # the fixture
    environment = {**os.environ, **launcher.variables}
    queue = subprocess.run(["squeue", "-h"], env=environment, capture_output=True, text=True, check=True)
    assert queue.stdout == ""


def test_a_rank_that_was_killed_is_not_said_to_have_got_the_sigterm_of_the_others(faults: Finished) -> None:  # noqa: F811
    text = faults.cases["test_fault[killed]"].text
    assert "was ended by SIGKILL" in text
    assert "SIGTERM" not in text


@pytest.mark.parametrize("fault", IN_ANOTHER_WAY)
def test_a_fault_is_an_error_that_names_the_rank(faults: Finished, fault: str) -> None:  # noqa: F811  # the fixture
    require_named(faults, fault)
