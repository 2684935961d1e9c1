"""The table's colours and widths, names, and that each text stands in full only once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pytest_tfperf import cli
from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

TESTS = """
    def test_passes(throughput, on):
        throughput.check(tiny(1), on=on, name="small net")

    def test_has_no_baseline(throughput, on):
        throughput.check(tiny(4), on=on)

    def test_regresses(throughput, on):
        print("the body ran")
        throughput.check(tiny(3), on=on, name="named")

    @pytest.mark.parametrize("input_pipeline", ["unheard-of"], indirect=True)
    def test_is_refused(throughput, input_pipeline):
        pass

    def test_trains_to_nan(throughput, on):
        throughput.check(tiny(1, "nets:nan"), on=on)

    def test_ordinary(benchmark):
        benchmark(sum, [1, 2, 3])
"""

SLOW = "nets:tiny-b3-replicated-device"

# A program is measured without TensorFlow, whose import would be most of such a session.
OF_A_PROGRAM = """
    import sys
    from pytest_tfperf import Command

    def test_passes(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)

    def test_ordinary(benchmark):
        benchmark(sum, [1, 2, 3])
"""


@pytest.fixture(scope="module")
def filled(played: Project) -> Project:
    played.tests(TESTS)
    played.baseline("nets:tiny-b1-replicated-device", **ANY_THROUGHPUT)
    played.baseline(SLOW, value=1e6)
    return played


@pytest.fixture(scope="module")
def of_a_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("program"), trains=False) as project:
        project.tests(OF_A_PROGRAM)
        project.baseline("program", unit="examples", **ANY_THROUGHPUT)
        yield project


# In a terminal


@pytest.fixture(scope="module")
def narrow(filled: Project) -> str:
    return filled.terminal("--color=yes", columns=80)


@pytest.mark.parametrize(("outcome", "colour"), [("REGRESSED", 31), ("INVALID", 31), ("NO_BASELINE", 33), ("PASS", 32)])
def test_an_outcome_has_a_colour(narrow: str, outcome: str, colour: int) -> None:
    assert f"\n\x1b[{colour}m{outcome}\x1b[0m  " in narrow


def section(text: str) -> list[str]:
    """The lines of our section, without colours."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text).replace("\r", "")
    return plain.partition("= throughput =")[2].partition("\n====")[0].splitlines()[1:]


def test_no_line_of_the_summary_is_wider_than_the_terminal(narrow: str) -> None:
    lines = section(narrow)
    assert lines[0].startswith("outcome ")
    assert [line for line in lines if len(line) > 80] == []


def test_a_message_is_wrapped_under_its_label(narrow: str) -> None:
    assert re.search(r"\n  threshold   fails below \S+    \(baseline[^\n]*\n {14}\S", narrow.replace("\r", ""))


def test_without_colours_a_terminal_shows_plain_outcomes(of_a_program: Project) -> None:
    text = of_a_program.terminal("-k", "passes", columns=100, NO_COLOR="1")
    assert re.search(r"\r\nPASS  +program  +1x1  ", text)


# In a pipe, on each level of detail


@pytest.fixture(scope="module", params=["-q", "-vrA"])  # the latter shows all that -v and -rA show
def piped(filled: Project, request: pytest.FixtureRequest) -> Finished:
    return filled.run(request.param)


@pytest.mark.parametrize(
    "text",
    [
        "Known: device, host, ",  # what is wrong with test_is_refused, and what to write instead
        "  next        look in the input pipeline for NaN",
        "  confirmed   8 of 8 fresh runs",
        "  rerun       pytest test_it.py::test_regresses",
        "the body ran",
        "there is no baseline for this workload on this machine",
    ],
)
def test_a_text_stands_in_full_at_most_once(piped: Finished, text: str) -> None:
    assert piped.text.count(text) <= 1


@pytest.mark.parametrize(
    "line",
    [
        "FAILED test_it.py::test_regresses - REGRESSED: * slower than *",
        "ERROR test_it.py::test_is_refused[[]unheard-of[]] - unknown input_pipeline *",
        "ERROR test_it.py::test_trains_to_nan - INVALID: loss became NaN by step 1*",
    ],
)
def test_the_short_summary_has_the_fact_alone(piped: Finished, line: str) -> None:
    pytest.LineMatcher(piped.text.splitlines()).fnmatch_lines([line])


