"""The command `tfperf`: replayed logs, and the topology of this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from patience import SESSION_SECONDS

from pytest_tfperf import cli

REPOSITORY = Path(__file__).parents[2]
LOGS = REPOSITORY / "tests" / "data" / "logs"

# Which machine and topology the Azure page's tests ran on.
TESTS = {
    "azure-test1": ("azure-nc6-dsvm", "1x1"),
    "azure-test2": ("azure-nc12-dsvm", "1x2"),
    "azure-test3": ("azure-nc6-dsvm", "2x1"),
    "azure-test4": ("azure-nc12-dsvm", "2x2"),
    "azure-test5": ("azure-nc12-batchai-lowpriority", "2x1"),
    "azure-test6": ("azure-nc12-batchai-lowpriority", "2x2"),
    "azure-test7": ("azure-nc12-batchai-dedicated", "2x2"),
}
WORKLOAD = "resnet50-b64-horovod-device"


def replay(log: Path, machine: str, topology: str, workload: str = WORKLOAD, *more: str) -> int:
    """Further arguments may be further logs."""
    of = (f"--machine={machine}", f"--topology={topology}", f"--workload={workload}")
    return cli.main(["replay", *of, str(log), *more])


def stretched(log: Path, folder: Path, factor: float) -> Path:
    """The log of a run whose steps took `factor` times as long."""

    def slower(match: re.Match[str]) -> str:
        digits = len(match[2].partition(".")[2])
        return f"{match[1]}{float(match[2]) / factor:.{digits}f}"

    copy = folder / log.name
    copy.write_text(re.sub(r"(images/sec: )(\d+\.\d+)", slower, log.read_text()))
    return copy


@pytest.mark.parametrize("name", TESTS)
def test_an_azure_log_passes_against_its_own_document(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = replay(LOGS / f"{name}.log", *TESTS[name])
    assert (status, "1 PASS" in capsys.readouterr().out) == (0, True)


@pytest.mark.parametrize("name", TESTS)
def test_an_azure_log_that_is_20_percent_slower_fails_and_names_its_row(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = replay(stretched(LOGS / f"{name}.log", tmp_path, 1.2), *TESTS[name])
    said = capsys.readouterr().out
    row = f"baseline    published, azure-k80-tensorflow-benchmark.md, test {name[-1]} (2018-10-16)"
    assert (status, row in said) == (1, True), said


def test_of_several_logs_the_table_shows_which_regressed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = stretched(LOGS / "azure-test1.log", tmp_path, 1.2)
    replay(slow, *TESTS["azure-test1"], WORKLOAD, str(LOGS / "azure-test1.log"))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("resnet50")]
    assert [(row[-3], row[-1]) for row in rows] == [("REGRESSED", str(slow)), ("PASS", str(LOGS / "azure-test1.log"))]


def test_a_log_that_regressed_says_that_it_is_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay(stretched(LOGS / "azure-test1.log", tmp_path, 1.2), *TESTS["azure-test1"])
    assert "the slowdown is larger than noise explains, but only one run is known\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("machine", "topology", "workload", "said"),
    [
        ("azure-nc6-dsvn", "1x1", WORKLOAD, "unknown machine 'azure-nc6-dsvn'. Did you mean 'azure-nc6-dsvm'? Known: "),
        ("no-such-machine", "1x1", WORKLOAD, "Or name another folder with --baselines=DIR"),
        ("azure-nc6-dsvm", "1x4", WORKLOAD, "has this workload on 1x1, 2x1: give one as --topology"),
        ("azure-nc6-dsvm", "1x1", WORKLOAD.replace("50", "5"), f"give --workload, nearest are {WORKLOAD}"),
    ],
    ids=["machine", "folder", "topology", "workload"],
)
def test_a_log_without_a_baseline_exits_with_6_and_says_what_there_is(
    machine: str, topology: str, workload: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = replay(LOGS / "azure-test1.log", machine, topology, workload)
    assert (status, said in capsys.readouterr().out) == (6, True)


@pytest.mark.parametrize("model", ["resnet50", "ournet"])
def test_a_users_own_baselines_and_models_can_be_given(tmp_path: Path, model: str) -> None:
    header, row, *_ = (REPOSITORY / "baselines" / "azure-nc6-dsvm.csv").read_text().splitlines()
    (tmp_path / "mine.csv").write_text(f"{header}\n{row.replace('resnet50', model)}\n")
    workload = WORKLOAD.replace("resnet50", model)
    assert replay(LOGS / "azure-test1.log", "mine", "1x1", workload, f"--baselines={tmp_path}") == 0


@pytest.mark.parametrize(
    ("topology", "workload", "said"),
    [
        ("4", WORKLOAD, "topology '4': write nodes x devices per node, as in 2x4"),
        ("1x1", "resnet50-b64-horovodd-device", "unknown variable_update 'horovodd'. Did you mean 'horovod'? Known: "),
        ("1x1", "resnet50", "'resnet50' is not a workload id: an id reads model-bBATCH-VARIABLE_UPDATE-INPUT_PIPELINE"),
    ],
)
def test_an_invalid_argument_is_a_usage_error(
    topology: str, workload: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = replay(LOGS / "azure-test1.log", "azure-nc6-dsvm", topology, workload)
    assert (status, said in capsys.readouterr().err) == (4, True)


def test_an_invalid_command_line_is_a_usage_error_too(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["replay", "--nope"])
    assert (status, "the following arguments are required: FILE" in capsys.readouterr().err) == (4, True)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("no log at all\n", "garbage.log: no line was printed by tf_cnn_benchmarks"),
        ("1\timages/sec: fast\n", "garbage.log, line 1: a broken step line"),
        ("\n10\timages/sec: 56.9 +/- 0.1 (jitter = 0.2)\t7.848\n", "garbage.log, line 2: the log ends at step 10"),
        (None, "garbage.log can't be read: No such file or directory"),
    ],
)
def test_a_file_that_is_no_log_is_refused_with_file_and_line(
    log: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if log is not None:
        (tmp_path / "garbage.log").write_text(log)
    status = replay(tmp_path / "garbage.log", "azure-nc6-dsvm", "1x1")
    assert (status, said in capsys.readouterr().err) == (4, True)


def test_a_broken_file_of_another_machine_is_mentioned_and_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dgx2.csv").write_text("garbage\n")
    status = replay(LOGS / "azure-test1.log", *TESTS["azure-test1"], WORKLOAD, f"--baselines={tmp_path}")
    said = f"tfperf: ignored, it is another machine's file: {tmp_path}/dgx2.csv, line 1: "
    assert (status, capsys.readouterr().err.count(said)) == (0, 1)


def test_the_topology_of_this_machine_names_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["topology", "--json"])
    machine = json.loads(capsys.readouterr().out)["machine"]
    assert cli.main(["topology"]) == 0
    assert machine in capsys.readouterr().out


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("tfperf")
    done = subprocess.run(
        [command, "topology", "--json"], capture_output=True, text=True, timeout=SESSION_SECONDS, check=True
    )
    assert json.loads(done.stdout)["version"] == 1


@pytest.mark.parametrize(("factor", "status"), [(1.0, 0), (1.2, 1)])
def test_a_reader_that_leaves_early_changes_no_exit_status(tmp_path: Path, factor: float, status: int) -> None:
    log = stretched(LOGS / "azure-test1.log", tmp_path, factor)
    of = ("--machine=azure-nc6-dsvm", "--topology=1x1", f"--workload={WORKLOAD}")
    command = [sys.executable, "-m", "pytest_tfperf.cli", "replay", *of, str(log)]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as left:
        done = subprocess.run(
            command, stdout=left, stderr=subprocess.PIPE, timeout=SESSION_SECONDS, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (status, "")
