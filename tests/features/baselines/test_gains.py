"""`tfperf baselines accept --gains`: rows that five sessions show to be better are recorded from the history."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.features.baselines.accept import gains, record
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.inner import Project
from tests.helpers.measurements import (
    BUSY,
    KEY,
    TEST,
    baseline,
    interleaved,
    measurement,
    run_at,
    throughput,
    verdict,
    verdicts,
)

GREEN, USAGE, REFUSED = 0, 4, 6
MEMORY = Figure("peak_memory")
SOFTWARE = {"python": "3.12.4", "tensorflow": "2.20.0"}
ENVIRONMENT = " ".join(f"{name}={version}" for name, version in SOFTWARE.items())
LOCK = "box-12345678.lock.txt"
ROW = baseline(date="2026-01-01", lower=-0.03, lock=LOCK, environment=ENVIRONMENT)
MEMORY_ROW = baseline(8e9, key=KEY._replace(figure="peak_memory"), unit="bytes", date="2026-01-01")


def better(day: int, *rates: float, row: Baseline = ROW, drift: float = 0.0, **more: Any) -> Measurement:
    """A measurement of a day's session that is IMPROVED against the row."""
    now = throughput(*(rates or (1100.0,)))
    outcome = more.pop("outcome", Outcome.IMPROVED)
    of_rate = verdict(outcome, now.examples_per_sec / row.value - 1, baseline=row, common_drift=drift)
    given: dict[str, Any] = {
        "verdict": of_rate,
        "session": f"s{day:02}",
        "time": f"2026-01-{day:02}T02:00:00+00:00",
        "runs": tuple(run_at(rate) for rate in rates or (1100.0,)),
        "environment": SOFTWARE,
        "commit": f"{day:08x}",
    }
    return measurement(now, **given | more)


class Place:
    """A folder with baselines and a history of one machine."""

    def __init__(self, folder: Path, *rows: Baseline) -> None:
        self.folder = folder
        self.store = BaselineStore(folder / "baselines", published=None)
        self.history = History(folder / ".tfperf" / "history.sqlite")
        for row in rows or (ROW,):
            self.store.update(row.machine, {row.key: row})
        (folder / "baselines" / LOCK).write_text("")

    def measured(self, *measurements: Measurement) -> None:
        for one in measurements:
            self.history.append(one)

    def row(self, key: Key = KEY) -> Baseline:
        return {**self.store.load("box"), **self.store.figures("box")}[key]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def tfperf(*arguments: str) -> int:
    return cli.main(["baselines", "accept", "--gains", *arguments])


FIVE = [better(day, rate) for day, rate in ((2, 1080.0), (3, 1090.0), (4, 1100.0), (5, 1110.0), (6, 1120.0))]


def test_five_better_sessions_make_a_row_as_good_as_a_recorded_one(place: Place) -> None:
    place.measured(*FIVE)
    assert tfperf() == GREEN
    row = place.row()
    assert (row.value, row.runs, row.provenance) == (1100.0, 5, Provenance.MEASURED)
    assert row.between_runs == pytest.approx(0.0144, abs=0.0002)
    assert (row.date, row.commit, row.environment) == ("2026-01-06", "00000006", ENVIRONMENT)
    assert (row.source, row.note) == (
        "sessions s06, s05, s04, s03, s02",
        "from 5 sessions, 2026-01-02 to 2026-01-06",
    )


def test_sessions_that_are_better_by_less_than_one_alone_shows_count(place: Place) -> None:
    place.measured(
        *(better(day, rate, outcome=Outcome.PASS) for day, rate in enumerate([1030.0] * 3 + [1040.0] * 2, 2))
    )
    assert tfperf() == GREEN
    assert place.row().value == pytest.approx(1035, abs=1)


