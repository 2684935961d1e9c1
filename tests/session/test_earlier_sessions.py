"""Without a recorded baseline: a first session, later ones that are judged against it, and what takes over.

The clock of the workers is played, and so are a program's rates: other work on the machine decides nothing.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.inner import Finished, Project

EVEN = "nets:even-b4-replicated-device"

TESTS = """
    def test_even(throughput, on):
        throughput.check(tiny(4, "nets:even"), on=on)
"""

FIRST, LATER, SLOW = "20.0", "20.1", "30.0 30.1 29.9"


def session(project: Project, paces: str, *arguments: str) -> Finished:
    project.write("even", paces)
    return project.run(*arguments)


def summary_of(finished: Finished) -> str:
    return finished.text.partition("= throughput =")[2]


@pytest.fixture(scope="module")
def sessions(played: Project) -> list[Finished]:
    """The first session, a second one, one that is slower, and one with a slowdown on purpose under `--strict`."""
    played.tests(TESTS)
    return [session(played, FIRST, "-m", "cpu"), session(played, LATER), session(played, SLOW, "--tfperf-strict")]


def test_none_of_them_fails(sessions: list[Finished]) -> None:
    assert [(one.status, one.kinds) for one in sessions] == [(0, {"test_even": "passed"})] * 3, sessions[-1].text


def test_the_first_one_is_measured_and_nothing_is_skipped(sessions: list[Finished]) -> None:
    assert re.search(r"= 1 measured in ", sessions[0].text)
    assert "skipped" not in sessions[0].text.lower()


def test_the_first_one_ends_with_what_to_do(sessions: list[Finished]) -> None:
    pytest.LineMatcher(summary_of(sessions[0]).splitlines()).fnmatch_lines(
        [
            "NO_BASELINE  even-b4-replicated-device *",
            "without a row in baselines/: 1 measured and not judged, *",
            "  noise  * within a run * between runs shown after a later session",
            "  detectable  the next session warns of slowdowns from *",
            "  record      pytest -m cpu --update-baselines    (about *; then commit baselines/)",
        ]
    )


def test_the_second_one_is_judged_against_the_first(sessions: list[Finished]) -> None:
    pytest.LineMatcher(summary_of(sessions[1]).splitlines()).fnmatch_lines(
        [
            "PASS (provisional)  even-b4-replicated-device *",
            "without a row in baselines/: 1 judged against earlier sessions here *",
        ]
    )


def test_a_slowdown_warns_in_one_line_that_says_what_it_was_compared_with(sessions: list[Finished]) -> None:
    warnings = sessions[2].text.partition("= warnings summary =")[2].partition("= throughput =")[0]
    assert warnings.count(EVEN.removeprefix("nets:")) == 1
    assert " (against 2 earlier sessions here): the slowdown is confirmed. Rerun: pytest " in warnings


def test_a_slowdown_is_counted_in_the_summary(sessions: list[Finished]) -> None:
    assert "\nbox: 1 REGRESSED (provisional) in " in summary_of(sessions[2])


def test_a_slowdown_gets_two_more_runs(sessions: list[Finished], played: Project) -> None:
    assert [len(one.runs) for one in played.history.measurements()] == [1, 1, 3]


def test_a_slowdown_is_no_reference_for_the_next_session(sessions: list[Finished], played: Project) -> None:
    assert "(against 2 earlier sessions here)" in session(played, SLOW).text


# A program prints the rate that a file says. It needs no TensorFlow, whose import would be most of a session.
PROGRAM = """
    import sys

    def test_program(throughput, on):
        throughput.check(Command([sys.executable, "prints.py"], name="program", reads=RATES), on=on)
"""
PRINTS = """
    import time
    from pathlib import Path
    rate = Path("rate").read_text()
    for step in range(1000):
        time.sleep(0.16)  # a window lasts 0.15 s at least
        print(f"{rate}.{step % 3} examples/s")
"""
USUAL, LOW = "100", "60"


def program_session(project: Project, rate: str, *arguments: str) -> Finished:
    project.write("prints.py", PRINTS)
    project.write("rate", rate)
    return project.run("-o", "tfperf_steps=1", *arguments)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """After its first session."""
    with Project(tmp_path_factory.mktemp("first"), trains=False) as project:
        project.tests(PROGRAM)
        assert program_session(project, USUAL).status == 0
        yield project


@pytest.fixture
def second(first: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy before its second session."""
    with Project(shutil.copytree(first.folder, tmp_path / "copy"), trains=False) as project:
        yield project


def test_the_nightly_gate_still_requires_a_recorded_baseline(second: Project) -> None:
    finished = program_session(second, USUAL, "--tfperf-require-baseline")
    assert (finished.status, finished.kinds) == (1, {"test_program": "failure"})
    assert "there is no baseline for this workload on this machine" in finished.cases["test_program"].text


def test_a_recorded_baseline_takes_over(second: Project) -> None:
    second.baseline("program", value=float(USUAL), unit="examples", runs=5, between_runs=0.001)
    finished = program_session(second, LOW)
    assert (finished.status, finished.kinds) == (1, {"test_program": "failure"})
    assert "earlier session" not in finished.text


def test_another_machines_sessions_are_no_reference(second: Project) -> None:
    assert " NO_BASELINE" in program_session(second, LOW, "--tfperf-machine=another").text


def test_sessions_with_an_injected_slowdown_are_no_reference(played_project: Project) -> None:
    played_project.tests(PROGRAM)
    program_session(played_project, USUAL, "--tfperf-inject-slowdown=0.3")
    assert " NO_BASELINE" in program_session(played_project, USUAL).text


def test_where_earlier_sessions_do_not_count_the_summary_says_who_tells_why(played_project: Project) -> None:
    played_project.tests(PROGRAM)
    first = program_session(played_project, USUAL, "--tfperf-inject-slowdown=0.3")
    second = program_session(played_project, USUAL)
    told = "(1 was measured before: `tfperf explain TEST` says why that does not count)"
    assert (told in first.text, told in second.text) == (False, True)


def test_an_injected_slowdown_shows_from_the_second_session_on(second: Project) -> None:
    finished = program_session(second, USUAL, "--tfperf-inject-slowdown=0.6")
    assert (finished.status, finished.kinds) == (0, {"test_program": "passed"})
    assert "REGRESSED (provisional)" in summary_of(finished)


BREAKING = """
    from pathlib import Path

    @pytest.fixture(scope="module", autouse=True)
    def breaks_in_mid_session():
        history = Path(".tfperf/history.sqlite")
        history.unlink()
        history.mkdir()
"""


def test_a_history_that_breaks_leaves_the_test_without_a_reference(second: Project) -> None:
    second.tests(PROGRAM + BREAKING)
    finished = program_session(second, USUAL)
    assert (finished.status, " NO_BASELINE" in finished.text) == (0, True), finished.text
    assert "\nnot in the history: " in summary_of(finished)


def test_a_test_with_one_recorded_baseline_of_two_is_measured(project: Project) -> None:
    project.tests("""
        import sys

        def test_two(throughput, on):
            for name in ("recorded", "new"):
                throughput.check(Command([sys.executable, "prints.py"], name=name, reads=RATES), on=on)
    """)
    project.baseline("recorded", value=float(USUAL), unit="examples", lower=-math.inf, upper=math.inf)
    assert re.search(r"= 1 measured in ", program_session(project, USUAL).text)
