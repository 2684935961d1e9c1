"""Real recordings, from windows to exit status without training; tests/data/trials/README.md says of what."""

from __future__ import annotations

import json
import math
import re
import statistics
from importlib import import_module
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.throughput import hodges_lehmann, summarise
from pytest_tfperf.stores import trial_file
from pytest_tfperf.stores.baselines import BaselineStore

TRIALS = Path(__file__).parents[1] / "data" / "trials"
FILES = sorted(TRIALS.glob("*/*.json"))
GREEN, REGRESSED, NOT_MEASURED = 0, 1, 6


def replay(name: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    """Judged against the recorded machine's rows: exit status, and all that was said."""
    status = cli.main(["replay", str(TRIALS / name), f"--baselines={TRIALS / 'baselines'}", *more])
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "status", "outcome"),
    [
        ("quiet/resnet20.json", GREEN, "PASS"),
        ("quiet/resnet20-ten-runs.json", GREEN, "PASS"),
        ("quiet/sleeping-five-runs.json", GREEN, "PASS"),
        ("slowed/resnet20-by-10-percent.json", GREEN, "INCONCLUSIVE"),  # the row's runs differ by 7.5 %
        ("slowed/resnet20-by-40-percent.json", REGRESSED, "REGRESSED"),
        ("busy/resnet20.json", NOT_MEASURED, "INVALID"),
        ("busy/resnet20-slowed-by-10-percent.json", NOT_MEASURED, "INVALID"),
        ("busy/resnet20-slowed-by-40-percent.json", NOT_MEASURED, "INVALID"),
        ("busy/sleeping.json", GREEN, "PASS"),
        ("busy/sleeping-slowed-by-10-percent.json", REGRESSED, "REGRESSED"),
        ("busy/sleeping-slowed-by-40-percent.json", REGRESSED, "REGRESSED"),
    ],
)
def test_a_recording_comes_to(name: str, status: int, outcome: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, said = replay(name, capsys)
    assert (found, f"\n1 {outcome}\n" in said) == (status, True), said


@pytest.mark.parametrize(
    "part",
    [
        "*-by-10-percent.json: nets:sleeping-b4-replicated-device on * (recorded): *, 10.8 % slower than 177.8",
        "  bounds      * .. *    (reference 177.8, tolerance 2 %, widened to 4.5 % by noise)",
        "  baseline    measured, --update-baselines (2026-11-21), 5 runs",
        "  confirmed   5 of 5 fresh workers: 162.9  158.6  158.9  158.6  134.1",
        "  rerun       pytest test_recorded.py::test_sleeping",
    ],
)
def test_a_loss_of_ten_percent_says(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = replay("busy/sleeping-slowed-by-10-percent.json", capsys)
    pytest.LineMatcher(said.splitlines()).fnmatch_lines([part])


def test_a_busy_machine_is_told_with_the_culprit(capsys: pytest.CaptureFixture[str]) -> None:
    _, said = replay("busy/resnet20.json", capsys)
    assert "INVALID: other processes used 70 % of 2 cores, above all python (pid " in said


def test_a_recording_is_judged_as_its_night_was_where_nothing_else_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = cli.main(["replay", str(TRIALS / "busy/sleeping-slowed-by-40-percent.json")])
    assert (status, "5 of 5 fresh workers" in capsys.readouterr().out) == (REGRESSED, True)


def test_a_wider_tolerance_accepts_a_loss(capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = replay("busy/sleeping-slowed-by-10-percent.json", capsys, "--tolerance=0.15")
    assert status == GREEN


def test_a_folder_is_as_bad_as_its_worst(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = replay("busy", capsys)
    assert (status, "3 INVALID, 2 REGRESSED, 1 PASS" in said) == (REGRESSED, True), said


def test_a_quiet_folder_is_green(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay("quiet", capsys)[0] == GREEN


def test_the_benchmark_of_verdicts_judges_them_by_the_recorded_machines_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(TRIALS.parents[2] / "benchmarks"))
    import_module("verdict").recorded(TRIALS)
    assert re.findall(r"^\d .*\nexit status \d", capsys.readouterr().out, re.MULTILINE) == [
        "3 INVALID, 2 REGRESSED, 1 PASS\nexit status 1",
        "3 PASS\nexit status 0",
        "1 INCONCLUSIVE, 1 REGRESSED\nexit status 1",
    ]


def test_the_noisy_row_is_that_of_its_ten_runs() -> None:
    runs = [run.log_rate for run in summarise(trial_file.read(TRIALS / "quiet/resnet20-ten-runs.json").trial).runs]
    row = BaselineStore(TRIALS / "baselines", published=None).load("recorded")[
        Key("resnet20-b32-replicated-device", "1x1")
    ]
    assert (row.runs, row.reference, row.spread) == (
        10,
        pytest.approx(math.exp(hodges_lehmann(runs)), rel=1e-4),
        pytest.approx(statistics.stdev(runs), rel=1e-2),
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recording_of_the_first_format_is_written_whole_in_todays(path: Path) -> None:
    assert json.loads(path.read_bytes())["format"] == 1
    found = trial_file.read(path)
    assert trial_file.parse(trial_file.render(found), str(path)) == found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recording_that_is_cut_off_is_refused(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.json").write_bytes(path.read_bytes()[:-100])
    assert (cli.main(["replay", str(tmp_path / "cut.json")]), "cut.json, line" in capsys.readouterr().err) == (4, True)
