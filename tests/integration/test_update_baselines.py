"""`--update-baselines`: five fresh runs, its own rows, all or nothing."""

from __future__ import annotations

import math

import pytest
from inner import MACHINE, Finished, Project

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.stores.baselines import BaselineStore

# The clocks of these two are played: whether runs agree must not be decided by what else the machine does.
EVEN = Key("nets:even-b4-replicated-device", "1x1")
UNTOUCHED = Key("nets:tiny-b9-replicated-device", "1x1")
NOISY = Key("nets:uneven-b3-replicated-device", "1x1")

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    pytestmark = pytest.mark.cpu

    def tiny(batch_size, input_pipeline="device"):
        return Workload(model="nets:tiny", batch_size=batch_size, input_pipeline=input_pipeline)

    def test_even(throughput, gpu_topology):
        throughput.check(Workload(model="nets:even", batch_size=4), on=gpu_topology.take(1))

    def test_body(throughput, gpu_topology):
        throughput.check(tiny(2), on=gpu_topology.take(1))
        assert "scaling" == "as wished"

    def test_noisy(throughput, gpu_topology):
        throughput.check(Workload(model="nets:uneven", batch_size=3), on=gpu_topology.take(1), steps=3)

    def test_ends(throughput, gpu_topology):
        throughput.check(tiny(4, "nets:raising_pipeline"), on=gpu_topology.take(1))
"""


@pytest.fixture(scope="module")
def recorded(shared: Project) -> Finished:
    shared.write("perf_dir/test_it.py", TESTS)
    shared.write("even", "0.0201 0.0200 0.0198 0.0202 0.0201")
    shared.write("uneven", "0.002 0.03 0.002 0.03 0.002")
    shared.baseline(EVEN.workload, reference=100, lower=-0.3, upper=0.4)
    shared.baseline(UNTOUCHED.workload, reference=123, note="as it was")
    shared.baseline(NOISY.workload, reference=7)
    return shared.run("--update-baselines", "perf_dir")


def test_a_path_may_follow_the_bare_option(recorded: Finished) -> None:
    assert recorded.kinds["test_even"] == "passed", recorded.text


def test_five_fresh_workers_are_measured(recorded: Finished, shared: Project) -> None:
    workers = [line.split() for line in (shared.folder / "workers").read_text().splitlines()]
    assert len(set([pid for pid, model in workers if model == "even"][:5])) == 5


def test_the_row_is_what_was_measured(recorded: Finished, shared: Project) -> None:
    row = shared.baselines.load(MACHINE)[EVEN]
    runs = [run["log_rate"] for run in shared.records("test_even")[0]["throughput"]["runs"]]
    assert runs == pytest.approx([math.log(4 / seconds) for seconds in (0.0201, 0.0200, 0.0198, 0.0202, 0.0201)])
    assert (row.provenance, row.runs) == ("measured", 5)
    assert row.reference == pytest.approx(math.exp(hodges_lehmann(runs)), rel=1e-4)


def test_the_row_keeps_the_bounds_that_were_written_by_hand(recorded: Finished, shared: Project) -> None:
    row = shared.baselines.load(MACHINE)[EVEN]
    assert (row.lower, row.upper) == (-0.3, 0.4)


def test_the_row_keeps_the_software_of_now(recorded: Finished, shared: Project) -> None:
    assert "tensorflow=2." in shared.baselines.load(MACHINE)[EVEN].environment


def test_other_rows_stay_as_they_were(recorded: Finished, shared: Project) -> None:
    row = shared.baselines.load(MACHINE)[UNTOUCHED]
    assert (row.reference, row.note) == (123, "as it was")


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("test_body", "failure", "assert 'scaling' == 'as wished'"),
        ("test_noisy", "error", "too noisy for a baseline, which was left as it is: its runs gave"),
        ("test_ends", "error", "/data/train-00000"),
    ],
)
def test_a_refusal_says_why(recorded: Finished, name: str, kind: str, said: str) -> None:
    case = recorded.cases[name]
    assert (case.kind, said in case.text) == (kind, True)


def test_what_is_refused_is_not_recorded(recorded: Finished, shared: Project) -> None:
    rows = shared.baselines.load(MACHINE)
    assert (rows.keys(), rows[NOISY].reference) == ({EVEN, UNTOUCHED, NOISY}, 7)


def test_old_and_new_are_shown(recorded: Finished) -> None:
    pytest.LineMatcher(recorded.text.splitlines()).fnmatch_lines(
        [
            "recorded in baselines/: 0 new, 1 changed; commit them when they are right",
            "  box.csv  nets:even-b4-replicated-device 1x1  100.0 -> 199.5  +99.5 %  runs differ by 0.8 %",
        ]
    )


def test_five_runs_of_each_are_announced(recorded: Finished) -> None:
    assert "tfperf: recording baselines, 5 fresh runs of each, into baselines/" in recorded.text


def test_the_lock_is_given_back(recorded: Finished, shared: Project) -> None:
    assert [path.name for path in (shared.folder / "baselines").iterdir()] == ["box.csv"]


def test_the_same_test_then_passes(recorded: Finished, shared: Project) -> None:
    assert shared.run("perf_dir", "-k", "even").kinds == {"test_even": "passed"}


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
    pytester.runpytest("--update-baselines=failed", ".").assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("fine", "no test failed last time, as pytest's cache has it"),
        ("body", "none of the 1 that failed last time is selected"),
    ],
)
def test_failed_says_why_it_selects_nothing(pytester: pytest.Pytester, select: str, said: str) -> None:
    pytester.makepyfile(test_it=ONE_FAILS)
    pytester.runpytest("-k", select)
    result = pytester.runpytest("--update-baselines=failed", "-k", "fine")
    assert f"tfperf: --update-baselines=failed: {said}" in result.stdout.str()


def test_a_folder_that_can_not_be_written_is_refused_before_the_run(pytester: pytest.Pytester) -> None:
    (pytester.path / "baselines").write_text("a file where the folder should be")
    said = "baselines can't be written: a file is in its way.*--tfperf-baselines=DIR"
    with pytest.raises(pytest.UsageError, match=said):
        pytester.parseconfigure("--update-baselines")


def test_a_second_session_is_refused_while_one_records(pytester: pytest.Pytester) -> None:
    refused = pytest.raises(pytest.UsageError, match="another session updates these baselines, pid")
    with BaselineStore(pytester.path / "baselines", published=None).lock(), refused:
        pytester.parseconfigure("--update-baselines")


def test_a_session_that_only_measures_does_not_wait_for_the_lock(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_it(throughput): pass")
    with BaselineStore(pytester.path / "baselines", published=None).lock():
        assert pytester.runpytest().ret == 0


def test_the_lock_goes_with_a_session_that_was_killed(project: Project) -> None:
    project.write("test_it.py", TESTS.replace("nets:even", "nets:hanging"))
    project.wait_for_file("baselines/.lock", project.start("--update-baselines"))
    project.kill_all()
    with project.baselines.lock():
        pass
