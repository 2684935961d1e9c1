"""A test in doubt runs again: the command that messages name, marks and skips that come between, what is recorded."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pytest_tfperf.session.options import read_settings
from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

CALLS = {
    "nothing": ([], "test_is"),
    "-c and --rootdir": (["-c", "../perf.ini", "--rootdir=.."], "it_is"),
    "-o": (["-o", "python_functions=it_*", "-o", "tfperf_steps=7"], "it_is"),
}


@pytest.mark.parametrize(("arguments", "name"), CALLS.values(), ids=CALLS)
def test_the_command_of_a_message_finds_its_test_from_a_subfolder(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    pytester.makefile(".ini", perf="[pytest]\npython_functions = it_*\n")
    pytester.makeini("[pytest]")
    tests = "def test_is(throughput): pass\ndef it_is(throughput): pass"
    pytester.mkdir("perf_tests").joinpath("test_y.py").write_text(tests)
    monkeypatch.chdir(Path("perf_tests"))
    settings = read_settings(pytester.parseconfig(*arguments))
    command = shlex.split(settings.rerun.of(f"perf_tests/test_y.py::{name}"))
    pytester.runpytest(*command[1:]).assert_outcomes(passed=1)


def test_the_command_leaves_out_what_belongs_to_one_session(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("-o", "tfperf_strict=true", "-o", "tfperf_machine=box")
    command = read_settings(config).rerun.of("test_y.py::test_x")
    assert command == "pytest test_y.py::test_x -o tfperf_machine=box"


# Marks and fixtures that change between two runs. A program that prints a rate needs no TensorFlow.
RATE = """
    import itertools, time

    for number in itertools.count():
        print(f"7.0{number % 3} examples/s", flush=True)
        time.sleep(0.02)
"""

MARKED = """
    import sys

    RUNS = {}

    @pytest.fixture
    def is_there_once(request):
        RUNS[request.node.name] = RUNS.get(request.node.name, 0) + 1
        if RUNS[request.node.name] > 1:
            pytest.skip("it is gone")

    def slow(throughput, on, name):
        throughput.check(Command([sys.executable, "rate.py"], name=name, reads=RATES), on=on)

    def test_is_skipped_when_it_runs_again(is_there_once, throughput, on):
        slow(throughput, on, "skipped")

    @pytest.mark.xfail
    def test_is_expected_to_fail_and_errs_when_it_runs_again(throughput, on):
        RUNS["expected"] = RUNS.get("expected", 0) + 1
        slow(throughput, on, "errs") if RUNS["expected"] == 1 else throughput.check(tiny(), on=on)

    @pytest.mark.xfail(strict=True)
    def test_is_expected_to_regress(throughput, on, record_property):
        record_property("ticket", "PERF-7")
        slow(throughput, on, "regresses")
"""


@pytest.fixture(scope="module")
def marked(played: Project) -> Finished:
    played.write("rate.py", RATE)
    played.tests(MARKED)
    for name in ("skipped", "errs", "regresses"):
        played.baseline(name, value=1e12, unit="examples")
    # xunit2 has no properties of a test; a reading of this program is a window, which lasts 0.15 s.
    return played.run("-o", "junit_family=xunit1", "-o", "tfperf_steps=3")


def test_a_rerun_that_is_skipped_or_expected_to_fail_is_the_last(marked: Finished) -> None:
    assert "1 skipped, 2 xfailed in " in marked.text


def test_a_strict_xfail_is_judged_when_the_regression_is_confirmed(marked: Finished) -> None:
    assert "1 REGRESSED" in marked.text


def test_what_a_test_records_for_junit_is_there_once(marked: Finished) -> None:
    recorded = marked.cases["test_is_expected_to_regress"].properties
    assert [value for name, value in recorded if name == "ticket"] == ["PERF-7"]


# A body that skips after its checks.
SKIPPING = """
    from pytest_tfperf.errors import NotEnoughDevices

    def test_skips_after_a_slow_check(throughput, on):
        throughput.check(tiny(3), on=on)
        pytest.skip("no more here")

    def test_lacks_devices_after_a_slow_check(throughput, on):
        throughput.check(tiny(3), on=on)
        raise NotEnoughDevices("needs 64 GPUs", wanted=64)

    def test_lacks_devices_after_a_good_check(throughput, on):
        throughput.check(tiny(4), on=on)
        raise NotEnoughDevices("needs 8 GPUs", wanted=8)
