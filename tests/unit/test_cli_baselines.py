"""`tfperf baselines`: rows listed, shown, compared across git revisions and files, and checked for age."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import KEY, baseline, measurement

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.reports.baselines import row_changes
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History

GREEN, USAGE = 0, 4
OTHER = Key("resnet50-b64-horovod-device", "1x8")


def row(reference: float = 1000.0, key: Key = KEY, **more: object) -> Baseline:
    return baseline(reference, key=key, date="2026-01-02", **more)


def write(folder: Path, *rows: Baseline) -> None:
    store = BaselineStore(folder / "baselines", published=None)
    for one in rows:
        store.update(one.machine, {one.key: one})


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with two rows of one machine."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, row(), row(500.0, OTHER))
    return tmp_path


@pytest.fixture
def repository(project: Path) -> Path:
    """The same as two commits: then one row was slower, one went, and one was added."""
    git(project, "init", "-q", "-b", "main")
    git(project, "add", ".")
    git(project, "commit", "-qm", "old")
    (project / "baselines" / "box.csv").unlink()
    write(project, row(900.0), row(2000.0, Key("vgg16-b64-replicated-device", "1x1")))
    git(project, "commit", "-qam", "new")
    return project


def tfperf(*arguments: str) -> int:
    return cli.main(["baselines", *arguments])


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The words of each line of a table, without its heading."""
    return [line.split() for line in capsys.readouterr().out.splitlines()[1:]]


# list and show


