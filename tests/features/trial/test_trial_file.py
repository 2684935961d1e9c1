"""The file of a trial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.trial.trial import read, trial_file

KEPT = json.loads((Path(__file__).parents[2] / "data" / "kept" / "trial.json").read_text())


def put(folder: Path, **more: object) -> Path:
    path = trial_file(folder)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(KEPT | more))
    return path


def test_each_field_is_read_and_later_ones_are_ignored(tmp_path: Path) -> None:
    put(tmp_path, added_later=1)
    assert {"version": 1, **plain(read(tmp_path)), "fact": KEPT["fact"]} == KEPT


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    put(tmp_path, version=2)
    with pytest.raises(TfperfError, match=r"has version 2 of its format.* Upgrade pytest-tfperf"):
        read(tmp_path)
