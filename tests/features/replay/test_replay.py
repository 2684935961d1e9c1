"""`tfperf replay`: logs and exported measurements judged without training, to message and exit status."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Noise, Outcome, Reason, Rule, Tolerance, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.features.replay.command import Request
from pytest_tfperf.features.replay.command import replay as replay_files
from pytest_tfperf.stores import measurement_file
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import BUSY, KEY, NOISE, baseline, measurement, pair, run_at, verdict

REPOSITORY = Path(__file__).parents[3]
REAL = REPOSITORY / "tests" / "data" / "measurements"
GREEN, REGRESSED, USAGE, NOT_MEASURED = 0, 1, 4, 6

# Logs

WORKLOAD = "resnet50-b64-horovod-device"
TESTS = {  # machine and topology of the Azure page's tests
    "azure-test1": ("azure-nc6-dsvm", "1x1"),
    "azure-test2": ("azure-nc12-dsvm", "1x2"),
    "azure-test3": ("azure-nc6-dsvm", "2x1"),
    "azure-test4": ("azure-nc12-dsvm", "2x2"),
    "azure-test5": ("azure-nc12-batchai-lowpriority", "2x1"),
    "azure-test6": ("azure-nc12-batchai-lowpriority", "2x2"),
    "azure-test7": ("azure-nc12-batchai-dedicated", "2x2"),
}


@pytest.fixture
def log(azure_logs: Path) -> Path:
    """Of test 1."""
    return azure_logs / "azure-test1.log"


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
def test_an_azure_log_passes_against_its_own_document_and_fails_if_it_is_20_percent_slower(
    name: str, azure_logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = azure_logs / f"{name}.log"
    assert (replay(log, *TESTS[name]), "\n1 PASS\n" in capsys.readouterr().out) == (GREEN, True)
    assert replay(stretched(log, tmp_path, 1.2), *TESTS[name]) == REGRESSED
    said = capsys.readouterr().out
    assert f"published, azure-k80-tensorflow-benchmark.md, test {name[-1]} (2018-10-16)" in said
    assert "only one run is known" in said


def test_of_several_logs_the_table_shows_which_regressed(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = stretched(log, tmp_path, 1.2)
    assert replay(slow, *TESTS["azure-test1"], WORKLOAD, str(log)) == REGRESSED
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if re.match("[A-Z]+  ", line)]
    assert [row[-1] for row in rows if "REGRESSED" in row] == [str(slow)]
    assert [row[-1] for row in rows if "PASS" in row] == [str(log)]


@pytest.mark.parametrize(
    ("machine", "topology", "workload", "said"),
    [
        ("azure-nc6-dsvn", "1x1", WORKLOAD, "unknown machine 'azure-nc6-dsvn'. Did you mean 'azure-nc6-dsvm'? Known: "),
        ("no-such-machine", "1x1", WORKLOAD, "Or name another folder with --baselines=DIR"),
        ("azure-nc6-dsvm", "1x4", WORKLOAD, f"has 2 rows; the nearest are {WORKLOAD} on 1x1, {WORKLOAD} on 2x1"),
        ("azure-nc6-dsvm", "1x1", WORKLOAD.replace("50", "5"), f"the nearest are {WORKLOAD} on 1x1"),
    ],
    ids=["machine", "folder", "topology", "workload"],
)
def test_a_log_without_a_baseline_could_not_be_judged_and_names_what_there_is(
    log: Path, machine: str, topology: str, workload: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(log, machine, topology, workload) == NOT_MEASURED
    assert said in capsys.readouterr().out


OF = [f"--workload={WORKLOAD}"]
BAD: dict[str, list[str | Path]] = {
    "no file": ["--nope"],
    "no machine": ["azure-test1.log", "--topology=1x1"],
    "no workload": ["azure-test1.log", "--machine=azure-nc6-dsvm", "--topology=1x1"],
    "no topology": ["azure-test1.log", "--machine=azure-nc6-dsvm", *OF],
    "no folder": ["azure-test1.log", "--baselines=no/such"],
    "no nodes": ["azure-test1.log", "--machine=m", *OF, "--topology=4"],
    "no id": ["azure-test1.log", "--machine=m", "--workload=resnet50", "--topology=1x1"],
    "tolerance": [REAL / "quiet.json", "--tolerance=5"],
    "missing": ["missing.log", "--machine=m", *OF, "--topology=1x1"],
}


def test_a_bad_argument_is_a_usage_error(
    azure_logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], same_texts: SameTexts
) -> None:
    monkeypatch.chdir(azure_logs)
    texts = {}
    for case, arguments in BAD.items():
        assert cli.main(["replay", *map(str, arguments)]) == USAGE
        texts[case] = capsys.readouterr().err.splitlines()[-1]
    same_texts("bad_arguments", texts)


# What a log's header says

HOROVOD_4 = "['horovod/gpu:0', 'horovod/gpu:1', 'horovod/gpu:2', 'horovod/gpu:3']"
GPUS_8 = "[" + ", ".join(f"'/gpu:{index}'" for index in range(8)) + "]"
STEPS = "1\timages/sec: {0} +/- 0.0 (jitter = 0.0)\t7.5\n10\timages/sec: {0} +/- 0.0 (jitter = 0.0)\t7.4\n"
STEPS += "total images/sec: {0}\n"


def header(
    model: str = "resnet50",
    mode: str = "training",
    batch: int = 64,
    devices: str = "['horovod/gpu:0']",
    variables: str = "horovod",
    dataset: str = "imagenet (synthetic)",
) -> str:
    return (
        f"TensorFlow:  1.15\nModel:       {model}\nDataset:     {dataset}\nMode:        {mode}\n"
        f"Batch size:  {batch * devices.count(':')} global\n             {batch} per device\nNum batches: 100\n"
        f"Devices:     {devices}\nOptimizer:   sgd\nVariables:   {variables}\n==========\n"
    )


def written(folder: Path, text: str) -> str:
    path = folder / "a.log"
    path.write_text(text)
    return str(path)


def test_a_workload_is_never_guessed_from_a_header(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, header() + log.read_text())
    arguments = ["replay", path, "--machine=azure-nc6-dsvm"]
    assert cli.main(arguments) == USAGE
    assert "give --workload=ID, as in resnet50-b64-horovod-device" in capsys.readouterr().err
    assert cli.main([*arguments, f"--workload={WORKLOAD}"]) == GREEN
    assert f"{path}: {WORKLOAD} on 1x1 (azure-nc6-dsvm)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("devices", "variables"),
    [(HOROVOD_4, "horovod"), ("['/gpu:0']", "horovod"), ("['/job:worker/task:0/gpu:0']", "parameter_server")],
)
def test_a_topology_that_may_be_of_several_nodes_must_be_given(
    devices: str, variables: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, header(devices=devices, variables=variables) + STEPS.format(56.0))
    workload = f"--workload=resnet50-b64-{variables}-device"
    assert cli.main(["replay", path, "--machine=azure-nc6-dsvm", workload]) == USAGE
    assert "Give --topology=NxM" in capsys.readouterr().err


def test_a_header_gives_the_topology_of_one_node_without_a_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, header(devices=GPUS_8, variables="replicated") + STEPS.format(400.0))
    workload = "--workload=resnet50-b64-replicated-device"
    assert cli.main(["replay", path, "--machine=azure-nc6-dsvm", workload]) == NOT_MEASURED
    assert "resnet50-b64-replicated-device on 1x8 (azure-nc6-dsvm): 400.0 images/s" in capsys.readouterr().out


CONTRADICTIONS = {
    "model": header(model="alexnet"),
    "mode": header(mode="forward only"),
    "batch": header(batch=32),
    "devices": header(devices=HOROVOD_4),
    "update": header(variables="distributed_replicated"),
    "dataset": header(dataset="imagenet"),
    "precision": "$ python tf_cnn_benchmarks.py --use_fp16\n",
    "optimizer": header().replace("sgd", "adam"),
    "asynchronous": header() + "Sync:        False\n",
    "staged variables": header() + "Staged vars: True\n",
    "a log of CPUs": header(devices="['horovod/cpu:0']"),
}


def test_a_header_that_contradicts_the_options_is_refused_with_both_sides(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], same_texts: SameTexts
) -> None:
    texts = {}
    for case, stated in CONTRADICTIONS.items():
        path = Path(written(tmp_path, stated + log.read_text()))
        assert replay(path, *TESTS["azure-test1"]) == USAGE
        texts[case] = capsys.readouterr().err.replace(str(tmp_path), "FOLDER")
    same_texts("contradictions", texts)


def test_a_precision_that_the_workload_has_is_no_contradiction(log: Path, tmp_path: Path) -> None:
    path = Path(written(tmp_path, CONTRADICTIONS["precision"] + log.read_text()))
    assert replay(path, *TESTS["azure-test1"], f"{WORKLOAD}-mixed_float16") == NOT_MEASURED


@pytest.mark.parametrize(
    ("dataset", "pipeline", "status"),
    [
        ("imagenet (synthetic)", "imagenet", USAGE),
        ("imagenet (synthetic)", "nets:images", NOT_MEASURED),
        ("imagenet", "imagenet", NOT_MEASURED),
        ("imagenet", "nets:images", NOT_MEASURED),
    ],
)
def test_synthetic_data_are_no_data_set_and_real_data_are_not_on_the_device(
    dataset: str, pipeline: str, status: int, log: Path, tmp_path: Path
) -> None:
    path = Path(written(tmp_path, header(dataset=dataset) + log.read_text()))
    assert replay(path, "azure-nc6-dsvm", "1x1", f"resnet50-b64-horovod-{pipeline}") == status


def test_a_users_own_model_may_stand_for_a_name_that_is_no_name_here(log: Path, tmp_path: Path) -> None:
    path = Path(written(tmp_path, header(model="resnet50_v1.5") + log.read_text()))
    assert replay(path, "azure-nc6-dsvm", "1x1", "nets:resnet50_v1_5-b64-horovod-device") == NOT_MEASURED


# Several files, and pipes


def test_a_file_that_can_not_be_read_does_not_keep_the_others_from_being_judged(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = stretched(log, tmp_path, 1.2)
    of = (*TESTS["azure-test1"], WORKLOAD)
    assert replay(log, *of, "missing.log") == NOT_MEASURED
    said = capsys.readouterr()
    assert "missing.log can't be read" in said.err
    assert said.out.endswith("1 PASS, 1 not judged\n")
    assert replay(slow, *of, "missing.log") == REGRESSED


def test_false_alarms_are_shared_among_the_logs_that_are_judged(log: Path) -> None:
    judged, refused = replay_files(
        [log, log, Path("missing.log")],
        Request(
            machine="azure-nc6-dsvm",
            workload=Workload.parse(WORKLOAD),
            topology="1x1",
            store=BaselineStore(Path("none")),
        ),
    )
    assert [measured.verdict.tests for measured in judged if measured.verdict] == [2, 2]
    assert len(refused) == 1


def test_a_figure_of_three_times_the_baseline_is_doubted(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for factor, doubted in ((2.9, False), (3.1, True)):
        assert replay(stretched(log, tmp_path, 1 / factor), *TESTS["azure-test1"]) == GREEN
        assert ("is it of another workload (precision, batch, devices, mode)?" in capsys.readouterr().out) is doubted


# Exported measurements


def exported(folder: Path, runs: list[Run], recorded: Verdict | None = None, **more: Any) -> Path:
    """A file with one measurement, judged against 1,000 images/s."""
    given = {"verdict": recorded or verdict(tolerance=Tolerance(), tests=20)} | more
    path = folder / "export.json"
    measurement_file.write(
        path, measurement_file.render([measurement(summarise(runs or [run_at(1.0)]), runs=tuple(runs), **given)])
    )
    return path


def replayed(folder: Path, *rates: float, **more: Any) -> Measurement:
    return judged_again(exported(folder, [run_at(rate) for rate in rates], **more))


def judged_again(path: Path, **request: Any) -> Measurement:
    (measured,), refused = replay_files([path], Request(**request))
    assert not refused
    return measured


def judged(found: Measurement) -> tuple[Outcome, Reason]:
    assert found.verdict is not None
    return found.verdict.outcome, found.verdict.reason


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ([1000.0], Outcome.PASS),
        ([970.0, 1000.0, 1000.0], Outcome.PASS),
        ([900.0, 901.0, 899.0, 900.0, 902.0, 900.0, 900.0, 900.0], Outcome.REGRESSED),
        ([700.0], Outcome.REGRESSED),
        ([958.0, 961.0], Outcome.INCONCLUSIVE),
    ],
)
def test_the_runs_that_were_made_decide(tmp_path: Path, rates: list[float], outcome: Outcome) -> None:
    found = replayed(tmp_path, *rates)
    assert (judged(found)[0], found.is_decided, len(found.runs)) == (outcome, True, len(rates))
    assert found.throughput == summarise(found.runs)


def test_a_disturbed_run_counts_only_if_it_passes(tmp_path: Path) -> None:
    good = judged_again(exported(tmp_path, [run_at(1000.0, disturbance=BUSY)]))
    slow = judged_again(exported(tmp_path, [run_at(500.0, disturbance=BUSY)]))
    assert [judged(found) for found in (good, slow)] == [
        (Outcome.PASS, Reason.WITHIN_TOLERANCE),
        (Outcome.INVALID, Reason.DISTURBED),
    ]


def test_what_was_given_up_stays_invalid_unless_its_runs_pass(tmp_path: Path) -> None:
    given_up = verdict(Outcome.INVALID, reason=Reason.DISTURBED, tolerance=Tolerance())
    more = {"recorded": given_up, "discarded": (run_at(500.0, disturbance=BUSY),)}
    assert judged(replayed(tmp_path, 900.0, **more)) == (Outcome.INVALID, Reason.DISTURBED)
    assert judged(replayed(tmp_path, **more)) == (Outcome.INVALID, Reason.DISTURBED)
    assert judged(replayed(tmp_path, 1000.0, **more))[0] is Outcome.PASS


def test_the_common_drift_of_the_session_is_taken_out(tmp_path: Path) -> None:
    drift = verdict(tolerance=Tolerance(), tests=20, common_drift=math.log(0.9))
    assert judged(replayed(tmp_path, 900.0, recorded=drift))[0] is Outcome.PASS


def test_pairs_with_the_reference_environment_decide_where_there_are_any(tmp_path: Path) -> None:
    found = replayed(tmp_path, 900.0, pairs=tuple(pair(-0.1) for _ in range(12)))
    assert found.verdict is not None
    assert (judged(found)[0], found.verdict.rule) == (Outcome.REGRESSED, Rule.REFERENCE_ENVIRONMENT)


def test_the_recorded_tolerance_holds_unless_another_is_given(tmp_path: Path) -> None:
    recorded = verdict(tolerance=Tolerance.of(0.2))
    assert judged(replayed(tmp_path, 900.0, recorded=recorded))[0] is Outcome.PASS
    found = judged_again(tmp_path / "export.json", tolerance=Tolerance.of(0.02))
    assert judged(found)[0] is Outcome.REGRESSED


def test_a_measurement_without_a_baseline_is_told_where_one_may_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = exported(tmp_path, [run_at(900.0)], Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE))
    assert cli.main(["replay", str(path)]) == NOT_MEASURED
    assert "it was measured without a baseline: name a folder that has one" in capsys.readouterr().out


def test_what_noise_hides_is_no_green(tmp_path: Path) -> None:
    noise = Noise(between_runs=0.3, degrees_of_freedom=200)
    path = exported(tmp_path, [run_at(900.0)], verdict(tolerance=Tolerance(), noise=noise))
    assert cli.main(["replay", str(path)]) == NOT_MEASURED


def test_a_row_in_another_unit_is_refused_for_the_measurement_that_counts_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(exported(tmp_path, [run_at(900.0)]))
    folder = tmp_path / "mine"
    assert cli.main(["replay", path, rows(folder, baseline(900.0, unit="tokens"))]) == USAGE
    assert (
        "resnet50-b64-replicated-device 1x8 is in tokens/s, and this test measures images/s" in capsys.readouterr().err
    )


def rows(folder: Path, row: Baseline) -> str:
    BaselineStore(folder, published=None).update(row.machine, {KEY: row})
    return f"--baselines={folder}"


def test_a_measurement_is_judged_against_a_folder_or_machine_that_is_given(tmp_path: Path) -> None:
    path = str(exported(tmp_path, [run_at(900.0)] * 8, verdict(tolerance=Tolerance(), noise=NOISE)))
    assert cli.main(["replay", path]) == REGRESSED
    folder = tmp_path / "mine"
    assert cli.main(["replay", path, rows(folder, baseline(900.0))]) == GREEN
    assert cli.main(["replay", path, rows(folder, baseline(1000.0, machine="theirs")), "--machine=theirs"]) == REGRESSED
    assert cli.main(["replay", path, rows(folder, baseline(1000.0, lower=-0.2))]) == GREEN


# Real measurements; tests/data/measurements/README.md describes them


@pytest.mark.parametrize(
    ("name", "status", "outcomes"),
    [
        ("quiet", GREEN, ["PASS", "PASS", "PASS"]),
        ("slowed", REGRESSED, ["REGRESSED", "INCONCLUSIVE"]),  # the row's runs differ by 7.5 %
        ("busy", REGRESSED, ["REGRESSED", "REGRESSED", "INVALID", "INVALID", "INVALID", "PASS"]),
    ],
)
def test_real_measurements_are_judged_from_their_windows(
    name: str, status: int, outcomes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["replay", str(REAL / f"{name}.json"), f"--baselines={REAL / 'baselines'}"]) == status
    table = capsys.readouterr().out.rpartition("workload  ")[2]
    assert re.findall(r"^(PASS|INVALID|REGRESSED|INCONCLUSIVE)  ", table, re.MULTILINE) == outcomes


def test_a_real_loss_of_ten_percent_and_a_busy_machine_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["replay", str(REAL / "busy.json")])
    said = capsys.readouterr().out
    assert "other processes used 70 % of 2 cores, the busiest was python (pid " in said
    pytest.LineMatcher(said.splitlines()).fnmatch_lines(
        [
            "*busy.json: sleeping-b4-replicated-device on * (recorded): *, 10.8 % slower than 177.8",
            "  confirmed * 162.9  158.6  158.9  158.6  134.1",
        ]
    )


def test_a_figure_keeps_its_recorded_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worse = Verdict(figure=Figure("loss", limit=3.0), value=4.0, outcome=Outcome.REGRESSED, reason=Reason.BEYOND_LIMIT)
    path = tmp_path / "one.json"
    runs = [run_at(1000.0)] * 2
    one = measurement(summarise(runs), runs=tuple(runs), verdict=verdict(), figures=(worse,))
    path.write_text(measurement_file.render([one]))
    assert cli.main(["replay", str(path)]) == REGRESSED
    assert "loss 4, beyond its limit of 3" in capsys.readouterr().out
