"""Every published figure against its document, read here by small regular expressions and not by the importers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.documents import DOCUMENTS, azure, lambda_cpu, read, regenerate, tensorpack

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "documents"
LOGS = ROOT / "tests" / "data" / "logs"
TEXT = {name: (FOLDER / name).read_bytes().decode() for name in DOCUMENTS}
Place = tuple[str, str, str]  # machine, workload, topology


def committed(*machines: str) -> dict[Place, Baseline]:
    """The published rows of the repository's own files."""
    store = BaselineStore(ROOT / "baselines", published=None)
    names = machines or tuple(store.machines())
    rows = [row for name in names for row in store.load(name).values() if row.provenance is Provenance.PUBLISHED]
    return {(row.machine, *row.key): row for row in rows}


def references(rows: dict[Place, Baseline]) -> dict[Place, float]:
    return {place: row.reference for place, row in rows.items()}


AZURE = ("azure-nc6-dsvm", "azure-nc12-dsvm", "azure-nc12-batchai-lowpriority", "azure-nc12-batchai-dedicated")
LAMBDA = ("lambda-i7-7820x", "lambda-w-2133", "lambda-e5-1650", "lambda-i9-7900x")
BATCHES = {"resnet50": 64, "resnet101": 64, "resnet152": 32, "inception3": 64, "inception4": 16, "vgg16": 64}


def lambda_cells() -> dict[tuple[str, str, str], str]:
    """(table, model, CPU) -> the cell's text, for all five CPUs."""
    found = {}
    for table, body in re.findall(r"\*\*(\S+)-4gpus\*\*\n\nCPU .*\n:.*\n((?:\w+ \|.*\n)+)", TEXT[lambda_cpu.NAME]):
        for model, cells in re.findall(r"(\w+) \|(.*) \|", body):
            for cpu, cell in zip(("i7-7820X", "W-2133", "E5-1650", "1950X", "i9-7900X"), cells.split("|"), strict=True):
                found[table, model, cpu] = cell.strip()
    return found


def lambda_place(table: str, model: str, cpu: str) -> Place:
    update = "parameter_server" if "parameter_server" in table else "replicated"
    nccl = "-nccl" if "nccl" in table else ""
    distortions = "-distortions" if "distortions" in table else ""
    images = "device" if table.startswith("syn") else f"imagenet{distortions}-consistent"
    parameters = "-parameters_on_gpu" if "parameter_server" in table else ""
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
    assert references(committed(*AZURE)) == expected


def test_the_32_dgx1_figures_are_the_tables() -> None:
    expected = {}
    for update, body in re.findall(r"variable_update=(\w+):\n\n((?:\|.*\n?)+)", TEXT[tensorpack.NAME]):
        for gpus, *figures in re.findall(r"\| (\d)\s*\|\s*([\d.]+)/([\d.]+)/([\d.]+)\s*\|\s*([\d.]+)\s*\|", body):
            for end, figure in zip(("device-keras", "host-keras", "python-keras", "device"), figures, strict=True):
                expected["dgx1-p100", f"resnet50-b64-{update}-{end}", f"1x{gpus}"] = float(figure)
    assert len(expected) == 32
    assert references(committed("dgx1-p100")) == expected


def test_the_252_lambda_figures_are_the_tables() -> None:
    expected = {lambda_place(*place): float(cell) for place, cell in lambda_cells().items() if place[2] != "1950X"}
    assert len(expected) == 252
    assert references(committed(*LAMBDA)) == expected


@pytest.mark.parametrize("machine", LAMBDA)
def test_each_of_lambdas_machines_has_63_figures(machine: str) -> None:
    assert len(committed(machine)) == 63


def test_the_repositorys_published_figures_are_those_291() -> None:
    assert len(committed()) == 7 + 32 + 252


def test_the_committed_files_are_what_the_command_writes(tmp_path: Path) -> None:
    regenerate(FOLDER, tmp_path)
    written = BaselineStore(tmp_path, published=None)
    assert {(row.machine, *row.key): row for m in written.machines() for row in written.load(m).values()} == committed()


