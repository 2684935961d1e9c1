"""What only Slurm does: it refuses an allocation, lets one wait, or takes one away; and it may hold pytest itself."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest
from launchers import Launcher

from tests.helpers.inner import Project
from tests.helpers.patience import PATIENCE_SECONDS

TEST = """
    @pytest.mark.multinode
    def test_it(throughput, gpu_topology):
        workload = tiny(4, variable_update="collective", input_pipeline="taken:taken_away" if {taken} else "device")
        throughput.check(workload, on=gpu_topology.nodes(2).take(1), steps=200)
"""

TAKEN = """
    import os
    import subprocess
    import time

    import tensorflow as tf


    def _batches(spec):
        for _ in range(20):
            yield spec.synthetic()
        subprocess.run(["scancel", os.environ["SLURM_JOB_ID"]])
        time.sleep(3600)


    def taken_away(spec):
        return tf.data.Dataset.from_generator(lambda: _batches(spec), output_signature=spec.signature)
"""


@pytest.fixture
def made(project: Project) -> Project:
    project.write("taken.py", TAKEN)
    project.tests(TEST.format(taken=False))
    return project


def run(project: Project, srun: Launcher, *options: str) -> tuple[str, str]:
    """How the test ended, and its text."""
    launcher = " ".join(["--tfperf-launcher=slurm", *options])
    case = project.run(launcher, "-o", f"tfperf_timeout={PATIENCE_SECONDS}", **srun.variables).cases["test_it"]
    return case.kind, case.text


def test_an_allocation_that_is_refused_is_an_error_with_what_srun_said(made: Project, srun: Launcher) -> None:
    kind, text = run(made, srun, "--partition=nowhere")
    assert (kind, "invalid partition" in text, "srun exited with status 1" in text) == ("error", True, True), text


@pytest.fixture
def busy(srun: Launcher) -> Iterator[None]:
    """Somebody else's job holds both nodes."""
    environment = {**os.environ, **srun.variables}
    job = subprocess.Popen(["srun", "-N2", "--exclusive", "sleep", "600"], env=environment, stderr=subprocess.DEVNULL)
    subprocess.run(
        ["bash", "-c", "until squeue -h -t R | grep -q .; do sleep 0.1; done"], env=environment, timeout=60, check=True
    )
    yield
    subprocess.run(["scancel", "--user=root"], env=environment, check=True)
    job.wait()


def test_an_allocation_that_does_not_come_in_time_is_an_error(made: Project, srun: Launcher, busy: None) -> None:
    kind, text = run(made, srun, "--immediate=1")
    assert (kind, "rank" in text, "Unable to allocate resources" in text) == ("error", True, True), text


def test_an_allocation_that_is_taken_away_is_an_error(made: Project, srun: Launcher) -> None:
    made.tests(TEST.format(taken=True))
    kind, text = run(made, srun)
    assert (kind, re.search(r"rank \d of 2 on ", text) is not None) == ("error", True), text


def test_a_session_inside_an_allocation_uses_its_nodes(made: Project, srun: Launcher) -> None:
    environment = {**os.environ, **srun.variables}
    granted = subprocess.run(
        ["salloc", "-N2", "--no-shell"], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    job = re.search(r"Granted job allocation (\d+)", granted.stderr)
    assert job, granted.stderr
    try:
        inside = {"SLURM_JOB_ID": job[1], "SLURM_NNODES": "2", **srun.variables}
        finished = made.run(*srun.options, **inside)
        assert (finished.kinds["test_it"], " measured in " in finished.text) == ("passed", True), finished.text
    finally:
        subprocess.run(["scancel", job[1]], env=environment, check=True)


def test_more_nodes_than_the_allocation_has_are_skipped_with_the_reason(project: Project, srun: Launcher) -> None:
    project.tests("""
        @pytest.mark.multinode
        def test_it(throughput, gpu_topology):
            throughput.check(tiny(variable_update="collective"), on=gpu_topology.nodes(3).take(1))
    """)
    inside = {"SLURM_JOB_ID": "1", "SLURM_NNODES": "2", **srun.variables}
    case = project.run(*srun.options, **inside).cases["test_it"]
    assert (case.kind, "needs 3 nodes, and --tfperf-launcher knows of 2" in case.message) == ("skipped", True), case