def test_a_pipe_gets_neither_colours_nor_wrapped_messages(piped: Finished) -> None:
    assert "\x1b" not in piped.text
    assert re.search(r"^  threshold   fails below .* \(baseline .* by noise\)$", piped.text, re.MULTILINE)


def test_junit_has_the_fact_as_message_and_the_whole_text(piped: Finished) -> None:
    case = piped.cases["test_regresses"]
    assert case.message.startswith("REGRESSED: ")
    assert "  accept      tfperf baselines accept " in case.text


# pytest-benchmark's table


def benchmarks(text: str) -> list[str]:
    """The tests in pytest-benchmark's table."""
    return re.findall(r"^(test_\w+) +[\d.,]+ ", text, re.MULTILINE)


def test_pytest_benchmarks_table_has_ordinary_benchmarks_only(piped: Finished) -> None:
    assert benchmarks(piped.text) == ["test_ordinary"]


@pytest.mark.parametrize(
    ("environment", "options"),
    [({}, ["--benchmark-columns=min"]), ({"PYTEST_ADDOPTS": "--benchmark-sort=name"}, [])],
    ids=["option", "environment"],
)
def test_an_option_of_pytest_benchmarks_brings_our_tests_into_its_table(
    of_a_program: Project, environment: dict[str, str], options: list[str]
) -> None:
    text = of_a_program.run(*options, **environment).text
    assert sorted(benchmarks(text)) == ["test_ordinary", "test_passes"]


def test_without_ordinary_benchmarks_there_is_no_such_table(of_a_program: Project) -> None:
    assert "benchmark: 1 tests" not in of_a_program.run("-k", "passes", "--benchmark-quiet").text


# Names


def test_a_call_has_a_name_and_own_functions_have_short_ids(piped: Finished) -> None:
    names = {row[1] for line in section(piped.text) if len(row := re.split("  +", line)) > 4}
    assert names == {"named", "nan-b1-replicated-device", "small net", "tiny-b4-replicated-device", "workload"}


def test_a_message_has_the_name_and_the_id(piped: Finished) -> None:
    text = piped.cases["test_regresses"].text
    assert ("named on " in text, f"  workload    {SLOW} " in text) == (True, True)


def test_the_history_keeps_and_shows_names(
    piped: Finished, filled: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "named" in {one.name for one in filled.history.measurements()}
    assert cli.main(["history", f"--dir={filled.folder / '.tfperf'}"]) == 0
    assert "  named  " in capsys.readouterr().out


def test_what_is_no_name_is_refused(played_project: Project) -> None:
    played_project.tests("""
        @pytest.mark.parametrize("name", ["", " padded", "two\\nlines", 3], ids=["none", "padded", "lines", "number"])
        def test_it(throughput, on, name):
            throughput.measure(tiny(1), on=on, name=name)
    """)
    finished = played_project.run()
    assert finished.kinds == {
        "test_it[none]": "passed",
        "test_it[padded]": "error",
        "test_it[lines]": "error",
        "test_it[number]": "error",
    }
    assert "test_it.py:21: name=' padded' of nets:tiny-b1-replicated-device: give it as a line" in finished.text


# Software and machine as a whole

JUDGED = """
    from pytest_tfperf.core.session_verdicts import SessionVerdict, VerdictOn
    from pytest_tfperf.core.verdict import Outcome
    from pytest_tfperf.session.state import SessionState

    def judge(session):
        figures = {"change": -0.081, "interval": (-0.09, -0.072), "threshold": 0.05, "tests": 8}
        kind, outcome = VerdictOn.MACHINE, Outcome.REGRESSED
        session.verdicts.append(SessionVerdict(kind=kind, outcome=outcome, machine="box", **figures))
        return session.verdicts

    SessionState.judge = judge
"""


def test_a_verdict_on_the_machine_stands_in_full_once(project: Project) -> None:
    project.write("conftest.py", JUDGED)
    project.tests(OF_A_PROGRAM)
    project.baseline("program", unit="examples", **ANY_THROUGHPUT)
    text = project.run("-rA", "-k", "passes").text
    assert text.count("Check clocks, cooling") == 1
    fact = "machine box: REGRESSED: the reference environment is 8.1 % slower than the baselines (95 % CI -9.0 % to "
    assert section(text)[-1] == fact + "-7.2 %, fails from -5.0 %)"