def test_the_output_names_the_old_and_the_new_value_and_what_to_commit(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.measured(*FIVE)
    tfperf()
    said = capsys.readouterr().out
    assert next(line for line in said.splitlines() if "box.csv" in line).endswith("1,000  1,100  +10.0 %         1.4 %")
    assert said.endswith("Next: git add baselines && git commit -m 'Accept gains'\n")


def test_bounds_that_a_user_wrote_are_kept(place: Place) -> None:
    place.measured(*FIVE)
    tfperf()
    assert place.row().lower == -0.03


@pytest.mark.parametrize(("tensorflow", "lock"), [("2.20.0", LOCK), ("1.0.0", "")])
def test_a_row_names_the_lock_of_the_packages_that_it_was_measured_with(
    tensorflow: str, lock: str, place: Place
) -> None:
    place.measured(*(replace(one, environment=SOFTWARE | {"tensorflow": tensorflow}) for one in FIVE))
    tfperf()
    assert place.row().lock == lock
    assert [path.name for path in place.store.folder.glob("*.lock.txt")] == ([lock] if lock else [])


def test_a_row_keeps_its_lock_where_only_the_machines_speed_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path, replace(ROW, environment=f"matmul=1e+11 {ENVIRONMENT}"))
    profile = StepProfile(input=Input.RESIDENT, products_multiply_adds_per_sec=1.1e11)
    place.measured(*(replace(one, runs=tuple(replace(run, step_profile=profile) for run in one.runs)) for one in FIVE))
    tfperf()
    assert (place.row().lock, place.row().environment) == (LOCK, f"matmul=1.1e+11 {ENVIRONMENT}")


def test_packages_that_are_installed_here_get_a_lock(place: Place) -> None:
    place.measured(*(replace(one, environment={"python": platform.python_version()}) for one in FIVE))
    tfperf()
    assert place.row().lock not in ("", LOCK)
    assert (place.store.folder / place.row().lock).exists()


NO_GAIN = {
    "four sessions": FIVE[:4],
    "a lucky night among others": [
        *(better(day, 1000.0, outcome=Outcome.PASS) for day in (2, 3, 4, 5)),
        better(6, 1150.0),
    ],
    "within the tolerance": [better(day, 1015.0, outcome=Outcome.PASS) for day in (2, 3, 4, 5, 6)],
    "in doubt before the last": [*FIVE[:3], better(5, outcome=Outcome.INCONCLUSIVE), FIVE[4]],
    "two tests of one row that differ": [
        *FIVE,
        better(6, 900.0, outcome=Outcome.REGRESSED, test="test_a.py::test_other"),
    ],
    "five measurements of four sessions": [*FIVE[:4], replace(FIVE[4], session="s05")],
    "another machine": [*FIVE[:4], replace(FIVE[4], machine="bax")],
    "slowed on purpose": [*FIVE[:4], replace(FIVE[4], environment={"injected_slowdown": "0.05"})],
    "beside another side": [*FIVE[:4], interleaved(Outcome.IMPROVED, 1.1, session="s06")],
    "against a row that was recorded since": [*FIVE[:4], better(6, row=replace(ROW, value=999.0))],
    "a disturbed run": [*FIVE[:4], better(6, runs=(run_at(1100.0, disturbance=BUSY),))],
}


