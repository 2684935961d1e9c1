"""The launchers that tests on several nodes run under: each is installed and started once, or its tests are skipped."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray_cluster
import slurm
from launchers import Launcher


@pytest.fixture(scope="session")
def mpirun(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """Two hosts that are this one: in place of ssh, a script runs their commands here."""
    if shutil.which("mpirun") is None:
        pytest.skip("Open MPI is not installed: apt install openmpi-bin")
    agent = tmp_path_factory.mktemp("mpirun") / "agent"
    # Under names of their own: two hosts of one name confuse mpirun, so that one start in five fails.
    can_be_named = subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode == 0
    named = 'exec unshare --uts sh -c "hostname $host; $*"' if can_be_named else 'exec sh -c "$*"'
    agent.write_text(f"#!/bin/sh\nhost=$1\nshift\n{named}\n")
    agent.chmod(0o755)
    options = (
        f"--tfperf-launcher=mpirun --mca plm_rsh_agent {agent} --mca routed direct --mca rtc ^hwloc -H nodea:2,nodeb:2"
    )
    return Launcher("mpirun", (options,))


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment variables with which Slurm's commands find two nodes on this machine."""
    if why := slurm.missing():
        pytest.skip(why)
    # Not below pytest's folder: a socket's path may have 107 characters.
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="tfperf-slurm-"))
    try:
        with slurm.cluster(folder) as variables:
            yield variables
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def srun(slurm_cluster: dict[str, str]) -> Launcher:
    """Slurm from outside of an allocation."""
    return Launcher("slurm", ("--tfperf-launcher=slurm",), slurm_cluster)


@pytest.fixture(scope="session")
def needs_ray() -> None:
    """Skip where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'ray>=2.40'")


@pytest.fixture
def ray(needs_ray: None) -> Iterator[Launcher]:  # it skips
    """Ray, with a cluster of two nodes."""
    with ray_cluster.cluster(0) as address:
        options = (f"--tfperf-launcher=ray --address={address}", "-o", "tfperf_timeout=120")
        yield Launcher("ray", options, ray_cluster.LOOPBACK)