# What every row says of itself


def test_a_published_row_has_five_percent_both_ways() -> None:
    assert {(row.lower, row.upper) for row in committed().values()} == {(-0.05, 0.05)}


def test_a_published_row_names_a_document_and_a_place_that_no_other_row_has() -> None:
    sources = Counter(row.source for row in committed().values())
    assert max(sources.values()) == 1
    assert {source.split(", ")[0] for source in sources} == set(DOCUMENTS)


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ((AZURE[1], "resnet50-b64-horovod-device", "2x2"), "azure-k80-tensorflow-benchmark.md, test 4"),
        (
            ("dgx1-p100", "resnet50-b64-replicated-python-keras", "1x8"),
            "tensorpack-multigpu-dgx1.md, replicated, 8 GPUs, tensorpack python",
        ),
        (
            ("dgx1-p100", "resnet50-b64-parameter_server-device", "1x1"),
            "tensorpack-multigpu-dgx1.md, parameter_server, 1 GPU, tensorflow/benchmarks",
        ),
        (
            ("lambda-i7-7820x", "resnet50-b64-replicated-nccl-device", "1x4"),
            "lambda-cpu-benchmark.md, syn-replicated-nccl-4gpus, resnet50, i7-7820X",
        ),
    ],
)
def test_a_source_reads_as_people_cite_it(place: Place, source: str) -> None:
    assert committed()[place].source == source


@pytest.mark.parametrize(
    ("machine", "gpu", "peak"),
    [
        *((machine, "Tesla K80", 4.37) for machine in AZURE),
        ("dgx1-p100", "Tesla P100-SXM2-16GB", 10.6),
        *((machine, "GeForce GTX 1080 Ti", 11.3) for machine in LAMBDA),
    ],
)
def test_a_row_names_the_gpu_and_its_peak_rate(machine: str, gpu: str, peak: float) -> None:
    assert {(row.gpu, row.gpu_fp32_tflops) for row in committed(machine).values()} == {(gpu, peak)}


def test_facts_that_no_document_states_are_marked_in_every_note() -> None:
    assert all("not in the document: " in row.note for row in committed().values())


def test_where_lambdas_parameters_were_is_marked_in_its_84_rows() -> None:
    marked = [row for row in committed(*LAMBDA).values() if ", parameters on GPUs (" in row.note]
    assert len(marked) == 84
    assert {row.key.workload.endswith("-parameters_on_gpu") for row in marked} == {True}


@pytest.mark.parametrize(
    ("machine", "version"),
    [("dgx1-p100", "tensorflow=1.3.0-rc1-1302-g593dc8e"), ("lambda-w-2133", "tensorflow=1.9.0 benchmarks=9165a70")],
)
def test_the_software_of_then_is_named(machine: str, version: str) -> None:
    assert {row.environment for row in committed(machine).values()} == {version}


def test_azures_page_names_no_version_of_tensorflow() -> None:
    assert not any("tensorflow=" in row.environment for row in committed(*AZURE).values())


# The traps


def test_the_63_cells_of_the_1950x_are_reported_as_not_measured() -> None:
    expected = {
        f"{lambda_cpu.NAME}, {table}-4gpus, {model}, {cpu}" for table, model, cpu in lambda_cells() if cpu == "1950X"
    }
    assert len(expected) == 63
    assert set(read(FOLDER)[lambda_cpu.NAME].not_measured) == expected


def test_a_machine_of_which_nothing_was_measured_has_no_file() -> None:
    assert not list((ROOT / "baselines").glob("*1950*"))


def test_error_rates_of_the_model_table_are_no_figures() -> None:
    assert not {24.6, 7.7, 41.8, 19.2} & {row.reference for row in committed(*LAMBDA).values()}


def test_vgg19_of_the_model_table_has_no_baseline() -> None:
    assert not [row for row in committed(*LAMBDA).values() if row.key.workload.startswith("vgg19")]


