"""`--tfperf-save-trials`, from real workers to the files and back; and a tolerance that a row can't keep."""

from __future__ import annotations

import signal

import pytest
from inner import WHATEVER_IT_IS, Finished, Project

from pytest_tfperf import cli
from pytest_tfperf.stores import trial_file
from pytest_tfperf.stores.recording import Recording

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    class TestOnCpus:
        def test_passes(self, throughput, gpu_topology):
            tiny = Workload(model="nets:tiny", batch_size=1)
            throughput.check(tiny, on=gpu_topology.take(1), tolerance=0.9)
            throughput.check(tiny, on=gpu_topology.take(1))

        def test_regresses(self, throughput, gpu_topology):
            throughput.check(Workload(model="nets:tiny", batch_size=3), on=gpu_topology.take(1))

        def test_measures_only(self, throughput, gpu_topology):
            throughput.measure(Workload(model="nets:tiny", batch_size=2), on=gpu_topology.take(1), steps=7)
"""


def fill(project: Project) -> None:
    project.write("test_it.py", TESTS)
    project.baseline("nets:tiny-b1-replicated-device", **WHATEVER_IT_IS)
    project.baseline("nets:tiny-b3-replicated-device", reference=1e11, source="a test")


@pytest.fixture(scope="module")
def plain(shared: Project) -> Finished:
    fill(shared)
    return shared.run("--tfperf-save-trials=trials")


def trials(project: Project, name: str = "") -> list[Recording]:
    files = sorted((project.folder / "trials").glob("*.json"))
    return [trial_file.read(path) for path in files if name in path.name]


def test_each_check_leaves_a_file(shared: Project, plain: Finished) -> None:
    assert (plain.status, len(trials(shared))) == (1, 4), plain.text


def test_a_regression_keeps_its_five_runs(shared: Project, plain: Finished) -> None:
    (found,) = trials(shared, "regresses")
    assert (len(found.trial.attempts), found.tests, found.baseline and found.baseline.source) == (5, 2, "a test")


def test_a_checks_own_tolerance_and_steps_are_kept(shared: Project, plain: Finished) -> None:
    lowers = {found.tolerance and found.tolerance.lower for found in trials(shared, "passes")}
    (measured,) = trials(shared, "measures_only")
    assert (lowers, measured.steps) == ({None, -0.9}, 7)


def test_the_files_replay_to_the_exit_status_of_the_night(
    shared: Project, plain: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    regressed = [str(path) for path in (shared.folder / "trials").glob("*regresses*")]
    passed = [str(path) for path in (shared.folder / "trials").glob("*passes*")]
    assert (cli.main(["replay", *regressed]), cli.main(["replay", *passed])) == (1, 0)
    assert "confirmed   5 of 5 fresh workers" in capsys.readouterr().out


def test_a_kill_loses_no_run_that_ended(project: Project) -> None:
    fill(project)
    process = project.start("--tfperf-save-trials=trials", "-k", "regresses")
    project.wait_for_file("trials/*.json", process)
    process.send_signal(signal.SIGKILL)
    project.end_of(process)
    assert len(trials(project)[0].trial.attempts) >= 1


def test_a_folder_that_can_not_be_written_is_refused_before_anything_runs(pytester: pytest.Pytester) -> None:
    (pytester.path / "trials").touch()
    with pytest.raises(pytest.UsageError, match=r"trials is a file\. Name a folder"):
        pytester.parseconfigure("--tfperf-save-trials=trials")


# A tolerance that is tighter than the row resolves


NOISY = {"reference": 1000.0, "lower": -0.01, "runs": 5, "spread": 0.05}
TIGHT = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    def test_it(throughput, gpu_topology):
        throughput.check(Workload(model="nets:tiny", batch_size=1), on=gpu_topology.take(1), tolerance=0.03)
"""


def test_a_row_that_can_not_keep_its_tolerance_is_told_before_the_first_test(project: Project) -> None:
    project.write("test_it.py", "def test_it(throughput): pass")
    project.baseline("nets:tiny-b9-replicated-device", **NOISY)
    head = project.run().text.partition("\ntest_it.py")[0]
    assert "tfperf: box.csv: nets:tiny-b9-replicated-device 1x1: a tolerance of 1 % is tighter than" in head


def test_strict_refuses_it(project: Project) -> None:
    fill(project)
    project.baseline("nets:tiny-b9-replicated-device", **NOISY)
    finished = project.run("--tfperf-strict", "-k", "measures_only")
    assert (finished.status, "--tfperf-strict: box.csv: nets:tiny-b9" in finished.text) == (4, True)


def test_a_checks_own_tolerance_that_is_too_tight_warns(project: Project) -> None:
    project.write("test_it.py", TIGHT)
    project.baseline("nets:tiny-b1-replicated-device", **NOISY | {"reference": 0.001, "lower": -0.5})
    finished = project.run()
    warnings = finished.text.partition("= warnings summary =")[2]
    assert (finished.status, "a tolerance of 3 % is tighter than this row can resolve" in warnings) == (0, True)


def test_strict_refuses_the_checks_own_before_a_worker_starts(project: Project) -> None:
    project.write("test_it.py", TIGHT)
    project.baseline("nets:tiny-b1-replicated-device", **NOISY | {"reference": 0.001, "lower": -0.5})
    finished = project.run("--tfperf-strict")
    assert (finished.kinds, (project.folder / ".tfperf" / "logs").exists()) == ({"test_it": "error"}, False)
