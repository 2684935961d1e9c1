"""A test of two calls: the acknowledged loss of one hides no loss of the other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_tfperf.stores import acknowledgements
from tests.helpers.inner import Finished, Project
from tests.helpers.measurements import acknowledged

GREEN, REGRESSED = 0, 1
TEST = "test_it.py::test_both"
A_MONTH = datetime.now(UTC).date() + timedelta(days=30)

TESTS = """
    import sys
    from pytest_tfperf import Command

    PROGRAM = "import sys; print(f'{float(open(sys.argv[1]).read())} examples/s\\\\n' * 9)"

    def test_both(throughput, on):
        for name in ("first", "second"):
            command = [sys.executable, "-c", PROGRAM, name]
            throughput.check(Command(command, name=name, reads=RATES_TO_THE_END), on=on)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("two-calls"), trains=False) as project:
        project.tests(TESTS)
        for name in ("first", "second"):
            project.baseline(name, value=1000.0, unit="examples", runs=5, between_runs=0.01)
        yield project


def at(project: Project, first: float, second: float) -> Finished:
    """A session in which the two programs have these rates."""
    project.write("first", str(first))
    project.write("second", str(second))
    return project.run(TEST)


def known(project: Project, *calls: str) -> Path:
    """A file that acknowledges a loss of 13 % of these calls."""
    entries = [acknowledged(test=TEST, workload=call, topology="1x1", until=A_MONTH) for call in calls]
    return acknowledgements.write(project.folder / "baselines", entries)


def lines(finished: Finished, begin: str) -> list[str]:
    return [line for line in finished.text.splitlines() if line.startswith(begin)]


def test_the_loss_of_the_other_call_fails(project: Project) -> None:
    known(project, "first")
    done = at(project, 870, 870)
    assert done.status == REGRESSED
    message = done.cases["test_both"].text
    assert (message.startswith("second on "), "first on " in message) == (True, False), message


def test_the_acknowledged_call_passes(project: Project) -> None:
    known(project, "first")
    done = at(project, 870, 1000)
    assert (done.status, lines(done, "acknowledged until")) == (
        GREEN,
        [f"acknowledged until {A_MONTH}: {TEST}: 13.0 % slower (no owner): bug 123"],
    )


def test_the_summary_names_each_call_where_both_are_acknowledged(project: Project) -> None:
    known(project, "first", "second")
    done = at(project, 870, 1000)
    assert lines(done, "acknowledged until") == [
        f"acknowledged until {A_MONTH}: {TEST} (first on 1x1): 13.0 % slower (no owner): bug 123"
    ]
    assert lines(done, "recovered: ") == [
        f"recovered: {TEST} (second on 1x1): no slower, acknowledged 13.0 % slower. "
        f"Remove it: tfperf ack {TEST} --call 'second on 1x1' --machine box --remove"
    ]


def test_an_entry_of_a_call_that_was_not_made_is_named_and_removed_only_on_a_condition(project: Project) -> None:
    """The test may have ended before the call, as by an assert."""
    known(project, "third")
    assert lines(at(project, 1000, 1000), "stale: ") == [
        f"stale: {TEST} did not make the acknowledged call third on 1x1. If it does not make it any more, remove it: "
        f"tfperf ack {TEST} --machine box --remove"
    ]


def test_a_call_that_is_no_longer_judged_by_a_figure_is_stale(project: Project) -> None:
    entry = acknowledged(
        test=TEST, workload="first", topology="1x1", figure="loss", change=0.2, worst=0.3, until=A_MONTH
    )
    acknowledgements.write(project.folder / "baselines", [entry])
    (line,) = lines(at(project, 1000, 1000), "stale: ")
    assert line.startswith(f"stale: {TEST}, first on 1x1, is not judged by its loss any more. Remove it: ")
