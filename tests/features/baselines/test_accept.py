"""`tfperf baselines accept`: what a session confirmed becomes the baseline, from its own runs."""

from __future__ import annotations

import io
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.baselines.accept import is_alike
from pytest_tfperf.features.baselines.sources import read_from
from pytest_tfperf.stores import acknowledgements, measurement_file
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import (
    BUSY,
    KEY,
    TEST,
    acknowledged,
    baseline,
    interleaved,
    measurement,
    pair,
    run_at,
    throughput,
    verdict,
    verdicts,
)

GREEN, USAGE, REFUSED = 0, 4, 6
COMMIT = "0123456789ab"
ENVIRONMENT = {"python": "3.12.4", "tensorflow": "2.20.0"}
ROW = baseline(date="2026-01-01", lower=-0.03)
MEMORY = Figure("peak_memory")
MEMORY_ROW = baseline(8e9, key=KEY._replace(figure="peak_memory"), unit="bytes", date="2026-01-01")
SUSPECTED, CONFIRMING = 880.0, (905.0, 895.0, 900.0, 903.0, 897.0)


def slower(*rates: float, row: Baseline = ROW, day: int = 2, drift: float = 0.0, **more: Any) -> Measurement:
    """A day's measurement that is REGRESSED; by default the run that raised the suspicion, and five free runs."""
    now = throughput(*(rates or (SUSPECTED, *CONFIRMING)))
    outcome = more.pop("outcome", Outcome.REGRESSED)
    change = now.examples_per_sec / row.value - 1
    reason = more.pop("reason", Reason.CONFIRMED)
    of_rate = verdict(outcome, change, baseline=more.pop("against", row), common_drift=drift, reason=reason)
    given: dict[str, Any] = {
        "verdict": of_rate,
        "session": f"s{day:02}",
        "time": f"2026-01-{day:02}T02:00:00+00:00",
        "runs": tuple(map(run_at, rates or (SUSPECTED, *CONFIRMING))),
        "environment": ENVIRONMENT,
        "commit": COMMIT,
    }
    return measurement(now, **given | more)


