"""The file of what channels were told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.notify import telling
from pytest_tfperf.features.notify.news import Event, EventKind

EVENT = Event(kind=EventKind.NEW, machine="box", test="a.py::t", headline="slower", change=-0.1, interval=(-0.2, -0.05))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    told = {"slack $X": {EVENT.topic: EVENT}}
    telling.write(tmp_path / "new", told)
    assert telling.read(tmp_path / "new") == (told, "")


def test_without_a_file_nobody_was_told(tmp_path: Path) -> None:
    assert telling.read(tmp_path) == ({}, "")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 1}',
        b'{"version": "2", "channels": {}}',
        b'{"version": 1, "channels": {"x": [{"kind": "odd"}]}}',
        b'{"version": 1, "channels": {"x": 3}}',
    ],
)
def test_a_damaged_file_is_moved_aside(text: bytes, tmp_path: Path) -> None:
    (tmp_path / telling.NAME).write_bytes(text)
    told, said = telling.read(tmp_path)
    assert told == {}
    assert said.startswith(f"{tmp_path / telling.NAME} was damaged. It is now told.json.damaged-")
    (aside,) = tmp_path.iterdir()
    assert aside.read_bytes() == text


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_moved_aside(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("told")
    (folder / telling.NAME).write_bytes(data)
    assert telling.read(folder)[0] == {}


def test_each_field_of_the_kept_file_is_read_and_later_ones_are_ignored(tmp_path: Path) -> None:
    kept = json.loads((Path(__file__).parents[2] / "data" / "kept" / "told.json").read_text())
    (tmp_path / telling.NAME).write_text(json.dumps(kept | {"added_later": 1}))
    told, _ = telling.read(tmp_path)
    assert {key: [plain(event) for event in events.values()] for key, events in told.items()} == kept["channels"]


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / telling.NAME).write_text('{"version": 2, "anything": 1}')
    with pytest.raises(TfperfError, match=r"nobody was notified: .* has version 2 .* Upgrade pytest-tfperf"):
        telling.read(tmp_path)


def test_a_folder_in_its_place_is_said(tmp_path: Path) -> None:
    (tmp_path / telling.NAME).mkdir()
    with pytest.raises(TfperfError, match=r"can't be read: Is a directory\. Correct its permissions"):
        telling.read(tmp_path)
