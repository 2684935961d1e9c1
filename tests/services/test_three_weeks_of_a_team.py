"""Three simulated weeks of two machines, whose histories a PostgreSQL server collects and tells silence from."""

from __future__ import annotations

from pathlib import Path

import postgres
import pytest

from tools.told_weeks import WANTED, a_job_that_tells, live_through, told


def test_each_change_of_three_weeks_is_told_once(tmp_path: Path) -> None:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.server() as server, a_job_that_tells(tmp_path) as notified:
        live_through(tmp_path, team=server.new_database())
    assert told(notified) == WANTED
