"""A loss that is acknowledged: recorded, slowed, acknowledged, worse, ended, recovered and gone, in true sessions."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.stores import acknowledgements
from tests.helpers.inner import Finished, Project
from tests.helpers.measurements import acknowledged

GREEN, REGRESSED, USAGE = 0, 1, 4
TODAY = datetime.now(UTC).date()
A_MONTH = TODAY + timedelta(days=30)
TEST = "test_it.py::test_program"

TESTS = """
    import sys
    from pytest_tfperf import Command

    PROGRAM = "rate = float(open('rate').read()); print(f'{rate} examples/s\\\\n' * 9)"

    @pytest.mark.owner("team-vision")
    def test_program(throughput, on):
        throughput.check(Command([sys.executable, "-c", PROGRAM], name="program", reads=RATES_TO_THE_END), on=on)

    def test_other(throughput, on):
        argv = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        program = Command(argv, name="other", reads=RATES_TO_THE_END)
        throughput.check(program, on=on)
"""


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose program has lost 13 % since its baseline was recorded."""
    with Project(tmp_path_factory.mktemp("ack"), trains=False) as project:
        project.tests(TESTS)
        for name, value in (("program", 1000.0), ("other", 9.0)):
            project.baseline(name, value=value, unit="examples", runs=5, between_runs=0.01)
        assert "13.0 % slower" in at(project, 870, test="test_it.py").text
        yield project


@pytest.fixture(scope="module")
def measured(slowed: Project) -> Path:
    """A copy of the history in which the program was measured once, and had lost 13 %."""
    return Path(shutil.copytree(slowed.folder / ".tfperf", slowed.folder / "measured"))


@pytest.fixture(autouse=True)
def nothing_acknowledged(slowed: Project, measured: Path) -> None:
    acknowledgements.write(slowed.folder / "baselines", [])


def at(project: Project, rate: float, *options: str, test: str = TEST) -> Finished:
    """A session of the test, in which the program has this rate."""
    project.write("rate", str(rate))
    return project.run(test, *options)