@pytest.mark.parametrize("measured", NO_GAIN.values(), ids=NO_GAIN)
def test_a_row_stays_without_five_sessions_that_are_better_than_noise_explains(
    measured: Sequence[Measurement], place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.measured(*measured)
    assert tfperf() == GREEN
    assert place.row() == ROW
    assert capsys.readouterr().out == "no row changes: noise explains the last 5 sessions of each\n"


def test_a_row_that_is_newer_than_the_sessions_is_left_alone(place: Place) -> None:
    place.measured(*FIVE)
    newer = replace(ROW, date="2026-01-05")
    place.store.update("box", {KEY: newer})
    tfperf()
    assert place.row() == newer


def test_a_session_that_is_not_improved_long_ago_does_not_count(place: Place) -> None:
    place.measured(better(1, 1000.0, outcome=Outcome.PASS), *FIVE)
    tfperf()
    assert place.row().runs == 5


def test_a_row_rests_on_its_latest_five_sessions(place: Place) -> None:
    place.measured(*(better(day) for day in range(2, 10)), better(10, 1101.0))
    tfperf()
    assert (place.row().runs, place.row().note) == (5, "from 5 sessions, 2026-01-06 to 2026-01-10")


def test_published_rows_stay_as_their_documents_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    published = replace(ROW, provenance=Provenance.PUBLISHED, source="paper", lock="", environment="")
    place = Place(tmp_path, published)
    place.measured(*(better(day, row=published) for day in (2, 3, 4, 5, 6)))
    tfperf()
    assert place.row() == published


def test_runs_that_differ_too_much_are_refused_with_the_reason(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.measured(*(better(day, rate) for day, rate in enumerate((1300.0, 2500.0, 1900.0, 1500.0, 2100.0), 2)))
    assert tfperf() == REFUSED
    assert place.row() == ROW
    assert (
        "too noisy for a baseline, which was left as it is: its runs gave 2,100.0  1,500.0" in capsys.readouterr().err
    )


def test_a_dry_run_shows_the_rows_and_writes_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.measured(*FIVE)
    assert tfperf("--dry-run") == GREEN
    said = capsys.readouterr().out
    assert said.startswith("would be recorded in baselines:\n")
    assert "1,100" in said
    assert place.row() == ROW


def test_while_a_session_records_nothing_is_written(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.measured(*FIVE)
    with place.store.lock():
        assert tfperf() == USAGE
    assert "another session updates these baselines" in capsys.readouterr().err
    assert place.row() == ROW


def test_a_row_that_a_session_records_meanwhile_stays(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.measured(*FIVE)
    read, newer = History.measurements_of, replace(ROW, value=1050.0)

    def read_while_a_session_records(history: History, ids: Sequence[str]) -> list[Measurement]:
        place.store.update("box", {KEY: newer})
        return read(history, ids)

    monkeypatch.setattr(History, "measurements_of", read_while_a_session_records)
    assert tfperf() == REFUSED
    assert place.row() == newer


OTHER = KEY._replace(topology="1x4")


def test_only_the_rows_of_the_named_tests_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = replace(ROW, key=OTHER)
    place = Place(tmp_path, ROW, other)
    place.measured(*FIVE, *(better(day, row=other, topology="1x4", test="a.py::other") for day in (2, 3, 4, 5, 6)))
    assert tfperf("a.py::other") == GREEN
    assert (place.row().value, place.row(OTHER).value) == (1000.0, 1100.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["perf_tests/test_a.py::test_c[1]"], f"{TEST}"),
        (["--machine=bax"], "unknown machine 'bax'"),
        (["--history=nowhere"], "no history yet"),
    ],
)
def test_wrong_names_are_errors(
    arguments: list[str], said: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.measured(*FIVE)
    assert tfperf(*arguments) == USAGE
    assert said in capsys.readouterr().err


def test_a_row_of_another_machine_with_the_same_key_is_not_taken_for_it(place: Place) -> None:
    other = replace(ROW, machine="bax")
    place.store.update("bax", {KEY: other})
    place.measured(*FIVE, better(7, 1000.0, row=other, outcome=Outcome.PASS, machine="bax"))
    assert [change.machine for change in gains([ROW, other], place.history)] == ["box"]


# the drift common to all tests


@pytest.mark.parametrize(
    ("drift", "value"),
    [pytest.param(0.05, 1046.0, id="all were faster"), pytest.param(-0.05, 1099.6, id="all were slower")],
)
def test_a_row_has_only_the_gain_that_is_not_common_to_all_tests(drift: float, value: float, place: Place) -> None:
    place.measured(*(better(day, drift=drift) for day in (2, 3, 4, 5)), better(6, 1099.0, drift=drift))
    tfperf()
    assert place.row().value == pytest.approx(value, abs=0.6)


def test_a_gain_relative_to_the_drift_only_is_none(place: Place) -> None:
    place.measured(*(better(day, 1000.0, drift=-0.1) for day in (2, 3, 4, 5, 6)))
    assert tfperf() == GREEN
    assert place.row() == ROW


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.just(Outcome.IMPROVED) | st.sampled_from(Outcome), st.floats(900.0, 1300.0), st.floats(-0.1, 0.1)),
        min_size=4,
        max_size=8,
    )
)
def test_a_row_only_ever_becomes_better(sessions: list[tuple[Outcome, float, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        for day, (outcome, rate, drift) in enumerate(sessions, 2):
            place.measured(better(day, rate, outcome=outcome, drift=drift))
        changes = list(gains([ROW], place.history))
        if changes:
            record(place.store, changes, root=place.folder)
        assert place.row().value > ROW.value or place.row() == ROW
        assert len(sessions) >= 5 or not changes


# further figures


def _with_memory(day: int, gib: float, outcome: Outcome, of_rate: Outcome = Outcome.PASS) -> Measurement:
    value = gib * 1e9
    of_memory = Verdict(outcome=outcome, figure=MEMORY, value=value, baseline=MEMORY_ROW, change=value - 8e9)
    one = better(day, outcome=of_rate)
    runs = tuple(replace(run, figures={"peak_memory": value}) for run in one.runs)
    return replace(one, runs=runs, verdicts=verdicts(one.verdicts[0], [of_memory]))


@pytest.fixture
def with_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, ROW, MEMORY_ROW)


def test_a_figure_that_improved_is_recorded_alone(with_memory: Place) -> None:
    with_memory.measured(*(_with_memory(day, 6 + day / 100, Outcome.IMPROVED) for day in (2, 3, 4, 5, 6)))
    assert tfperf() == GREEN
    assert (with_memory.row(MEMORY_ROW.key).value, with_memory.row().value) == (6.04e9, 1100.0)


def test_a_figure_that_became_worse_keeps_its_row(with_memory: Place) -> None:
    worse = [_with_memory(day, 8.2, Outcome.PASS, of_rate=Outcome.IMPROVED) for day in (2, 3, 4, 5, 6)]
    with_memory.measured(*worse[:4], replace(worse[4], throughput=throughput(1101.0)))
    assert tfperf() == GREEN
    assert (with_memory.row(MEMORY_ROW.key).value, with_memory.row().value > 1000.0) == (8e9, True)


# the proposal in the session's summary


@pytest.fixture(scope="module")
def fifth(played: Project) -> list[str]:
    """The summaries of five sessions that are far faster than their row."""
    played.tests(
        """
        @pytest.mark.parametrize("batch_size", [1, 2])
        def test_check(throughput, on, batch_size):
            throughput.check(tiny(batch_size), on=on)
        """
    )
    played.baseline("nets:tiny-b1-replicated-device", value=1.0, date="2026-01-01")
    return [played.run().text for _ in range(5)]


def _proposals(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "tfperf baselines accept --gains" in line]


def test_the_fifth_session_proposes_the_command_in_one_line(fifth: list[str]) -> None:
    said = "(1 row better over 5 sessions than noise explains)"
    assert [_proposals(text) for text in fifth] == [
        [],
        [],
        [],
        [],
        [f"gains       tfperf baselines accept --gains    {said}"],
    ]


def test_the_proposed_command_records_what_the_sessions_measured(
    fifth: list[str], played: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(played.folder)
    assert tfperf() == GREEN
    (row,) = played.baselines.load("box").values()
    rates = [one.throughput.examples_per_sec for one in played.history.measurements() if one.verdict]
    assert min(rates) * 0.999 <= row.value <= max(rates) * 1.001
    assert fifth


def test_the_command_names_folders_that_are_not_the_usual_ones(fifth: list[str], played: Project) -> None:
    assert fifth
    played.baseline("nets:tiny-b1-replicated-device", value=1.0, date="2026-01-01")
    for _ in range(4):
        played.run("--tfperf-dir=elsewhere")
    (line,) = _proposals(played.run("--tfperf-dir=elsewhere").text)
    assert f"tfperf baselines accept --gains --dir={played.folder / 'elsewhere'} " in line
