"""A session of several ranks that is killed with -9: its processes end under each launcher, and no key stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from launchers import LOCAL, Launcher

from tests.helpers.inner import Project
from tests.helpers.patience import wait_for

PIPELINE = """
    from pathlib import Path

    import tensorflow as tf


    def _batches(spec):
        while True:
            Path(f"rank{spec.input_pipeline_id}").touch()
            yield spec.synthetic()


    def telling(spec):
        return tf.data.Dataset.from_generator(lambda: _batches(spec), output_signature=spec.signature)
"""

TESTS = """
    @pytest.mark.multinode
    def test_it(throughput, gpu_topology):
        workload = tiny(4, variable_update="collective", input_pipeline="told:telling")
        throughput.check(workload, on=gpu_topology.nodes(2).take(1), steps=1_000_000)
"""


@pytest.mark.parametrize("name", ["local", "mpirun", "srun"])
def test_all_processes_of_a_killed_session_end_and_its_key_is_gone(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    launcher: Launcher = LOCAL if name == "local" else request.getfixturevalue(name)
    with Project(tmp_path / "project") as project:
        project.write("told.py", PIPELINE)
        project.tests(TESTS)
        session = project.start(*launcher.options, **launcher.variables)
        for rank in range(2):
            project.wait_for_file(f"rank{rank}", session)
        os.kill(session.pid, signal.SIGKILL)
        session.wait()
        assert wait_for(lambda: not project.processes()), project.processes()
        assert not list(project.folder.rglob("key-*"))