def test_azures_test_5_has_the_summarys_topology_and_notes_the_headings() -> None:
    (row,) = [row for row in committed(*AZURE).values() if row.source.endswith("test 5")]
    assert row.key.topology == "2x1"
    assert "1 x 2 in the test's heading" in row.note


def test_only_azures_test_5_has_two_readings() -> None:
    assert [row.source[-1] for row in committed(*AZURE).values() if "two readings" in row.note] == ["5"]


@pytest.mark.parametrize("topology", ["1x1", "2x1"])
def test_the_tests_on_nc6_note_that_the_page_says_nc12(topology: str) -> None:
    row = committed()["azure-nc6-dsvm", "resnet50-b64-horovod-device", topology]
    assert "NC6 in the test's heading (taken), NC12 in the page's" in row.note


def test_totals_that_differ_by_worker_are_noted_where_they_do() -> None:
    noted = {row.source[-1]: row.reference for row in committed(*AZURE).values() if "totals differ" in row.note}
    assert noted == {"4": 209.87, "6": 205.18, "7": 211.02}


def test_the_slow_window_of_azures_test_4_is_noted() -> None:
    slow = {row.source[-1]: row.note for row in committed(*AZURE).values() if "slow between" in row.note}
    assert list(slow) == ["4"]
    assert "slow between steps 20 and 30: 203.1" in slow["4"]


def test_the_warm_up_before_azures_test_6_is_noted() -> None:
    assert [r.source[-1] for r in committed(*AZURE).values() if "after several warm-up try" in r.note] == ["6"]


def test_tensorpacks_one_gpu_rows_note_what_the_same_code_gave_in_the_other_table() -> None:
    pairs = {
        (row.reference, float(match[1]))
        for row in committed("dgx1-p100").values()
        if (match := re.search(r"the same code gave (\d+)", row.note))
    }
    assert pairs == {(228, 227), (227, 228), (219, 223), (223, 219)}


def test_the_low_host_of_lambda_is_noted() -> None:
    assert {row.machine for row in committed().values() if "W-2133 reads low" in row.note} == {"lambda-w-2133"}


def test_real_data_above_synthetic_is_noted_in_its_11_cells() -> None:
    notes = [row.note for row in committed(*LAMBDA).values() if "of the lighter input (device)" in row.note]
    assert len(notes) == 11


def test_distorted_above_plain_is_noted_where_it_is() -> None:
    cells = {place: float(cell) for place, cell in lambda_cells().items() if place[2] != "1950X"}
    expected = {
        lambda_place(table, model, cpu)
        for (table, model, cpu), figure in cells.items()
        if "distortions" in table and figure > cells[table.replace("-distortions", ""), model, cpu]
    }
    plain = "of the lighter input (imagenet-consistent)"
    noted = {place for place, row in committed(*LAMBDA).items() if plain in row.note}
    assert noted == expected


def test_alexnet_on_real_data_is_noted_as_bound_by_its_input() -> None:
    shares = {
        float(match[1])
        for row in committed(*LAMBDA).values()
        if (match := re.search(r"bound by its input: ([\d.]+) of synthetic", row.note))
    }
    plain = {
        float(row.note.split("its input: ")[1][:4])
        for row in committed(*LAMBDA).values()
        if row.key.workload.startswith("alexnet") and row.key.workload.endswith("-imagenet-consistent")
    }
    assert min(shares) < min(plain)
    assert max(plain) == 0.46


# The logs


@pytest.mark.parametrize("test", range(1, 8))
def test_a_committed_log_is_the_pages_byte_for_byte(test: int) -> None:
    assert (LOGS / f"azure-test{test}.log").read_bytes().decode() in TEXT[azure.NAME]


def test_the_page_has_the_seven_committed_logs() -> None:
    logs = {f"azure-test{test}.log": section.text for test, section in azure._sections(TEXT[azure.NAME]).items()}
    assert logs == {path.name: path.read_bytes().decode() for path in LOGS.glob("azure-*.log")}
