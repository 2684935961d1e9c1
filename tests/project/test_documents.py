"""The published baselines: figures.csv gives each row, and a document in its format gives figures.csv.

The documents are other people's texts. Pages in their formats are made here of the figures.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.azure_logs import azure_log
from tests.helpers.patience import SESSION_SECONDS
from tools.documents import DOCUMENTS, azure, baseline_files, differences, figures, lambda_cpu, tensorpack
from tools.documents.tables import Figure

ROOT = Path(__file__).parents[2]
BASELINES = ROOT / "baselines"
FIGURES = {name: [figure for figure in figures() if figure.document == name] for name in DOCUMENTS}

AZURE = ("azure-nc6-dsvm", "azure-nc12-dsvm", "azure-nc12-batchai-lowpriority", "azure-nc12-batchai-dedicated")
LAMBDA = ("lambda-i7-7820x", "lambda-w-2133", "lambda-e5-1650", "lambda-i9-7900x")
BATCHES = {"resnet50": 64, "resnet101": 64, "resnet152": 32, "inception3": 64, "inception4": 16, "vgg16": 64}


def published(*machines: str) -> dict[tuple[str, Key], Baseline]:
    store = BaselineStore(BASELINES, published=None)
    rows = [row for name in machines or store.machines() for row in store.load(name).values() if not row.is_measured]
    return {(row.machine, row.key): row for row in rows}


# Each figure, and the row that stands for it


def azure_row(figure: Figure) -> tuple[str, Key]:
    _, vm, topology, pool = figure.row.lower().split(", ")
    return f"azure-{vm}-{pool}", Key("resnet50-b64-horovod-device", topology)


def tensorpack_row(figure: Figure) -> tuple[str, Key]:
    program, _, images = figure.column.partition(" ")
    end = {"gpu": "device-keras", "cpu": "host-keras", "python": "python-keras", "": "device"}[images]
    assert (program == "tensorpack") is bool(images)
    return "dgx1-p100", Key(f"resnet50-b64-{figure.table}-{end}", f"1x{figure.row[0]}")


def lambda_row(figure: Figure) -> tuple[str, Key]:
    update = "parameter_server" if "parameter_server" in figure.table else "replicated"
    nccl = "-nccl" if "nccl" in figure.table else ""
    distortions = "-distortions" if "distortions" in figure.table else ""
    images = "device" if figure.table.startswith("syn") else f"imagenet{distortions}-consistent"
    parameters = "" if nccl else "-parameters_on_gpu"
    workload = f"{figure.row}-b{BATCHES.get(figure.row, 512)}-{update}{nccl}-{images}{parameters}"
    return f"lambda-{figure.column.lower()}", Key(workload, "1x4")


@pytest.mark.parametrize(
    ("name", "count", "row_of"),
    [(azure.NAME, 7, azure_row), (tensorpack.NAME, 32, tensorpack_row), (lambda_cpu.NAME, 252, lambda_row)],
)
def test_each_figure_is_the_value_of_its_row(
    name: str, count: int, row_of: Callable[[Figure], tuple[str, Key]]
) -> None:
    expected = {row_of(figure): figure.images_per_sec for figure in FIGURES[name]}
    assert len(expected) == count
    rows = {place: row.value for place, row in published().items() if row.source.startswith(name)}
    assert rows == expected


def test_the_committed_rows_are_what_the_figures_give() -> None:
    rows = baseline_files()
    assert {name: (BASELINES / name).read_bytes() for name in rows} == rows


# The documents, where somebody has them


def page_of_azure() -> str:
    lines = ["test | node | gpu | images/sec | images/sec/gpu | note", "-- | -- | -- | -- | -- | --"]
    sections = []
    for test, figure in enumerate(FIGURES[azure.NAME], 1):
        _, vm, topology, pool = figure.row.split(", ")
        nodes, gpus = topology.split("x")
        batch, _, priority = pool.partition("-")
        note = f"{batch} (tensorflow/tensorflow:latest-gpu-py3)/{priority}" if priority else batch
        lines.append(f"{test} | {nodes} | {gpus} | {figure.images_per_sec} | - | {note}")
        machine = f"({vm}) " if vm == "NC6" else ""
        sections.append(f"### test {test}: {nodes} nodes {machine}x {gpus} gpus\n\n```\n{azure_log(test)}```\n")
    return "\n".join([*lines, "", *sections])


def page_of_tensorpack() -> str:
    lines = ["* TF Version: v1.3.0-rc1-1302-g593dc8e"]
    for update, table in groupby(FIGURES[tensorpack.NAME], key=lambda figure: figure.table):
        lines += ["", f"variable_update={update}:", ""]
        lines += ["| #GPU | tensorpack(GPU/CPU/Python) | tensorflow/benchmarks |", "| --- | --- | --- |"]
        for row, of_row in groupby(table, key=lambda figure: figure.row):
            *ours, benchmarks = (f"{figure.images_per_sec:g}" for figure in of_row)
            lines.append(f"| {row[0]} | {'/'.join(ours)} | {benchmarks} |")
    return "\n".join(lines)


def page_of_lambda() -> str:
    """With a CPU that was not measured."""
    lines = ["(tf version 1.9.0), (GitHub hash 9165a70)"]
    for name, table in groupby(FIGURES[lambda_cpu.NAME], key=lambda figure: figure.table):
        lines += ["", f"**{name}**", "", "CPU | i7-7820X | W-2133 | E5-1650 | i9-7900X | 1950X |", ":-: |" * 6]
        for model, of_model in groupby(table, key=lambda figure: figure.row):
            lines.append(f"{model} | {' | '.join(f'{figure.images_per_sec:.2f}' for figure in of_model)} | 0 |")
    return "\n".join(lines)


PAGES = {azure.NAME: page_of_azure(), tensorpack.NAME: page_of_tensorpack(), lambda_cpu.NAME: page_of_lambda()}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_in_its_format_gives_its_figures(name: str) -> None:
    assert DOCUMENTS[name].read(PAGES[name]) == FIGURES[name]


@pytest.mark.parametrize(
    ("name", "old", "new", "fact"),
    [
        (azure.NAME, "| 209.87 ", "| 209.xx ", "'209.xx' is not a figure"),
        (azure.NAME, "| 209.87 ", "| 209.97 ", "test 4 has 209.97 in the summary, and 209.87 in its log"),
        (azure.NAME, "### test 7:", "### test 8:", "its tests are not those that have a section"),
        (azure.NAME, "| DSVM", "| a laptop", "'a laptop' is neither DSVM nor BatchAI"),
        (tensorpack.NAME, "802/785/787", "802/785", "'802/785' is not three figures"),
        (tensorpack.NAME, "variable_update=parameter_server:", "ps:", "under 'variable_update=parameter_server:'"),
        (tensorpack.NAME, "v1.3.0-rc1", "v1.3.0-rc2", "it does not say 'TF Version: v1.3.0-rc1-1302-g593dc8e'"),
        (lambda_cpu.NAME, "resnet50 | 726.86 |", "resnet50 |", "has 5 cells under 6 columns"),
        (lambda_cpu.NAME, "**real-replicated-4gpus**", "**real**", "found 8"),
    ],
)
def test_a_document_that_is_not_in_its_format_is_refused(name: str, old: str, new: str, fact: str) -> None:
    assert old in PAGES[name]
    with pytest.raises(TfperfError, match=re.escape(fact)):
        DOCUMENTS[name].read(PAGES[name].replace(old, new, 1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, page in PAGES.items():
        (tmp_path / name).write_text(page)
    return tmp_path


def test_documents_with_the_same_figures_have_no_differences(folder: Path) -> None:
    assert list(differences(folder)) == []


def test_a_figure_that_the_document_has_otherwise_is_named_with_both_values(folder: Path) -> None:
    page = folder / lambda_cpu.NAME
    page.write_text(page.read_text().replace("726.86", "726.87"))
    command = [sys.executable, "-m", "tools.documents", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SESSION_SECONDS, check=False)
    place = "lambda-cpu-benchmark.md, syn-parameter_server-4gpus, resnet50, i7-7820X"
    assert done.stdout.splitlines() == [
        f"{place}: 726.87 in the document, 726.86 in figures.csv",
        "291 figures, differences: 1",
    ]
    assert done.returncode == 1


def test_a_document_that_is_missing_is_named(folder: Path) -> None:
    (folder / tensorpack.NAME).unlink()
    with pytest.raises(TfperfError, match=re.escape(f"{folder / tensorpack.NAME} can't be read")):
        list(differences(folder))


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
    rows = published(*machines).values()
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


def test_the_origin_of_all_data_of_the_tests_is_stated() -> None:
    data = ROOT / "tests" / "data"
    stated = re.findall(r"^\| `(\S+)` \|", (data / "README.md").read_text(), re.MULTILINE)
    assert {*stated, "README.md"} == {path.name for path in data.iterdir()} - {"__pycache__"}


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
