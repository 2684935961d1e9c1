"""Everything that users import is in the package itself, and importing it costs no heavy library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pytest_tfperf
from tests.helpers.patience import SESSION_SECONDS

HEAVY = ("tensorflow", "keras", "numpy", "pandas", "scipy", "psutil", "pynvml", "pytest")


def printed(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=SESSION_SECONDS, check=True
    ).stdout.strip()


def test_importing_the_package_imports_no_heavy_library() -> None:
    names = "import sys, pytest_tfperf.workers.catalogue as catalogue; catalogue.names('models')"
    code = f"{names}; print([n for n in {HEAVY} if n in sys.modules])"
    assert printed(code) == "[]"


def test_dir_shows_the_public_names_and_no_others() -> None:
    assert printed("import pytest_tfperf; print(dir(pytest_tfperf))") == str(
        sorted([*pytest_tfperf.__all__, "__version__"])
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Worklod'"):
        _ = pytest_tfperf.Worklod


TYPED = """
import sys
from pytest_tfperf import Command, Figure, Reads, ThroughputFixture, Topology, Workload

def test_resnet50(throughput: ThroughputFixture, gpu_topology: Topology, update: str) -> None:
    workload = Workload(model="resnet50", batch_size=64, variable_update=update, precision="mixed_float16")
    throughput.check(workload, on=gpu_topology.take(2), tolerance=0.05, also=("peak_memory", "loss"))
    throughput.compare(workload, workload.with_(xla=True), on=gpu_topology.take(1), tolerance=(-0.05, None))

def test_gpt(throughput: ThroughputFixture, gpu_topology: Topology) -> None:
    bleu = Figure("bleu", field="bleu", better="higher", absolute=0.5)
    on, reads = gpu_topology.nodes(2).take(8), Reads(field="train.tokens_per_sec", until_end=True)
    throughput.check(Command([sys.executable, "train.py"], name="gpt", reads=reads), on=on, also=[bleu])
"""


@pytest.mark.slow
def test_tests_as_the_docs_have_them_pass_a_type_checker(tmp_path: Path) -> None:
    (tmp_path / "test_typed.py").write_text(TYPED)
    checker = [sys.executable, "-m", "mypy", "--strict", "--cache-dir=cache", "test_typed.py"]
    done = subprocess.run(checker, cwd=tmp_path, capture_output=True, text=True, timeout=SESSION_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
