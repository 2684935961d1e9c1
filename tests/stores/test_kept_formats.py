"""The kept files of each version are read whole, and a newer version of each is refused and left as it is."""

from __future__ import annotations

import csv
import json
import sqlite3
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import acknowledgements, baseline_file, measurement_file
from pytest_tfperf.stores.history import History

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "data" / "kept"
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())

Change = Callable[[str], str]


def text_of(name: str) -> str:
    return (KEPT / name).read_text()


def put(folder: Path, name: str, change: Change = str) -> Path:
    """Put a kept file where its reader looks for it, changed."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = change(text_of(name))
    if name != "history.sql":
        path.write_text(text)
        return path
    path = path.with_suffix(".sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(text)
    return path


def read_rows(path: Path) -> dict[Key, Baseline]:
    return baseline_file.parse(path.read_bytes(), "box", path.name)


READERS: dict[str, Callable[[Path], Any]] = {
    "box.csv": read_rows,
    "box-with-figures.csv": read_rows,
    "history.sql": lambda path: list(History(path).measurements()),
    "measurements.json": measurement_file.read,
    "acknowledged.toml": lambda path: acknowledgements.read(path.parent),
}


def test_every_file_that_is_kept_here_is_read() -> None:
    kept = {path.name for path in KEPT.iterdir()}
    assert kept == READERS.keys() | {"trial.json", "told.json", "session.json", "README.md"}


# Version 1


def lost(read: Any, kept: Any, where: str = "") -> list[str]:
    """The places of a kept file whose values a reader did not take over; a later reader may have further fields."""
    if isinstance(kept, dict) and isinstance(read, dict):
        return [place for name, value in kept.items() for place in lost(read.get(name), value, f"{where}.{name}")]
    if isinstance(kept, list) and isinstance(read, list) and len(kept) == len(read):
        return [place for i, value in enumerate(kept) for place in lost(read[i], value, f"{where}[{i}]")]
    return [] if read == kept else [where]


@pytest.mark.parametrize("name", ["box.csv", "box-with-figures.csv"])
def test_each_cell_of_the_baselines_is_read(name: str) -> None:
    rows = read_rows(KEPT / name)
    written = list(csv.DictReader(text_of(name).splitlines()))
    for cells in written:
        row = rows[Key(cells["workload"], cells["topology"], cells.get("figure", ""))]
        for column in ("source", "date", "gpu", "lock", "commit", "environment", "note", "provenance"):
            assert getattr(row, column) == cells[column]
        for column in ("value", "lower", "upper", "runs", "between_runs", "gpu_fp32_tflops"):
            assert getattr(row, column) == (float(cells[column]) if cells[column] else None)
        assert row.unit == cells["unit"].removesuffix("/s")
    assert len(rows) == len(written)


def test_each_field_of_the_export_is_read() -> None:
    read = [plain(one) for one in measurement_file.read(KEPT / "measurements.json")]
    assert lost(read, json.loads(text_of("measurements.json"))["measurements"]) == []


def test_the_history_has_the_same_measurements_as_its_export(tmp_path: Path) -> None:
    history = History(put(tmp_path, "history.sql"))
    assert (tuple(history.measurements()), str(history.unread)) == (
        measurement_file.read(KEPT / "measurements.json"),
        "",
    )


def test_the_columns_of_the_history_are_read(tmp_path: Path) -> None:
    history = History(put(tmp_path, "history.sql"))
    history.prepare()
    outcomes = [one.outcome for one in history.values(figure="")]
    assert [str(outcome) for outcome in outcomes] == ["PASS", "PASS", "PASS", "NO_BASELINE", "REGRESSED"]
    assert [one.value for one in history.values() if one.figure] == [11.95e9] * 4
    (verdict,) = history.verdicts(session="20261126-021000-3d4e5f", machine="box")
    earlier = history.earlier.earlier_measurements("box", before="today", most=10)
    key = Key("resnet50-b64-replicated-device", "1x8")
    assert (verdict.kind, len(earlier[key]), str(history.unread)) == ("machine", 3, "")


def test_a_history_of_an_unreleased_form_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "create table tfperf_history (version integer, id varchar); insert into tfperf_history values (1, 'a');"
            "create table tfperf_measurements (id varchar primary key, made bigint)"
        )
    before = path.read_bytes()
    for ask in (History(path).prepare, lambda: list(History(path).values())):
        with pytest.raises(
            TfperfError, match=r"an unreleased pytest-tfperf wrote it, .*\. Move the file away, or give"
        ):
            ask()
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_each_field_of_the_acknowledgements_is_read() -> None:
    (read,) = acknowledgements.read(KEPT)
    (kept,) = tomllib.loads(text_of("acknowledged.toml"))["acknowledged"]
    assert plain(read) == plain(kept)


def test_the_result_of_a_session_fits_todays_schema() -> None:
    Draft202012Validator(SCHEMA).validate(json.loads(text_of("session.json")))


# A newer version


def second(text: str) -> str:
    """The JSON file as version 2."""
    return text.replace('"version": 1', '"version": 2', 1)


def longer(text: str) -> str:
    """The CSV as version 2: with a further column, empty in each row."""
    header, *rows = text.splitlines()
    return "\n".join([f"{header},version=2", *(f"{row}," for row in rows)]) + "\n"


NEWER: dict[str, Change] = {
    "box.csv": longer,
    "box-with-figures.csv": longer,
    "history.sql": lambda text: text + "update tfperf_history set version = 2;",
    "measurements.json": second,
    "acknowledged.toml": lambda text: text.replace("version = 1", "version = 2\n[strange]", 1),
}


@pytest.mark.parametrize("name", NEWER)
def test_a_newer_version_is_refused_by_its_number_and_left_as_it_is(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, NEWER[name])
    before = path.read_bytes()
    says = (
        r"^[^.]*\.(csv, line 1: this file|\w+) has version 2 of its format, and this pytest-tfperf reads version 1\. "
    )
    with pytest.raises(TfperfError, match=f"{says}Upgrade pytest-tfperf"):
        READERS[name](path)
    assert (path.read_bytes(), [path.name]) == (before, [one.name for one in path.parent.iterdir()])


def test_a_session_does_not_write_to_a_newer_history(tmp_path: Path) -> None:
    path = put(tmp_path, "history.sql", NEWER["history.sql"])
    before = path.read_bytes()
    with pytest.raises(TfperfError, match=r"has version 2 .* Upgrade pytest-tfperf, or name another folder"):
        History(path).prepare()
    assert path.read_bytes() == before


def test_the_schema_refuses_the_result_of_a_newer_version_by_its_number() -> None:
    document = json.loads(text_of("session.json")) | {"schema": 2}
    with pytest.raises(ValidationError, match="1 was expected"):
        Draft202012Validator(SCHEMA).validate(document)


# What a later version 1 adds


# Objects whose names are data and no fields.
BY_NAME = ("channels", "environment", "figures", "figure_ranks", "figure_places", "tests")


def with_more(value: Any, name: str = "") -> Any:
    """The value with a further field in each object."""
    if isinstance(value, list):
        return [with_more(one) for one in value]
    if not isinstance(value, dict):
        return value
    more = {} if name in BY_NAME else {"added_later": {"x": [1]}}
    return {name: with_more(one, name) for name, one in value.items()} | more


@pytest.mark.parametrize("name", ["measurements.json"])
def test_added_fields_are_ignored(name: str, tmp_path: Path) -> None:
    later = put(tmp_path / "later", name, lambda text: json.dumps(with_more(json.loads(text))))
    assert "added_later" in later.read_text()
    assert READERS[name](later) == READERS[name](put(tmp_path / "kept", name))


def test_an_added_column_of_the_history_is_ignored(tmp_path: Path) -> None:
    path = put(tmp_path, "history.sql", lambda text: text + "alter table tfperf_measurements add column later varchar;")
    history = History(path)
    before = list(history.measurements())
    history.append(before[0])
    assert [*before, before[0]] == list(history.measurements())


def test_a_file_that_people_edit_may_have_no_unknown_name(tmp_path: Path) -> None:
    rows = put(tmp_path, "box.csv", lambda text: text.replace(",note", ",comment"))
    with pytest.raises(TfperfError, match="line 1: unknown column 'comment'"):
        READERS["box.csv"](rows)
    known = put(tmp_path, "acknowledged.toml", lambda text: text.replace("why =", "reason ="))
    with pytest.raises(TfperfError, match="unknown field 'reason'"):
        READERS["acknowledged.toml"](known)


def test_an_export_with_a_word_of_later_versions_is_refused_by_that_word(tmp_path: Path) -> None:
    path = put(tmp_path, "measurements.json", lambda text: text.replace('"NO_BASELINE"', '"TOO_FAST"'))
    with pytest.raises(TfperfError, match=r"unknown Outcome 'TOO_FAST'.* or upgrade pytest-tfperf"):
        measurement_file.read(path)
