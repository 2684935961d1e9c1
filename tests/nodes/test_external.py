"""Ranks that something else starts: they call, work one job after another, and are refused where they don't fit."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import pytest_tfperf
from tests.helpers.inner import Finished, Project
from tests.helpers.patience import PATIENCE_SECONDS, SESSION_SECONDS, wait_for

TESTS = """
    @pytest.mark.multinode
    @pytest.mark.parametrize("batch_size", [4, 8])
    def test_two(throughput, gpu_topology, batch_size):
        throughput.check(tiny(batch_size, variable_update="collective"), on=gpu_topology.nodes(2).take(1))
"""


@dataclass
class Cluster:
    """A project whose ranks the test starts itself; leaving it ends them."""

    project: Project
    port: int
    key: Path
    end: ExitStack

    def rank(self, rank: int, size: int = 2, *arguments: str, **variables: str) -> Path:
        """Start a rank as a person would; returns the file that gets what it says."""
        ours = {"TFPERF_ADDRESS": f"127.0.0.1:{self.port}", "TFPERF_KEY_FILE": str(self.key)}
        place = {"TFPERF_RANK": str(rank), "TFPERF_SIZE": str(size), "CUDA_VISIBLE_DEVICES": "-1"}
        place["http_proxy"] = "http://127.0.0.1:9"  # where nobody listens; ranks must not connect through it
        said = self.key.with_name(f"rank-{secrets.token_hex(4)}.txt")
        with said.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest_tfperf.training.rank", "--repeat", *arguments],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **ours, **place, **variables},
                cwd=self.project.folder,
                stdout=output,
                stderr=output,
            )
        self.end.callback(process.wait)
        self.end.callback(process.kill)
        return said

    def session(self, *arguments: str, timeout: float) -> Finished:
        return self.project.end_of(self.start(*arguments, timeout=timeout))

    def start(self, *arguments: str, timeout: float) -> subprocess.Popen[str]:
        settings = {
            "timeout": timeout,
            "listen": f"127.0.0.1:{self.port} key={self.key}",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"tfperf_{name}={value}")]
        return self.project.start("--tfperf-launcher=external --nodes=2", *options, *arguments)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    key = tmp_path / "key"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with Project(tmp_path / "project") as project, ExitStack() as end:
        project.tests(TESTS)
        yield Cluster(project, port, key, end)


def test_ranks_work_one_job_after_another(cluster: Cluster) -> None:
    for rank in range(2):
        cluster.rank(rank)
    finished = cluster.session(timeout=PATIENCE_SECONDS)
    assert finished.kinds == {"test_two[4]": "passed", "test_two[8]": "passed"}, finished.text
    assert "2x1" in finished.text
    written = [file.read_text(errors="replace") for file in cluster.project.folder.glob(".tfperf/logs/*")]
    key = cluster.key.read_text()
    assert not any(key in text for text in [finished.text, *written])


def test_a_rank_with_another_key_is_said_and_keeps_no_true_rank_out(cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(secrets.token_hex(32))
    other.chmod(0o600)
    said = cluster.rank(0, TFPERF_KEY_FILE=str(other))
    session = cluster.start("-k", "8", timeout=SESSION_SECONDS)
    assert wait_for(lambda: "has another key" in said.read_text(), SESSION_SECONDS)
    for rank in range(2):
        cluster.rank(rank)
    finished = cluster.project.end_of(session)
    assert finished.kinds == {"test_two[8]": "passed"}, finished.text
    assert "refused: it does not have this session's key" in finished.text


def test_a_rank_that_never_starts_is_named(cluster: Cluster) -> None:
    cluster.rank(0)
    case = cluster.session("-k", "8", timeout=10).cases["test_two[8]"]
    assert (case.kind, "rank 1 of 2 did not call within 10 s" in case.text) == ("error", True), case.text


def test_a_rank_that_is_started_twice_is_named(cluster: Cluster) -> None:
    cluster.rank(0)
    cluster.rank(0)
    case = cluster.session("-k", "8", timeout=PATIENCE_SECONDS).cases["test_two[8]"]
    assert (case.kind, "rank 0 was started twice: pid " in case.text) == ("error", True), case.text


def test_ranks_that_count_otherwise_are_refused(cluster: Cluster) -> None:
    cluster.rank(2, 3)
    case = cluster.session("-k", "8", timeout=PATIENCE_SECONDS).cases["test_two[8]"]
    assert "says that it is rank 2 of 3, and the test trains on 2" in case.text


def test_a_rank_with_another_version_of_this_package_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(Path(pytest_tfperf.__file__).parent, other / "pytest_tfperf")
    changed = other / "pytest_tfperf" / "errors.py"
    changed.write_text(changed.read_text() + "\n")
    cluster.rank(1, PYTHONPATH=os.pathsep.join([str(other), *sys.path]))
    cluster.rank(0)
    case = cluster.session("-k", "8", timeout=PATIENCE_SECONDS).cases["test_two[8]"]
    assert "rank 1 on " in case.text, case.text
    assert "runs pytest-tfperf " in case.text, case.text


def test_a_rank_with_another_tensorflow_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    metadata = tmp_path / "other" / "tensorflow-9.9.9.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 9.9.9\n")
    cluster.rank(1, PYTHONPATH=os.pathsep.join([str(tmp_path / "other"), *sys.path]))
    cluster.rank(0)
    case = cluster.session("-k", "8", timeout=PATIENCE_SECONDS).cases["test_two[8]"]
    assert ("runs tensorflow " in case.text, "9.9.9" in case.text) == (True, True), case.text


def test_a_key_file_that_is_not_there_is_a_clear_error(cluster: Cluster) -> None:
    cluster.key.unlink()
    finished = cluster.session("-k", "8", timeout=10)
    assert (finished.status, f"the key file {cluster.key} can't be read" in finished.text) == (4, True), finished.text


def test_a_key_file_that_others_can_read_is_refused(cluster: Cluster) -> None:
    cluster.key.chmod(0o644)
    finished = cluster.session("-k", "8", timeout=10)
    assert "can be read by others (mode 644): chmod 600" in finished.text
