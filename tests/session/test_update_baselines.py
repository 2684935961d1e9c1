"""`--update-baselines`: five fresh runs, its own rows, all or nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.inner import MACHINE, Finished, Project

# The clocks of these two are played: other work on the machine must not decide whether runs agree.
EVEN = Key("nets:even-b4-replicated-device", "1x1")
NOISY = Key("nets:uneven-b3-replicated-device", "1x1")
UNTOUCHED = Key("nets:tiny-b9-replicated-device", "1x1")

TESTS = """
    def test_even(throughput, on):
        throughput.check(tiny(4, "nets:even"), on=on)

    def test_body(throughput, on):
        throughput.check(tiny(2), on=on, steps=1)
        assert "scaling" == "as wished"

    def test_noisy(throughput, on):
        throughput.check(tiny(3, "nets:uneven"), on=on, steps=3)

    def test_ends(throughput, on):
        throughput.check(tiny(4, "nets:raising"), on=on)
"""


@pytest.fixture(scope="module")
def recorded(played: Project) -> Finished:
    played.tests(TESTS, "perf_dir/test_it.py")
    played.write("even", "20.1 20.0 19.8 20.2 20.1")
    played.write("uneven", "2 30 2 30 2")
    played.baseline(EVEN.workload, value=0.1, lower=-0.3, upper=0.4)
    played.baseline(UNTOUCHED.workload, value=123, note="as it was")
    played.baseline(NOISY.workload, value=7)
    return played.run("--update-baselines", "perf_dir")


def test_five_fresh_runs_of_each_are_announced_and_measured(recorded: Finished, played: Project) -> None:
    assert recorded.kinds["test_even"] == "passed", recorded.text
    assert "tfperf: recording baselines, 5 fresh runs of each test, into baselines/" in recorded.text
    measured = played.measured("test_even")
    assert len({run.log for run in measured.runs}) == 5
    rates = [run.examples_per_sec for run in measured.throughput.runs]
    assert rates == pytest.approx([4 / seconds for seconds in (20.1, 20.0, 19.8, 20.2, 20.1)], rel=0.01)


def test_the_row_has_the_median_the_software_and_the_bounds_written_by_hand(
    recorded: Finished, played: Project
) -> None:
    row = played.baselines.load(MACHINE)[EVEN]
    assert (row.provenance, row.runs, row.lower, row.upper) == ("measured", 5, -0.3, 0.4)
    assert row.value == pytest.approx(played.measured("test_even").throughput.examples_per_sec, rel=1e-4)
    assert "tensorflow=2." in row.environment


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("test_body", "failure", "assert 'scaling' == 'as wished'"),
        ("test_noisy", "error", "too noisy for a baseline, which was left as it is: its runs gave"),
        ("test_ends", "error", "the layers do not fit"),
    ],
)
def test_a_refusal_says_why(recorded: Finished, name: str, kind: str, said: str) -> None:
    case = recorded.cases[name]
    assert (case.kind, said in case.text) == (kind, True)


def test_a_refused_baseline_is_counted_once_as_refused(recorded: Finished, played: Project) -> None:
    (counts,) = [line for line in recorded.text.splitlines() if line.startswith("box: ")]
    assert counts.startswith("box: 1 refused, 2 measured in "), recorded.text
    assert "1 not measured: the error of each test says why" in recorded.text  # test_ends
    assert recorded.status == 1
    assert played.measured("test_noisy").is_refused


def test_other_rows_and_those_of_failed_tests_stay_as_they_were(recorded: Finished, played: Project) -> None:
    rows = played.baselines.load(MACHINE)
    assert (rows.keys(), rows[NOISY].value) == ({EVEN, UNTOUCHED, NOISY}, 7)
    assert (rows[UNTOUCHED].value, rows[UNTOUCHED].note) == (123, "as it was")


def test_a_few_rows_that_were_recorded_without_controls_are_said_to_be(recorded: Finished) -> None:
    assert (
        "new rows of box: recorded without controls, because none of the 1 other with a row could run beside"
        in recorded.text
    )


def test_old_and_new_are_shown(recorded: Finished) -> None:
    pytest.LineMatcher(recorded.text.splitlines()).fnmatch_lines(
        [
            "recorded in baselines/: 0 new, 1 changed; check and commit them",
            "  file *workload * old * new * change * between runs",
            "  box.csv *even-b4-replicated-device *1x1 * +9*.* %  *",
        ]
    )


WITH_A_FIGURE = """
    def test_noisy(throughput, on):
        throughput.check(tiny(3, "nets:uneven"), name="mine", on=on, steps=3, also=("loss",))
