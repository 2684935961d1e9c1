"""A worker that raises, is killed, runs out of memory or hangs: its test errors and says all, the session goes on."""

from __future__ import annotations

import os
import sys

import pytest
from inner import Finished, Project
from patience import wait_for

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    pytestmark = pytest.mark.cpu

    def measure(throughput, gpu_topology, model, input_pipeline="device", batch_size=1):
        workload = Workload(model=f"nets:{model}", batch_size=batch_size, input_pipeline=input_pipeline)
        throughput.check(workload, on=gpu_topology.take(1))

    def test_raises(throughput, gpu_topology):
        measure(throughput, gpu_topology, "raising")

    def test_returns_something_else(throughput, gpu_topology):
        measure(throughput, gpu_topology, "not_a_model")

    def test_is_not_there(throughput, gpu_topology):
        measure(throughput, gpu_topology, "absent")

    def test_raises_in_the_pipeline(throughput, gpu_topology):
        measure(throughput, gpu_topology, "tiny", "nets:raising_pipeline")

    def test_raises_in_the_steps(throughput, gpu_topology):
        measure(throughput, gpu_topology, "tiny", "nets:burning")

    def test_is_killed(throughput, gpu_topology):
        measure(throughput, gpu_topology, "killed")

    def test_runs_out_of_memory(throughput, gpu_topology):
        measure(throughput, gpu_topology, "out_of_memory")

    def test_has_room_for_20(throughput, gpu_topology):
        measure(throughput, gpu_topology, "tiny", "nets:room_for_20", batch_size=64)

    def test_hangs_in_the_model(throughput, gpu_topology):
        measure(throughput, gpu_topology, "hanging")

    def test_hangs_in_the_steps(throughput, gpu_topology):
        measure(throughput, gpu_topology, "tiny", "nets:stalling")

    def test_trains_to_nan(throughput, gpu_topology):
        measure(throughput, gpu_topology, "nan")

    def test_leaves_a_child(throughput, gpu_topology):
        measure(throughput, gpu_topology, "with_a_child")

    def test_kills_the_server(throughput, gpu_topology):
        measure(throughput, gpu_topology, "killing_the_server")

    def test_the_last_one(throughput, gpu_topology):
        measure(throughput, gpu_topology, "tiny")
"""


# --tfperf-timeout holds where a worker is to hang; a healthy one may take as long as a machine that stalls makes it.
PATIENCE = """
    from pytest_tfperf.workers.worker_run import WorkerRun

    HANGS = {"nets:hanging-b1-replicated-device": "model", "nets:tiny-b1-replicated-nets:stalling": "steps"}
    asked = WorkerRun.silence_seconds

    def patient(run):
        return asked.fget(run) if run.phase == HANGS.get(run.job.workload.id) else 120.0

    WorkerRun.silence_seconds = property(patient)
"""


@pytest.fixture(scope="module")
def faults(shared: Project) -> Finished:
    shared.write("conftest.py", PATIENCE)
    shared.write("test_it.py", TESTS)
    (shared.folder / "tmp").mkdir()
    return shared.end_of(shared.start("--tfperf-timeout=3", TMPDIR=str(shared.folder / "tmp")))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_raises", "model 'nets:raising' raised ValueError: the layers do not fit"),
        ("test_raises", "in phase 'model'"),
        ("test_returns_something_else", "'nets:not_a_model' returned str; it must return a keras.Model"),
        ("test_is_not_there", "model 'nets:absent': 'nets' has no function 'absent'"),
        ("test_raises_in_the_pipeline", "'nets:raising_pipeline' raised FileNotFoundError: /data/train-00000"),
        ("test_raises_in_the_pipeline", "in phase 'input pipeline'"),
        ("test_raises_in_the_steps", "in phase 'steps': ValueError: disk on fire"),
        ("test_raises_in_the_steps", "in batches"),
        (
            "test_is_killed",
            "was ended by SIGKILL (somebody's kill -9, or the kernel's out-of-memory killer: see dmesg)",
        ),
        ("test_is_killed", "in phase 'model'"),
        ("test_runs_out_of_memory", "MemoryError"),
        ("test_runs_out_of_memory", "out of memory with batch_size 1: no smaller one fits, not even 1"),
        ("test_has_room_for_20", "out of memory with batch_size 64: the largest that fits is 16"),
        ("test_has_room_for_20", "tried       32 does not  16 fits  24 does not (fresh workers, a few steps each, "),
        ("test_hangs_in_the_model", "said nothing for 3 s in phase 'model' and was killed"),
        ("test_hangs_in_the_model", "ini value tfperf_timeout sets a longer limit"),
        ("test_hangs_in_the_model", "in hanging"),  # faulthandler's stack, in the log's end
        ("test_hangs_in_the_steps", "said nothing for 3 s in phase 'steps' and was killed"),
        ("test_hangs_in_the_steps", "in batches"),  # a thread of TensorFlow's
        ("test_trains_to_nan", "the loss is nan"),
        ("test_kills_the_server", "in phase 'model'"),
    ],
)
def test_a_fault_says(faults: Finished, name: str, said: str) -> None:
    assert said in faults.cases[name].text


# What devices that no longer answer do to every worker, also to the probe.
UNRESPONSIVE = """
    from pytest_tfperf import Workload
    from pytest_tfperf.workers import local

    local.PROBE = Workload(model="nets:hanging", batch_size=1)
