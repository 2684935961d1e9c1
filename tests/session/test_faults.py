"""A worker that raises, is killed, runs out of memory or hangs: its test errors with the cause; the session goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.helpers.inner import NOT_MEASURED, Finished, Project
from tests.helpers.patience import wait_for

pytestmark = pytest.mark.slow

TESTS = """
    def measure(throughput, on, model, input_pipeline="device"):
        throughput.check(tiny(64, f"nets:{model}", input_pipeline=input_pipeline), on=on)

    def test_raises(throughput, on):
        measure(throughput, on, "raising")

    def test_returns_something_else(throughput, on):
        measure(throughput, on, "not_a_model")

    def test_is_not_there(throughput, on):
        measure(throughput, on, "absent")

    def test_raises_in_the_pipeline(throughput, on):
        measure(throughput, on, "tiny", "nets:raising_pipeline")

    def test_raises_in_the_steps(throughput, on):
        measure(throughput, on, "tiny", "nets:burning")

    def test_is_killed(throughput, on):
        measure(throughput, on, "killed")

    def test_runs_out_of_memory(throughput, on):
        measure(throughput, on, "out_of_memory")

    def test_trains_to_nan(throughput, on):
        measure(throughput, on, "nan")

    def test_leaves_a_child(throughput, on):
        measure(throughput, on, "with_a_child")

    def test_kills_the_server(throughput, on):
        measure(throughput, on, "killing_the_server")

    def test_the_last_one(throughput, on):
        measure(throughput, on, "tiny")
"""


HANGING = """
    from pytest_tfperf.workers import worker_run

    worker_run._STACKS_SECONDS = 60  # a busy machine lets a worker write its stacks late

    def test_hangs(throughput, on):
        throughput.check(tiny(input_pipeline="nets:stalling"), on=on)

    def test_the_last_one(throughput, on):
        throughput.check(tiny(), on=on)
"""


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Finished]]:
    """A session that has just started, and waits for most of its time; call it to wait for its end."""
    with Project(tmp_path_factory.mktemp("hanging")) as project:
        project.tests(HANGING)
        # The limit holds for each phase of each worker, and a busy machine must not look like a hang.
        process = project.start("-o", "tfperf_timeout=20")
        yield lambda: project.end_of(process)


@pytest.fixture(scope="module")
def faults(hanging: Callable[[], Finished], shared: Project) -> Finished:
    """Runs while `hanging` waits."""
    shared.tests(TESTS)
    (shared.folder / "tmp").mkdir()
    return shared.end_of(shared.start(TMPDIR=str(shared.folder / "tmp"), KERAS_BACKEND="torch"))


SAID = {
    "test_raises": ["model 'nets:raising' raised ValueError: the layers do not fit", "in phase 'model'"],
    "test_returns_something_else": ["'nets:not_a_model' returned str; it must return a keras.Model"],
    "test_is_not_there": ["model 'nets:absent': 'nets' has no function 'absent'"],
    "test_raises_in_the_pipeline": [
        "'nets:raising_pipeline' raised FileNotFoundError: /data/train-00000",
        "in phase 'input pipeline'",
    ],
    "test_raises_in_the_steps": ["in phase 'steps': ValueError: disk on fire", "in batches"],
    "test_is_killed": [
        "was ended by SIGKILL (somebody's kill -9, or the kernel's out-of-memory killer: see dmesg)",
        "in phase 'model'",
    ],
    "test_runs_out_of_memory": ["out_of_memory-b64-replicated-device on ", "raised MemoryError"],
    "test_trains_to_nan": ["loss became NaN"],
    "test_kills_the_server": ["in phase 'model'"],
}


@pytest.mark.parametrize("name", SAID)
def test_a_fault_is_an_error_that_says(faults: Finished, name: str) -> None:
    case = faults.cases[name]
    assert (case.kind, [said for said in SAID[name] if said not in case.text]) == ("error", []), case.text


WITHOUT_LOG = ("test_trains_to_nan", "test_returns_something_else", "test_is_not_there")


@pytest.mark.parametrize("name", SAID)
def test_a_fault_shows_the_log_where_it_tells_more_and_the_rerun_command(faults: Finished, name: str) -> None:
    text = faults.cases[name].text
    assert ("the end of its log (" in text) is (name not in WITHOUT_LOG)
    assert f"  rerun       pytest test_it.py::{name}" in text
    assert ("cuInit" in text, "workers/local.py" in text) == (False, False)  # CUDA on CPUs, a traceback of ours


def test_the_session_goes_on_and_exits_with_6(faults: Finished) -> None:
    """And its workers use TensorFlow, whatever Keras backend the environment names."""
    assert (faults.cases["test_the_last_one"].kind, faults.status) == ("passed", NOT_MEASURED), faults.text


def test_no_process_and_no_temporary_file_is_left(faults: Finished, shared: Project) -> None:
    assert wait_for(lambda: not shared.processes()), shared.processes()
    assert list((shared.folder / "tmp").iterdir()) == []


def test_only_finished_measurements_are_in_the_history(faults: Finished, shared: Project) -> None:
    names = ["test_trains_to_nan", "test_leaves_a_child", "test_the_last_one"]
    assert [row["test"] for row in shared.history.rows()] == [f"test_it.py::{name}" for name in names]


def test_a_worker_that_hangs_is_killed_with_its_stacks_and_the_session_goes_on(
    hanging: Callable[[], Finished],
) -> None:
    finished = hanging()
    case = finished.cases["test_hangs"]
    assert (case.kind, finished.kinds["test_the_last_one"]) == ("error", "passed"), finished.text
    assert "said nothing for 20 s in phase 'steps' and was killed; ini value tfperf_timeout sets" in case.text
    assert "in batches" in case.text  # a thread of TensorFlow's, by faulthandler


MISSING = "raise ImportError('libcudart.so.12: not found')"
TOO_OLD = "{}; workers need TensorFlow 2.16 or newer, with Keras 3"


@pytest.mark.parametrize(
    ("tensorflow", "keras", "start", "said"),
    [
        (MISSING, "", "fork", "can't import TensorFlow: ImportError: libcudart.so.12: not found"),
        ("__version__ = '2.15.1'", "__version__ = '3.15.0'", "fresh", TOO_OLD.format("2.15.1")),
        ("__version__ = '2.21.0'", "__version__ = '2.15.0'", "fork", TOO_OLD.format("2.15.0")),
    ],
    ids=["no TensorFlow", "old TensorFlow", "old Keras"],
)
def test_a_python_that_can_not_train_is_an_error_with_what_to_install(
    project: Project, tensorflow: str, keras: str, start: str, said: str
) -> None:
    project.tests("def test_it(throughput, on): throughput.check(tiny(), on=on)")
    project.write("fake/tensorflow/__init__.py", tensorflow)
    project.write("fake/keras/__init__.py", keras)
    path = os.pathsep.join([str(project.folder / "fake"), os.environ.get("PYTHONPATH", "")])
    finished = project.run(f"--tfperf-worker={start}", PYTHONPATH=path)
    assert (finished.kinds, finished.status) == ({"test_it": "error"}, NOT_MEASURED)
    text = finished.cases["test_it"].text
    assert said in text
    assert f"{sys.executable} -m pip install --upgrade tensorflow (" in text