"""


@pytest.fixture(scope="module")
def refused_beside_a_figure(played_with_a_figure: Project) -> Finished:
    played_with_a_figure.tests(WITH_A_FIGURE)
    played_with_a_figure.write("uneven", "2 30 2 30 2")
    return played_with_a_figure.run("--update-baselines")


@pytest.fixture(scope="module")
def played_with_a_figure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp("figure") / "project", trains=False) as made:
        yield made


def test_a_figure_is_recorded_with_its_lock_where_the_throughput_is_refused(
    refused_beside_a_figure: Finished, played_with_a_figure: Project
) -> None:
    assert "too noisy for a baseline" in refused_beside_a_figure.cases["test_noisy"].text
    (row,) = played_with_a_figure.baselines.figures(MACHINE).values()
    assert (played_with_a_figure.folder / "baselines" / row.lock).is_file()


def test_a_row_of_a_figure_has_the_name_of_its_workload(refused_beside_a_figure: Finished) -> None:
    pytest.LineMatcher(refused_beside_a_figure.text.splitlines()).fnmatch_lines(["  box.csv  mine * loss *"])


ONE_FAILS = """
    def test_fine(throughput):
        pass

    def test_body(throughput):
        assert "scaling" == "as wished"
"""


def test_failed_measures_those_that_failed_last_time_only(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE_FAILS)
    assert pytester.runpytest().ret == 1
    pytester.makepyfile(test_it=ONE_FAILS.replace("as wished", "scaling"))
    pytester.runpytest("--update-baselines=failed", "-o", "tfperf_busy=1", ".").assert_outcomes(passed=1, deselected=1)


def test_failed_says_why_it_selects_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE_FAILS)
    said = [pytester.runpytest("--update-baselines=failed").stdout.str()]
    pytester.runpytest("-k", "body")
    said.append(pytester.runpytest("--update-baselines=failed", "-k", "fine").stdout.str())
    assert "tfperf: --update-baselines=failed: no test failed last time, by pytest's cache" in said[0]
    assert "tfperf: --update-baselines=failed: none of the 1 that failed last time is selected" in said[1]


def test_a_folder_that_can_not_be_written_is_refused_before_the_run(pytester: pytest.Pytester) -> None:
    (pytester.path / "baselines").write_text("a file where the folder should be")
    said = "baselines can't be written: a file is in its way. Move that file away"
    with pytest.raises(pytest.UsageError, match=said):
        pytester.parseconfigure("--update-baselines")


def test_while_one_session_records_others_can_measure_but_not_record(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(throughput): pass")
    with BaselineStore(pytester.path / "baselines", published=None).lock():
        assert pytester.runpytest().ret == 0
        with pytest.raises(pytest.UsageError, match=r"another session updates these baselines \(pid"):
            pytester.parseconfigure("--update-baselines")


def test_the_lock_goes_with_a_session_that_was_killed(played_project: Project) -> None:
    played_project.tests(TESTS.replace("nets:even", "nets:hanging"))
    played_project.wait_for_file("baselines/.lock", played_project.start("--update-baselines"))
    played_project.kill_all()
    with played_project.baselines.lock():
        pass
