"""The published baselines: each figure against its document, read here by regular expressions and not by the importers.

tests/data/documents holds the documents as they were published.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores.baselines import BaselineStore
from tests.helpers.patience import SESSION_SECONDS
from tools.documents import DOCUMENTS, azure, lambda_cpu, tensorpack

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "documents"
TEXT = {name: (FOLDER / name).read_bytes().decode() for name in DOCUMENTS}
RowId = tuple[str, str, str]  # machine, workload, topology

AZURE = ("azure-nc6-dsvm", "azure-nc12-dsvm", "azure-nc12-batchai-lowpriority", "azure-nc12-batchai-dedicated")
LAMBDA = ("lambda-i7-7820x", "lambda-w-2133", "lambda-e5-1650", "lambda-i9-7900x")
BATCHES = {"resnet50": 64, "resnet101": 64, "resnet152": 32, "inception3": 64, "inception4": 16, "vgg16": 64}


def published(folder: Path = ROOT / "baselines", *machines: str) -> dict[RowId, Baseline]:
    store = BaselineStore(folder, published=None)
    rows = [row for name in machines or store.machines() for row in store.load(name).values() if not row.is_measured]
    return {(row.machine, row.key.workload, row.key.topology): row for row in rows}


def references(*machines: str) -> dict[RowId, float]:
    return {place: row.value for place, row in published(ROOT / "baselines", *machines).items()}


def lambda_cells() -> dict[tuple[str, str, str], str]:
    """(table, model, CPU) -> the cell's text, for all five CPUs."""
    found = {}
    for table, body in re.findall(r"\*\*(\S+)-4gpus\*\*\n\nCPU .*\n:.*\n((?:\w+ \|.*\n)+)", TEXT[lambda_cpu.NAME]):
        for model, cells in re.findall(r"(\w+) \|(.*) \|", body):
            for cpu, cell in zip(("i7-7820X", "W-2133", "E5-1650", "1950X", "i9-7900X"), cells.split("|"), strict=True):
                found[table, model, cpu] = cell.strip()
    return found


def lambda_place(table: str, model: str, cpu: str) -> RowId:
    update = "parameter_server" if "parameter_server" in table else "replicated"
    nccl = "-nccl" if "nccl" in table else ""
    distortions = "-distortions" if "distortions" in table else ""
    images = "device" if table.startswith("syn") else f"imagenet{distortions}-consistent"
    parameters = "" if nccl else "-parameters_on_gpu"
    workload = f"{model}-b{BATCHES.get(model, 512)}-{update}{nccl}-{images}{parameters}"
    return f"lambda-{cpu.lower()}", workload, "1x4"


# Every figure


def test_the_seven_azure_figures_are_the_summarys() -> None:
    rows = re.findall(r"^(\d) +\| (\d) +\| (\d) +\| ([\d.]+) ", TEXT[azure.NAME], re.MULTILINE)
    machine = {"1": AZURE[0], "2": AZURE[1], "3": AZURE[0], "4": AZURE[1], "5": AZURE[2], "6": AZURE[2], "7": AZURE[3]}
    expected = {
        (machine[test], "resnet50-b64-horovod-device", f"{nodes}x{gpus}"): float(total)
        for test, nodes, gpus, total in rows
    }
    assert len(expected) == 7
    assert references(*AZURE) == expected


def test_the_32_dgx1_figures_are_the_tables() -> None:
    expected = {}
    for update, body in re.findall(r"variable_update=(\w+):\n\n((?:\|.*\n?)+)", TEXT[tensorpack.NAME]):
        for gpus, *figures in re.findall(r"\| (\d)\s*\|\s*([\d.]+)/([\d.]+)/([\d.]+)\s*\|\s*([\d.]+)\s*\|", body):
            for end, figure in zip(("device-keras", "host-keras", "python-keras", "device"), figures, strict=True):
                expected["dgx1-p100", f"resnet50-b64-{update}-{end}", f"1x{gpus}"] = float(figure)
    assert len(expected) == 32
    assert references("dgx1-p100") == expected


def test_the_252_lambda_figures_are_the_tables_and_the_1950x_was_not_measured() -> None:
    cells = lambda_cells()
    expected = {lambda_place(*place): float(cell) for place, cell in cells.items() if place[2] != "1950X"}
    assert len(expected) == 252
    assert references(*LAMBDA) == expected
    assert len({row.source for row in published().values()}) == len(published()) == 7 + 32 + 252


# The importers