"""


def test_devices_on_which_a_probe_hangs_too_cost_the_rest_no_time_out(project: Project) -> None:
    project.write("conftest.py", PATIENCE + UNRESPONSIVE)
    project.write("test_it.py", TESTS)
    finished = project.run("--tfperf-timeout=2", "-k", "hangs_in_the_model or leaves or last")
    for name in ("test_leaves_a_child", "test_the_last_one"):
        assert "no worker was started: the CPU no longer answers" in finished.cases[name].text, finished.text
    assert len(list((project.folder / ".tfperf" / "logs").glob("worker-*"))) == 2


ERRORS = [
    line.split("(")[0].removeprefix("    def ") for line in TESTS.splitlines() if line.startswith("    def test_")
]
ERRORS = [name for name in ERRORS if name not in ("test_leaves_a_child", "test_the_last_one")]


@pytest.mark.parametrize("name", ERRORS)
def test_a_fault_is_an_error_and_no_failure(faults: Finished, name: str) -> None:
    assert faults.cases[name].kind == "error"


SAYS_ALL = ("test_trains_to_nan", "test_returns_something_else", "test_is_not_there")


@pytest.mark.parametrize("name", ERRORS)
def test_a_fault_shows_the_end_of_the_workers_log_unless_it_says_all_itself(faults: Finished, name: str) -> None:
    assert ("the end of its log (" in faults.cases[name].text) is (name not in SAYS_ALL)


@pytest.mark.parametrize("name", ERRORS)
def test_a_fault_names_the_command_that_runs_its_test_again(faults: Finished, name: str) -> None:
    assert f"  rerun       pytest test_it.py::{name}" in faults.cases[name].text


@pytest.mark.parametrize("name", ERRORS)
def test_a_fault_on_cpus_says_nothing_of_cuda(faults: Finished, name: str) -> None:
    assert "cuInit" not in faults.cases[name].text


@pytest.mark.parametrize("name", ERRORS)
def test_a_fault_comes_without_a_traceback_of_ours(faults: Finished, name: str) -> None:
    assert "launchers/local.py" not in faults.cases[name].text


def test_no_other_fault_is_followed_by_a_search(faults: Finished) -> None:
    searched = {name for name, case in faults.cases.items() if "fresh workers, a few steps each" in case.text}
    assert searched == {"test_runs_out_of_memory", "test_has_room_for_20"}


def test_the_session_goes_on_to_the_last_test(faults: Finished) -> None:
    assert faults.cases["test_the_last_one"].kind == "skipped"


def test_a_session_of_faults_exits_with_6(faults: Finished) -> None:
    assert faults.status == 6


def test_no_process_is_left(faults: Finished, shared: Project) -> None:
    assert wait_for(lambda: not shared.processes()), shared.processes()


def test_no_temporary_file_is_left(faults: Finished, shared: Project) -> None:
    assert list((shared.folder / "tmp").iterdir()) == []


def test_what_finished_is_in_the_history(faults: Finished, shared: Project) -> None:
    names = ["test_trains_to_nan", "test_leaves_a_child", "test_the_last_one"]
    assert shared.finished_results() == [f"test_it.py::{name}" for name in names]


ONE_TEST = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    def test_it(throughput, gpu_topology):
        throughput.check(Workload(model="nets:tiny", batch_size=1), on=gpu_topology.take(1))
"""


def fakes(project: Project) -> str:
    """Where packages are found that stand in front of the installed ones."""
    return os.pathsep.join([str(project.folder / "fake"), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def no_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    project = Project(tmp_path_factory.mktemp("no_tensorflow"))
    project.write("test_it.py", ONE_TEST)
    project.write("fake/tensorflow/__init__.py", "raise ImportError('libcudart.so.12: not found')")
    return project.run(PYTHONPATH=fakes(project))


@pytest.mark.parametrize(
    "said",
    [
        "can't import TensorFlow: ImportError: libcudart.so.12: not found",
        f"{sys.executable} -m pip install --upgrade tensorflow (",
    ],
)
def test_a_python_without_tensorflow_says(no_tensorflow: Finished, said: str) -> None:
    assert said in no_tensorflow.cases["test_it"].text


def test_a_python_without_tensorflow_is_an_error(no_tensorflow: Finished) -> None:
    assert (no_tensorflow.kinds, no_tensorflow.status) == ({"test_it": "error"}, 6)


def test_a_fresh_interpreter_without_tensorflow_says_the_same(project: Project) -> None:
    project.write("test_it.py", ONE_TEST)
    project.write("fake/tensorflow/__init__.py", "raise ImportError('libcudart.so.12: not found')")
    finished = project.run("--tfperf-worker=fresh", PYTHONPATH=fakes(project))
    assert f"{sys.executable} -m pip install --upgrade tensorflow (" in finished.cases["test_it"].text


OLD = {"tensorflow": "2.15.1", "keras": "2.15.0"}


@pytest.mark.parametrize("start", ["fork", "fresh"])
@pytest.mark.parametrize("package", OLD)
def test_a_tensorflow_or_keras_that_is_too_old_is_named(project: Project, package: str, start: str) -> None:
    project.write("test_it.py", ONE_TEST)
    for name, version in {"tensorflow": "2.21.0", "keras": "3.15.0", package: OLD[package]}.items():
        project.write(f"fake/{name}/__init__.py", f"__version__ = '{version}'")
    finished = project.run(f"--tfperf-worker={start}", PYTHONPATH=fakes(project))
    assert f" {OLD[package]}; workers need TensorFlow 2.16 or newer, with Keras 3\n" in finished.cases["test_it"].text


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_workers_compute_with_tensorflow_whatever_keras_does_elsewhere(project: Project, start: str) -> None:
    project.write("test_it.py", ONE_TEST)
    finished = project.run(f"--tfperf-worker={start}", KERAS_BACKEND="torch")
    assert finished.kinds == {"test_it": "skipped"}, finished.text