class Place:
    """A folder with baselines and a history of one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = BaselineStore(folder / "baselines", published=None)
        self.history = History(folder / ".tfperf" / "history.sqlite")
        self.store.update("box", {KEY: ROW})

    def measured(self, *measurements: Measurement) -> None:
        for m in measurements:
            self.history.append(m)

    def row(self, key: Key = KEY) -> Baseline:
        return {**self.store.load("box"), **self.store.figures("box")}[key]

    def export(self, *measurements: Measurement, name: str = "result.json") -> Path:
        path = self.folder / name
        measurement_file.write(path, measurement_file.render(measurements))
        return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def accept(*arguments: str) -> int:
    return cli.main(["baselines", "accept", *arguments])


# The row


def test_the_free_runs_of_the_session_make_the_row_without_the_one_that_raised_the_suspicion(place: Place) -> None:
    place.measured(slower())
    assert accept(TEST) == GREEN
    row = place.row()
    assert (row.value, row.runs, row.provenance, row.source) == (899.99, 5, Provenance.MEASURED, "session s02")
    assert row.between_runs == pytest.approx(0.0046, abs=0.0001)
    assert (row.commit, row.date, row.lower) == (COMMIT, "2026-01-02", -0.03)
    assert row.environment == "python=3.12.4 tensorflow=2.20.0"


def test_it_prints_old_new_change_interval_power_and_lines_for_a_pull_request(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.measured(slower())
    accept(TEST)
    said = capsys.readouterr().out
    assert next(line for line in said.splitlines() if "box.csv" in line).split()[-6:-2] == [
        "1,000",
        "900.0",
        "-10.0",
        "%",
    ]
    (line,) = [line for line in said.splitlines() if line.startswith("- ")]
    assert line == (
        f"- `{TEST}` on box: throughput 1,000 -> 900.0 images/s (-10.0 %, 95 % interval 894.7 to 905.3), 5 runs of "
        f"session s02, commit {COMMIT}; detects slowdowns from 8.8 % (95 % power; a row of 10 runs from 7.5 %)"
    )
    assert said.endswith("Next: git add baselines && git commit -m 'Accept measured changes'\n")


def test_a_dry_run_writes_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.measured(slower())
    assert accept(TEST, "--dry-run") == GREEN
    assert capsys.readouterr().out.startswith("would be recorded in baselines:\n")
    assert place.row() == ROW


@pytest.mark.parametrize(("drift", "value"), [(-0.05, 946.1), (0.05, 856.1)])
def test_the_row_is_without_the_drift_that_all_tests_had_in_common(drift: float, value: float, place: Place) -> None:
    place.measured(slower(drift=drift))
    accept(TEST)
    assert place.row().value == pytest.approx(value, abs=0.1)
    assert "for the drift common to all tests" in place.row().note


def test_disturbed_runs_do_not_count(place: Place) -> None:
    runs = [*map(run_at, (SUSPECTED, *CONFIRMING)), run_at(700.0, disturbance=BUSY)]
    place.measured(slower(SUSPECTED, *CONFIRMING, 700.0, runs=tuple(runs)))
    accept(TEST)
    assert (place.row().value, place.row().runs) == (899.99, 5)


def test_further_sessions_of_the_same_code_and_environment_add_their_free_runs(place: Place) -> None:
    place.measured(slower(850.0, 890.0, 892.0, 894.0, day=2), slower(850.0, 900.0, 903.0, 897.0, day=3))
    assert accept(TEST) == GREEN
    row = place.row()
    assert (row.runs, row.source) == (6, "sessions s03, s02")
    assert row.note.startswith("from 2 sessions, 2026-01-02 to 2026-01-03")


OTHERS = {
    "another commit": {"commit": "ffffffffffff"},
    "another version": {"environment": ENVIRONMENT | {"tensorflow": "2.21.0"}},
    "another GPU": {"gpu": "Tesla V100"},
    "another machine": {"machine": "bax"},
    "another outcome": {"outcome": Outcome.PASS},
    "another row": {"against": replace(ROW, value=990.0)},
    "another unit": {"unit": "tokens"},
    "another test": {"test": "test_a.py::test_other"},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_runs_of_another_state_are_not_pooled(other: dict[str, Any]) -> None:
    unit = other.pop("unit", "images")
    m = slower(day=3, **other)
    assert not is_alike(slower(), replace(m, throughput=replace(m.throughput, unit=unit)))
    assert is_alike(slower(), slower(day=3))


@pytest.mark.parametrize("commit", ["", f"{COMMIT}-dirty"])
def test_sessions_of_a_changed_work_tree_are_not_pooled(commit: str) -> None:
    assert not is_alike(slower(commit=commit), slower(day=3, commit=commit))


def test_figures_that_changed_get_rows_too(place: Place) -> None:
    place.store.update("box", {MEMORY_ROW.key: MEMORY_ROW})
    of_memory = Verdict(outcome=Outcome.REGRESSED, figure=MEMORY, value=9e9, baseline=MEMORY_ROW, change=1e9)
    m = slower()
    runs = tuple(replace(run, figures={"peak_memory": 9e9}) for run in m.runs)
    place.measured(replace(m, runs=runs, verdicts=verdicts(m.verdicts[0], [of_memory])))
    assert accept(TEST) == GREEN
    assert (place.row().value, place.row(MEMORY_ROW.key).value) == (899.99, 9e9)


# What is refused


def test_a_gain_relative_to_the_drift_only_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.measured(slower(990.0, *[1000.0] * 5, drift=-0.1, outcome=Outcome.IMPROVED))
    assert accept(TEST) == REFUSED
    assert f"{TEST}: throughput improved relative to the common drift only" in " ".join(capsys.readouterr().err.split())
    assert place.row() == ROW


def test_a_gain_of_a_session_with_enough_runs_is_accepted(place: Place) -> None:
    place.measured(slower(1090.0, 1098.0, 1099.0, 1100.0, 1101.0, 1102.0, outcome=Outcome.IMPROVED))
    assert accept(TEST) == GREEN
    assert place.row().value == 1100.0


def in_pairs() -> Measurement:
    return slower(SUSPECTED, runs=(run_at(SUSPECTED),), pairs=tuple(pair(-0.1) for _ in range(6)))


REFUSALS: dict[str, tuple[Measurement, str, str]] = {
    "too few": (slower(850.0, 900.0, 901.0), "has 2 runs of session s02, and 3 of 5 are lacking", "--tfperf-accept"),
    "runs of pairs": (in_pairs(), "has 0 runs of session s02, and 5 of 5 are lacking", "--tfperf-accept"),
    "disturbed": (
        slower(runs=tuple(run_at(rate, disturbance=BUSY) for rate in (SUSPECTED, *CONFIRMING))),
        "has 0 runs of session s02",
        "--tfperf-accept",
    ),
    "not confirmed": (
        slower(outcome=Outcome.INCONCLUSIVE),
        "is INCONCLUSIVE in session s02: no change is",
        "Measure it",
    ),
    "unchanged": (slower(outcome=Outcome.PASS), "is PASS in session s02: no change is confirmed", "--tfperf-accept"),
    "slowed on purpose": (slower(environment={"injected_slowdown": "0.1"}), "was slowed on purpose", "Run it without"),
    "of another machine": (slower(machine="bax"), "has no measured row in bax.csv", "--update-baselines"),
    "provisional": (
        slower(against=replace(ROW, provenance=Provenance.PROVISIONAL)),
        "was judged in session s02 by provisional figures only",
        "--update-baselines",
    ),
    "of another row": (
        slower(against=replace(ROW, value=990.0)),
        "was judged by 990.0 in session s02",
        "--tfperf-accept",
    ),
    "of another GPU": (
        slower(gpu="Tesla V100"),
        "was measured on Tesla V100, and its row on CPUs",
        "--update-baselines",
    ),
    "of another unit": (
        replace(slower(), throughput=replace(slower().throughput, unit="tokens")),
        "is in tokens, and its row in images",
        "--update-baselines",
    ),
    "beyond a limit": (slower(reason=Reason.BEYOND_LIMIT), "is beyond its limit", "Change the limit"),
    "too noisy": (slower(850.0, 900.0, 1500.0, 600.0, 1100.0, 400.0), "too noisy for a baseline", "Free the machine"),
}


@pytest.mark.parametrize(("m", "fact", "next_step"), REFUSALS.values(), ids=REFUSALS)
def test_what_is_no_known_change_is_refused_with_the_next_step(
    m: Measurement, fact: str, next_step: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.measured(m)
    assert accept(TEST) == REFUSED
    said = " ".join(capsys.readouterr().err.split())
    assert fact in said
    assert next_step in said
    assert place.row() == ROW


def test_an_acknowledged_loss_is_refused_until_its_acknowledgement_is_removed(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    acknowledgements.write(place.store.folder, [replace(acknowledged(), until=date(2026, 12, 1))])
    place.measured(slower())
    assert accept(TEST) == REFUSED
    assert "tfperf ack --remove" in capsys.readouterr().err
    acknowledgements.write(place.store.folder, [])
    assert accept(TEST) == GREEN


def test_a_figure_that_was_read_at_another_place_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    figure = Figure("eval_loss", field="eval.loss", better="lower")
    row = baseline(2.0, key=KEY._replace(figure="eval_loss"), unit="", note="read at step 400", date="2026-01-01")
    place.store.update("box", {row.key: row})
    of_loss = Verdict(outcome=Outcome.REGRESSED, figure=figure, value=2.2, baseline=row, change=0.2)
    m = slower(outcome=Outcome.PASS)
    runs = [replace(run, figures={"eval_loss": 2.2}, figure_places={"eval_loss": "at step 500"}) for run in m.runs]
    place.measured(replace(m, runs=tuple(runs), verdicts=verdicts(m.verdicts[0], [of_loss])))
    assert accept(TEST) == REFUSED
    assert "was read at step 500, and its row at step 400" in " ".join(capsys.readouterr().err.split())


def test_what_was_accepted_is_not_accepted_again(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.measured(slower())
    accept(TEST)
    accepted = place.row()
    assert accept(TEST) == REFUSED
    assert "was judged by 1,000 in session s02, and its row is 900.0" in " ".join(capsys.readouterr().err.split())
    assert place.row() == accepted


# Which measurements


def test_the_last_session_counts_unless_one_is_named(place: Place) -> None:
    place.measured(slower(day=2), slower(outcome=Outcome.PASS, day=3))
    assert accept(TEST) == REFUSED
    assert accept(TEST, "--session=s02") == GREEN


def test_all_failed_takes_what_failed_and_nothing_else(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    keys = [KEY._replace(topology=f"1x{number}") for number in (1, 2, 3)]
    rows = {key: replace(ROW, key=key) for key in keys}
    place.store.update("box", rows)
    improved, provisional = rows[keys[1]], replace(rows[keys[2]], provenance=Provenance.PROVISIONAL)
    place.measured(
        slower(),
        slower(topology="1x2", test="t.py::faster", outcome=Outcome.IMPROVED, against=improved),
        slower(topology="1x3", test="t.py::provisional", against=provisional),
    )
    assert accept("--all-failed") == GREEN
    assert place.row().value == 899.99
    assert {key: place.row(key) for key in keys} == rows
    assert not capsys.readouterr().err


def test_all_failed_of_a_green_session_changes_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.measured(slower(outcome=Outcome.PASS))
    assert accept("--all-failed") == GREEN
    assert capsys.readouterr().out == "no row changes: nothing failed\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no TEST"),
        (["--all-failed", TEST], "takes no TEST"),
        (["--gains", "--session=s02"], "--gains no --session"),
        (["nothing_like_it"], "nothing_like_it"),
        ([TEST, "--session=s99"], "s99"),
        ([TEST, "--from=missing.json"], "missing.json"),
        ([TEST, "--machine=bax"], "bax"),
    ],
)
def test_wrong_use_is_an_error(
    arguments: list[str], said: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.measured(slower())
    assert accept(*arguments) == USAGE
    assert said in capsys.readouterr().err
    assert place.row() == ROW


# Files of other machines


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "/").replace("_json", ".json"), content)
    return path


def test_an_export_serves_without_a_history(place: Place) -> None:
    place.export(slower(), interleaved())
    assert accept(TEST, "--from=result.json") == GREEN
    assert place.row().value == 899.99


def test_the_last_session_of_a_file_counts(place: Place) -> None:
    place.export(slower(day=3, outcome=Outcome.PASS), slower(day=2))
    assert accept(TEST, "--from=result.json") == REFUSED
    assert accept(TEST, "--from=result.json", "--session=s02") == GREEN


def test_an_archive_of_a_job_serves_whatever_else_is_in_it(place: Place) -> None:
    export = place.export(slower()).read_bytes()
    archive(place.folder / "artifact.zip", other_json=b'{"a": 1}', deep__result_json=export, log_txt=b"\xff")
    assert accept("--all-failed", "--from=artifact.zip") == GREEN
    assert place.row().value == 899.99


def test_a_member_with_a_path_out_of_the_archive_writes_nothing(place: Place) -> None:
    export = place.export(slower(), name="elsewhere.json").read_bytes()
    folder = place.folder / "inner"
    folder.mkdir()
    with zipfile.ZipFile(folder / "artifact.zip", "w") as file:
        file.writestr("../../evil.json", export)
    assert len(read_from(folder / "artifact.zip")) == 1
    assert not list(place.folder.parent.glob("**/evil.json"))


def test_an_archive_that_unpacks_to_gigabytes_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_tfperf.features.baselines.sources._MOST_BYTES", 100_000)
    with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.json", b" " * 60_000)
        file.writestr("b.json", b" " * 60_000)
    with pytest.raises(TfperfError, match=r"bomb\.zip unpacks to more than"):
        read_from(Path("bomb.zip"))


@pytest.mark.parametrize("content", [b"", b"{}", b'{"measurements": 3}', b"PK\x03\x04 cut off", b"\x1f\x8b cut off"])
def test_what_is_no_export_is_an_error_of_one_line(content: bytes, place: Place) -> None:
    (place.folder / "result.json").write_bytes(content)
    assert accept(TEST, "--from=result.json") == USAGE


def _archive_in_memory() -> bytes:
    text = io.BytesIO()
    with zipfile.ZipFile(text, "w") as file:
        file.writestr("result.json", measurement_file.render([slower()]))
    return text.getvalue()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=5))
def test_a_damaged_archive_is_an_error_and_no_crash(damage: list[tuple[int, int]]) -> None:
    content = bytearray(_archive_in_memory())
    for place, value in damage:
        content[place % len(content)] = value
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        Path(file.name).write_bytes(content)
        with suppress(TfperfError):
            read_from(Path(file.name))