def importers(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.documents", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_committed_files_are_what_the_importers_write(tmp_path: Path) -> None:
    done = importers(FOLDER, "--baselines", tmp_path)
    assert (done.returncode, f"{lambda_cpu.NAME}: 252 baselines" in done.stdout) == (0, True)
    assert published(tmp_path) == published()
    committed = {path.name: path.read_bytes() for path in (ROOT / "baselines").glob("*.csv")}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()}.items() <= committed.items()


def test_a_broken_document_is_named_and_leaves_all_files_as_they_are(tmp_path: Path) -> None:
    documents = Path(shutil.copytree(FOLDER, tmp_path / "documents", copy_function=shutil.copyfile))
    (documents / lambda_cpu.NAME).write_text("nothing\n")
    done = importers(documents, "--baselines", tmp_path / "baselines")
    assert (done.returncode, done.stderr.startswith(f"tools.documents: {lambda_cpu.NAME}: ")) == (1, True)
    assert not (tmp_path / "baselines").exists()


@pytest.mark.parametrize(
    ("name", "old", "new", "fact"),
    [
        (azure.NAME, "| 209.87 ", "| 209.xx ", "'209.xx' is not a figure"),
        (azure.NAME, "### test 7:", "### test 8:", "the summary's tests are not those that have a section"),
        (tensorpack.NAME, "802/785/787", "802/785", "'802/785' is not three figures"),
        (tensorpack.NAME, "variable_update=parameter_server:", "ps:", "under 'variable_update=parameter_server:'"),
        (lambda_cpu.NAME, "resnet50 |726.86 |", "resnet50 |", "has 5 cells under 6 columns"),
        (lambda_cpu.NAME, "resnet50 |726.86", "resnet5O |726.86", "unknown model 'resnet5O'"),
        (lambda_cpu.NAME, "**real-replicated-4gpus**", "**real**", "found 8"),
    ],
)
def test_a_document_that_is_not_in_its_format_is_refused(name: str, old: str, new: str, fact: str) -> None:
    assert old in TEXT[name]
    with pytest.raises(DocumentError, match=re.escape(fact)):
        DOCUMENTS[name](TEXT[name].replace(old, new, 1))


# What the rows say of themselves


@pytest.mark.parametrize(
    ("machines", "gpu", "peak", "environment"),
    [
        (AZURE[:2], "Tesla K80", 4.37, "benchmarks=cnn_tf_v1.10_compatible"),  # no version of TensorFlow is given
        (["dgx1-p100"], "Tesla P100-SXM2-16GB", 10.6, "tensorflow=1.3.0-rc1-1302-g593dc8e"),
        (LAMBDA, "GeForce GTX 1080 Ti", 11.3, "tensorflow=1.9.0 benchmarks=9165a70"),
    ],
)
def test_rows_name_gpu_peak_rate_and_software(machines: list[str], gpu: str, peak: float, environment: str) -> None:
    rows = published(ROOT / "baselines", *machines).values()
    assert {(row.gpu, row.gpu_fp32_tflops, row.environment, row.lower, row.upper) for row in rows} == {
        (gpu, peak, environment, -0.05, 0.05)
    }


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("two readings: 2 node(s) x 1 GPU(s) in the summary (taken), 1 x 2 in the test's heading", ["5"]),
        ("NC6 in the test's heading (taken), NC12 in the page's", ["1", "3"]),
        ("after several warm-up try", ["6"]),
    ],
)
def test_what_contradicts_itself_on_the_azure_page_is_noted(text: str, sources: list[str]) -> None:
    assert sorted(row.source[-1] for row in published().values() if text in row.note) == sources


@pytest.mark.parametrize("test", range(1, 8))
def test_a_committed_log_is_the_pages_byte_for_byte(test: int) -> None:
    log = (ROOT / "tests" / "data" / "logs" / f"azure-test{test}.log").read_bytes().decode()
    assert f"```\n{log}```" in TEXT[azure.NAME]


# Their tests

# Prints the key of each test that is collected: its Workload, on `gpus` GPUs of each of `nodes`.
KEYS = """
from pytest_tfperf import Workload

def pytest_collection_modifyitems(items):
    for item in items:
        given = item.callspec.params
        (workload,) = (value for value in given.values() if isinstance(value, Workload))
        print("\\nkey", workload.id, f"{given.get('nodes', 1)}x{given['gpus']}")
"""


def test_each_published_figure_has_a_test(tmp_path: Path) -> None:
    (tmp_path / "print_keys.py").write_text(KEYS)
    tests = [f"perf_tests/test_{document}.py" for document in ("azure", "multigpu", "lambda")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "print_keys", *tests],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "TFPERF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SESSION_SECONDS,
        check=False,
    )
    tested = {Key(*line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("key ")}
    assert {row.key for row in published().values()} - tested == set(), done.stdout + done.stderr