def ack(project: Project, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    places = [f"--baselines={project.folder / 'baselines'}", f"--history={project.folder / 'measured'}"]
    status = cli.main(["ack", *arguments, *places])
    out, err = capsys.readouterr()
    return status, out + err


def known(project: Project, until: date = A_MONTH, change: float = -0.13, worst: float = -0.15) -> Acknowledgement:
    """An entry of the file that a person may have written."""
    one = acknowledged(change, worst, test=TEST, workload="program", topology="1x1", until=until)
    acknowledgements.write(project.folder / "baselines", [one])
    return one


def lines(finished: Finished, begin: str) -> list[str]:
    return [line for line in finished.text.splitlines() if line.startswith(begin)]


def test_the_last_measurement_is_acknowledged(slowed: Project, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = ack(slowed, capsys, "test_program", f"--until={A_MONTH}", "--why", "bug 123")
    (one,) = acknowledgements.read(slowed.folder / "baselines")
    assert (status, one.test, one.machine, one.until, one.why) == (GREEN, TEST, "box", A_MONTH, "bug 123")
    assert (one.change, one.worst < one.change) == (pytest.approx(-0.13), True)
    assert f"acknowledged: {TEST} on box: 13.0 % slower, until {A_MONTH}; at worst " in text
    assert f"Commit {slowed.folder}/baselines/acknowledged.toml" in text


def test_an_acknowledged_loss_passes_and_is_shown(slowed: Project) -> None:
    known(slowed)
    done = at(slowed, 870, "--tfperf-require-baseline", "--tfperf-strict")
    assert (done.status, done.kinds) == (GREEN, {"test_program": "passed"})
    assert "REGRESSED (acknowledged)" in done.text
    assert lines(done, "acknowledged") == [
        f"acknowledged until {A_MONTH}: {TEST}: 13.0 % slower (team-vision): bug 123"
    ]


def test_a_worse_loss_fails_and_says_so(slowed: Project) -> None:
    known(slowed)
    done = at(slowed, 700)
    assert done.status == REGRESSED
    message = done.cases["test_program"].text
    assert re.search(rf"known loss +WORSE than acknowledged 13.0 % slower until {A_MONTH}: bug 123", message)
    assert re.search(r"owner +team-vision", message)
    assert len(lines(done, "worse than acknowledged: team-vision: ")) == 1


def test_past_its_end_it_fails_the_nightly_gate(slowed: Project) -> None:
    known(slowed, until=TODAY - timedelta(days=2))
    assert at(slowed, 870, "--tfperf-require-baseline").status == REGRESSED


def test_a_recovery_is_named_with_the_command_that_removes_the_entry(
    slowed: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    known(slowed)
    done = at(slowed, 1000)
    remove = f"tfperf ack {TEST} --machine box --remove"
    assert done.status == GREEN
    assert lines(done, "recovered") == [
        f"recovered: {TEST}: no slower, acknowledged 13.0 % slower. Remove it: {remove}"
    ]
    assert ack(slowed, capsys, *remove.split()[2:])[0] == GREEN
    assert acknowledgements.read(slowed.folder / "baselines") == ()


def test_a_test_that_is_gone_is_named_where_its_file_was_collected_whole(slowed: Project) -> None:
    known(slowed)
    slowed.tests(TESTS.replace("test_program", "test_renamed"))
    try:
        whole, part = at(slowed, 1000, test="test_it.py"), at(slowed, 1000, test="test_it.py::test_other")
    finally:
        slowed.tests(TESTS)
    (line,) = lines(whole, f"stale: {TEST} is acknowledged, and no longer exists. ")
    assert line.endswith(f"Remove it: tfperf ack {TEST} --machine box --remove")
    assert lines(part, "stale") == []


def test_a_deselected_test_is_not_gone(slowed: Project) -> None:
    known(slowed)
    assert lines(at(slowed, 1000, "-k", "other", test="test_it.py"), "stale") == []


def test_a_comparison_never_looks_at_acknowledgements(slowed: Project) -> None:
    (slowed.folder / "baselines" / acknowledgements.NAME).write_text("<<<<<<< HEAD\n")
    done = slowed.run(TEST, f"--tfperf-against={sys.executable}")
    assert (done.status, acknowledgements.NAME in done.text) == (GREEN, False), done.text


def test_a_file_that_cannot_be_read_is_an_error_before_anything_is_measured(slowed: Project) -> None:
    (slowed.folder / "baselines" / acknowledgements.NAME).write_text("<<<<<<< HEAD\n")
    done = at(slowed, 1000)
    assert done.status == USAGE
    assert "acknowledged.toml, line 1: git's merge of this file is unfinished" in done.text


WHEN, WHY = f"--until={A_MONTH}", "--why=bug 123"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["test_program", "--until=2020-01-01", WHY], "--until=2020-01-01 is past. Today is "),
        (["test_program", "--until=soon", WHY], "'soon' is no date: write 2027-01-15"),
        (["test_program", "--until=2099-01-01", WHY], "more than a year away, and a loss without an end is a lower"),
        (["test_program", WHEN], "no --why: an acknowledgement has an end, and a reason"),
        (["test_program"], "no --until and --why"),
        (["test_program", WHEN, "--why=a\nb"], "give a line of at most 200 characters"),
        (["test_progam", WHEN, WHY], "Did you mean 'test_program'?"),
        (["test_program", WHEN, WHY, "--machine=bix"], "Did you mean 'box'?"),
        (["test_program", WHEN, WHY, "--figure=peak_memory"], "unknown figure 'peak_memory'"),
        (["test_other", WHEN, WHY], "its throughput is PASS in session"),
        (["test_program", "--remove"], "no throughput of a test with 'test_program' in its id is acknowledged"),
        ([], "no TEST. Name one, or list what is acknowledged"),
    ],
)
def test_what_cannot_be_acknowledged_is_refused(
    slowed: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    status, text = ack(slowed, capsys, *arguments)
    assert (status, says in text) == (USAGE, True), text
    assert acknowledgements.read(slowed.folder / "baselines") == ()


def test_a_second_acknowledgement_needs_replace(slowed: Project, capsys: pytest.CaptureFixture[str]) -> None:
    known(slowed)
    status, text = ack(slowed, capsys, "test_program", WHEN, "--why=another")
    assert (status, f"is acknowledged until {A_MONTH} already: bug 123. Give --replace" in text) == (USAGE, True), text
    assert ack(slowed, capsys, "test_program", WHEN, "--why=another", "--replace")[0] == GREEN
    assert [one.why for one in acknowledgements.read(slowed.folder / "baselines")] == ["another"]


def test_the_list_has_those_that_end_first_on_top(slowed: Project, capsys: pytest.CaptureFixture[str]) -> None:
    one = known(slowed, until=TODAY - timedelta(days=1))
    assert re.search(rf"{one.until} +over +{TEST} +13.0 % slower +box +bug 123", ack(slowed, capsys, "--list")[1])


def test_an_empty_list_says_so(slowed: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert ack(slowed, capsys, "--list") == (GREEN, f"nothing is acknowledged in {slowed.folder}/baselines/\n")


def test_several_entries_of_a_test_are_told_apart(slowed: Project, capsys: pytest.CaptureFixture[str]) -> None:
    entries = [
        acknowledged(sign * 0.1, sign * 0.2, machine=machine, test=TEST, figure=figure, until=A_MONTH)
        for machine in ("box", "other")
        for figure, sign in (("throughput", -1), ("peak_memory", 1))
    ]
    folder: Path = slowed.folder / "baselines"
    acknowledgements.write(folder, entries)
    status, text = ack(slowed, capsys, "--remove", "test_program")
    assert (status, "'test_program' means several acknowledgements" in text) == (USAGE, True)
    status, _ = ack(slowed, capsys, "--remove", "test_program", "--machine=other", "--figure=peak_memory")
    assert status == GREEN
    assert acknowledgements.read(folder) == tuple(sorted(entries[:3], key=lambda one: one.key))