"""


@pytest.fixture(scope="module")
def skipping(played: Project) -> Finished:
    played.tests(SKIPPING)
    played.baseline("nets:tiny-b3-replicated-device", value=1e12)
    played.baseline("nets:tiny-b4-replicated-device", **ANY_THROUGHPUT)
    return played.run()


@pytest.mark.parametrize("why", ["skips", "lacks_devices"])
def test_a_skip_after_a_check_in_doubt_does_not_hide_the_regression(skipping: Finished, why: str) -> None:
    case = skipping.cases[f"test_{why}_after_a_slow_check"]
    assert case.kind == "failure", skipping.text
    assert "confirmed" in case.text


def test_a_skip_after_a_good_check_is_a_skip(skipping: Finished) -> None:
    assert skipping.kinds["test_lacks_devices_after_a_good_check"] == "skipped"


def test_only_tests_that_end_as_skipped_are_counted_as_such(skipping: Finished) -> None:
    assert [line for line in skipping.text.splitlines() if " skipped: " in line] == ["1 skipped: needs 8 GPUs"]


def test_rows_are_recorded_of_checks_before_a_skip(played_project: Project) -> None:
    played_project.tests(SKIPPING)
    played_project.run("--update-baselines", "-k", "good_check")
    assert [row.key.workload for row in played_project.baselines.load("box").values()] == [
        "nets:tiny-b4-replicated-device"
    ]


WIDE_FIXTURES = """
    import pytest

    def noted(scope):
        @pytest.fixture(scope=scope, autouse=True, name=f"of_a_{scope}")
        def noting(request):
            with open(request.config.rootpath / "notes", "a") as notes:
                print("+" + scope, file=notes, flush=True)
                yield
                print("-" + scope, file=notes, flush=True)

        return noting

    of_a_session, of_a_module, of_a_class = (noted(scope) for scope in ("session", "module", "class"))
    of_a_function = noted("function")

    class TestLast:
        def test_it(self, throughput, on):
            throughput.check(tiny(), on=on)
"""


@pytest.fixture(scope="module")
def last_in_doubt(played: Project) -> list[str]:
    played.baseline("nets:tiny-b1-replicated-device", value=1e12)
    played.tests(WIDE_FIXTURES)
    (played.folder / "notes").unlink(missing_ok=True)
    ended = played.run()
    assert "1 REGRESSED" in ended.text
    return (played.folder / "notes").read_text().split()


@pytest.mark.parametrize("scope", ["session", "module", "class"])
def test_wide_fixtures_are_set_up_and_torn_down_once_for_all_runs_of_the_last_test(
    last_in_doubt: list[str], scope: str
) -> None:
    assert [note for note in last_in_doubt if note[1:] == scope] == [f"+{scope}", f"-{scope}"]


def test_a_tests_own_fixtures_are_set_up_and_torn_down_for_each_of_its_runs(last_in_doubt: list[str]) -> None:
    own = [note for note in last_in_doubt if note.endswith("function")]
    assert len(own) > 2
    assert own == ["+function", "-function"] * (len(own) // 2)


def test_fixtures_are_torn_down_in_pytests_order(last_in_doubt: list[str]) -> None:
    assert last_in_doubt[-4:] == ["-function", "-class", "-module", "-session"]


def test_a_wide_fixture_whose_teardown_fails_after_the_reruns_is_an_error_of_the_test(played_project: Project) -> None:
    played_project.baseline("nets:tiny-b1-replicated-device", value=1e12)
    played_project.tests(
        """
        @pytest.fixture(scope="module")
        def broken():
            yield
            raise RuntimeError("broken teardown")

        def test_it(broken, throughput, on):
            throughput.check(tiny(), on=on)
        """
    )
    text = played_project.run().text
    assert text.count("RuntimeError: broken teardown") > 0
    assert "1 failed, 1 error in " in text
