"""A rank that fails: its test is an error that names the rank, and nothing is left behind.

Here the ranks are local; other files run the same tests under other launchers, so that they wait beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from launchers import LOCAL, LOCAL_SILENCE_SECONDS, Launcher

from tests.helpers.inner import NOT_MEASURED, Finished, Project
from tests.helpers.patience import PATIENCE_SECONDS, wait_for

PIPELINES = """
    import os
    import signal
    import time

    import numpy as np
    import tensorflow as tf

    from pytest_tfperf import InputSpec


    def _batches(spec, fault):
        \"\"\"Endless batches, of which rank 1 fails to give the twentieth.\"\"\"
        count = 0
        while True:
            count += 1
            if count == 20 and spec.input_pipeline_id == 1:
                fault()
            yield spec.synthetic()


    def _failing(fault):
        def pipeline(spec):
            return tf.data.Dataset.from_generator(lambda: _batches(spec, fault), output_signature=spec.signature)
        return pipeline


    def _raise():
        raise RuntimeError("disk on fire")


    raising = _failing(_raise)
    killed = _failing(lambda: os.kill(os.getpid(), signal.SIGKILL))
    stopped = _failing(lambda: os.kill(os.getpid(), signal.SIGSTOP))
    hanging = _failing(lambda: time.sleep(3600))


    def out_of_memory(spec):
        if spec.input_pipeline_id == 1:
            raise MemoryError
        return spec.synthetic()
"""

TESTS = """
    @pytest.mark.multinode
    @pytest.mark.parametrize("fault", ["raising", "killed", "out_of_memory", "stopped", "hanging"])
    def test_fault(throughput, gpu_topology, fault):
        workload = tiny(4, variable_update="collective", input_pipeline=f"faults:{fault}")
        throughput.check(workload, on=gpu_topology.nodes(2).take(1), steps=200)

    @pytest.mark.multinode
    def test_the_last_one(throughput, gpu_topology):
        throughput.check(tiny(4, variable_update="collective"), on=gpu_topology.nodes(2).take(1))
"""

SAID = {
    "raising": ["rank 1 of 2 on ", "in phase 'steps': RuntimeError: disk on fire", "in _raise"],
    "killed": ["rank 1 of 2 on ", "in phase 'steps'"],
    "out_of_memory": ["rank 1 of 2 on ", "MemoryError", "in phase 'input pipeline'"],
    "stopped": ["rank 1 of 2 on ", "said nothing for "],
    "hanging": ["rank 1 of 2 on ", "said nothing for "],
}


IN_ANOTHER_WAY = ["raising", "killed", "stopped"]
"""What ends otherwise under another launcher, which sees its processes end."""


@pytest.fixture(scope="module")
def launcher() -> Launcher:
    return LOCAL


@pytest.fixture(scope="module")
def project(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with Project(tmp_path_factory.mktemp(launcher.name)) as made:
        yield made


@pytest.fixture(scope="module")
def faults(launcher: Launcher, project: Project) -> Finished:
    project.write("faults.py", PIPELINES)
    project.tests(TESTS)
    (project.folder / "tmp").mkdir()
    variables = {**launcher.variables, "TMPDIR": str(project.folder / "tmp")}
    # Fresh ranks also import TensorFlow in that time.
    silence = LOCAL_SILENCE_SECONDS if launcher is LOCAL else PATIENCE_SECONDS
    options = ["-o", f"tfperf_timeout={silence}", *launcher.options]
    if launcher is not LOCAL:
        options += ["-k", " or ".join(["last", *IN_ANOTHER_WAY])]
    return project.end_of(project.start(*options, **variables))


@pytest.mark.parametrize("fault", SAID)
def test_a_fault_is_an_error_that_names_the_rank(faults: Finished, fault: str) -> None:
    require_named(faults, fault)


def require_named(faults: Finished, fault: str) -> None:
    case = faults.cases[f"test_fault[{fault}]"]
    assert (case.kind, [said for said in SAID[fault] if said not in case.text]) == ("error", []), case.text


def test_the_session_goes_on_and_exits_with_6(faults: Finished) -> None:
    assert (faults.cases["test_the_last_one"].kind, faults.status) == ("passed", NOT_MEASURED), faults.text


def test_no_process_no_key_and_no_temporary_file_is_left(
    faults: Finished, project: Project, launcher: Launcher
) -> None:
    assert wait_for(lambda: not project.processes()), project.processes()
    assert list(project.folder.glob(".tfperf/key-*")) == []
    # mpirun's own; and a rank that is killed on another host can't remove its folder.
    left = [path.name for path in (project.folder / "tmp").iterdir() if not path.name.startswith("ompi.")]
    assert [name for name in left if launcher.name != "mpirun" or not name.startswith("tfperf-worker-")] == []