def test_each_machine_is_listed_with_its_rows_and_dates(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tfperf("list") == GREEN
    assert ["box", "2", "2", "0", "0", "2026-01-02", "2026-01-02"] in lines(capsys)


def test_the_variable_that_tells_a_session_its_folder_tells_a_command_too(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "baselines").rename(project / "elsewhere")
    monkeypatch.setenv("TFPERF_BASELINES", "elsewhere")
    assert tfperf("show", "box") == GREEN
    assert capsys.readouterr().out.startswith("box: 2 rows\n")


def test_the_list_can_be_had_as_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tfperf("list", "--json") == GREEN
    found = json.loads(capsys.readouterr().out)["box"]
    assert sorted(one["reference"] for one in found) == [500.0, 1000.0]


def test_a_machines_rows_are_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tfperf("show", "box") == GREEN
    said = capsys.readouterr().out
    assert said.startswith("box: 2 rows\n")
    assert [KEY.workload, "1x8", "1,000", "images/s"] in [line.split()[:4] for line in said.splitlines()]


def test_notes_stand_below_the_rows_each_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left_out = "left out as slow runs: 700 images/s"
    write(project, row(note=left_out))
    assert tfperf("show", "box") == GREEN
    assert capsys.readouterr().out.endswith(f"\n\nnote: {left_out} ({KEY.workload} on 1x8)\n")
    write(project, row(500.0, OTHER, note=left_out))
    assert tfperf("show", "box") == GREEN
    assert capsys.readouterr().out.endswith(f"\n\nnote: {left_out} (every row)\n")


def test_an_unknown_machine_is_answered_with_those_that_there_are(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tfperf("show", "bax") == USAGE
    assert "unknown machine 'bax'. Did you mean 'box'?" in capsys.readouterr().err


# diff


@pytest.mark.parametrize(
    "sides",
    [["HEAD~1..HEAD"], ["HEAD~1.."], ["HEAD~1...HEAD"], ["HEAD~1"], ["HEAD~1", "HEAD"], ["HEAD~1", "baselines"]],
    ids=lambda sides: " ".join(sides),
)
def test_two_revisions_are_compared(sides: list[str], repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tfperf("diff", *sides) == GREEN
    found = lines(capsys)
    assert [words[0] for words in found] == ["changed", "removed", "added"]
    assert "-10.0" in found[0]


def test_two_files_are_compared_whatever_their_names(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "old.csv").write_bytes((repository / "baselines" / "box.csv").read_bytes())
    write(repository, row(990.0))
    assert tfperf("diff", "old.csv", "baselines/box.csv") == GREEN
    ((what, *words),) = lines(capsys)
    assert (what, "+10.0" in words) == ("changed", True)


def test_equal_sides_are_said_to_be_equal(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tfperf("diff", "HEAD") == GREEN
    assert capsys.readouterr().out == "no row differs between HEAD and baselines\n"


@pytest.mark.parametrize("side", ["nope", "nope..HEAD", "--output=x..HEAD", "no.csv"])
def test_what_is_neither_a_file_nor_a_revision_is_refused(
    side: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tfperf("diff", "--", side) == USAGE
    assert "Name another one" in capsys.readouterr().err


def test_a_damaged_file_of_a_revision_is_named_with_it(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "baselines" / "box.csv").write_text("workload\n")
    git(repository, "commit", "-qam", "damaged")
    assert tfperf("diff", "HEAD~1..HEAD") == USAGE
    assert "HEAD:baselines/box.csv, line 1: " in capsys.readouterr().err


def test_other_columns_that_changed_are_named(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(repository, row(900.0, runs=7, note="quiet"))
    assert tfperf("diff", "HEAD", "--json") == GREEN
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["row"], found["change"], found["new"]["note"]) == ("same figure", 0.0, "quiet")


ROWS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([KEY, OTHER])), st.floats(1, 1e6).map(baseline)
)


@given(old=ROWS, new=ROWS)
def test_a_row_is_reported_if_and_only_if_it_differs(
    old: dict[tuple[str, Key], Baseline], new: dict[tuple[str, Key], Baseline]
) -> None:
    differ = {place for place in old.keys() | new.keys() if old.get(place) != new.get(place)}
    assert len(row_changes(old, new)) == len(differ)


@given(old=ROWS, new=ROWS)
def test_the_largest_drop_comes_first(
    old: dict[tuple[str, Key], Baseline], new: dict[tuple[str, Key], Baseline]
) -> None:
    fractions = [one.fraction for one in row_changes(old, new) if one.fraction is not None]
    assert fractions == sorted(fractions)


def test_figures_in_other_units_have_no_change_in_per_cent() -> None:
    (found,) = row_changes({("a", KEY): row()}, {("a", KEY): row(unit="tokens")})
    assert (found.what, found.fraction) == ("changed", None)


# stale


def reasons(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, list[str]]:
    assert tfperf("stale", "--json", *options) == GREEN
    return {one["key"][0]: one["reasons"] for one in json.loads(capsys.readouterr().out)}


def measured(project: Path, *sessions: tuple[str, Key]) -> None:
    history = History(project / ".tfperf" / "history.sqlite")
    for session, key in sessions:
        named = measurement(session=session, topology=key.topology)
        history.append(replace(named, workload=named.workload.parse(key.workload)))


GOOD = {"lock": "box-1.lock.txt", "commit": "abc123"}


@pytest.fixture
def repeatable(project: Path) -> Path:
    """Both rows have a lock and a commit."""
    write(project, row(**GOOD), row(500.0, OTHER, **GOOD))
    (project / "baselines" / "box-1.lock.txt").write_text("")
    return project


def test_rows_that_the_last_sessions_measured_are_not_stale(
    repeatable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(repeatable, ("one", OTHER), ("two", KEY))
    assert reasons(capsys) == {}


def test_a_row_that_only_earlier_sessions_measured_is_stale(
    repeatable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(repeatable, ("one", OTHER), ("two", KEY))
    assert reasons(capsys, "--sessions=1") == {OTHER.workload: ["no test of the last session measured it"]}


@pytest.mark.parametrize(("age", "is_old"), [("2026-01-02", False), ("2026-01-04", True)])
def test_a_row_is_stale_from_an_age_on(
    age: str, is_old: bool, repeatable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(repeatable, ("one", OTHER), ("one", KEY))
    assert (reasons(capsys, f"--older-than={age}") != {}) == is_old


def test_a_row_whose_lock_is_missing_is_stale(repeatable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repeatable / "baselines" / "box-1.lock.txt").unlink()
    assert reasons(capsys)[KEY.workload] == ["its lock box-1.lock.txt is missing"]


def test_a_row_without_a_lock_has_no_reference_environment(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reasons(capsys)[KEY.workload] == ["no reference environment can be built"]


def test_without_a_history_the_other_reasons_are_found(repeatable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tfperf("stale") == GREEN
    said = capsys.readouterr()
    assert "none of 2 measured rows is out of date\n\nbox: the history has no session of this machine\n" in said.out
    assert "no history yet" in said.err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--sessions=0", "--sessions=0: give the number"),
        ("--machine=bax", "unknown machine 'bax'"),
        ("--older-than=old", "'old' is no time"),
    ],
)
def test_options_of_stale_are_checked(
    option: str, said: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tfperf("stale", option) == USAGE
    assert said in capsys.readouterr().err
