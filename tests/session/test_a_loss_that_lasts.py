"""A loss that nobody mends is red in every session that it lasts, and never learnt as noise."""

from __future__ import annotations

import pytest

from tests.helpers.inner import Finished, Project

TESTS = """
    @pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 5])
    def test_even(throughput, on, batch_size):
        throughput.check(tiny(batch_size, "nets:even"), on=on)
"""

USUAL, SLOW = "20.0 20.2 19.9 20.1", "24.0 24.2 23.9 24.1"


def session(project: Project, paces: str, *arguments: str) -> Finished:
    project.write("even", paces)
    return project.run(*arguments)


@pytest.fixture(scope="module")
def sessions(played: Project) -> list[Finished]:
    """Three sessions in which all five tests are a sixth slower, after a recording and a session that was as before."""
    played.tests(TESTS)
    session(played, USUAL, "--update-baselines")
    assert session(played, USUAL).status == 0
    return [session(played, SLOW) for _ in range(3)]


def test_it_is_red_in_every_session(sessions: list[Finished]) -> None:
    assert [one.status for one in sessions] == [1, 1, 1], sessions[-1].text
    assert {kind for one in sessions for kind in one.kinds.values()} == {"failure"}, sessions[-1].text


def test_the_threshold_is_no_wider_in_the_last_session_than_in_the_first(sessions: list[Finished]) -> None:
    thresholds = [[line for line in one.text.splitlines() if line.startswith("  threshold")] for one in sessions]
    assert thresholds[0] == thresholds[1] == thresholds[2]
