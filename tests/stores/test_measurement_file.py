"""Exported measurements on disk: written, read again, and refused where they are faulty."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import measurement_file
from tests.helpers.measurements import BUSY, interleaved, measurement, pair, run, throughput, verdict

WHOLE = [
    measurement(runs=(run([0.064, 0.065]),), verdict=verdict(Outcome.REGRESSED), session="monday"),
    measurement(throughput(900.0, low=-math.inf), discarded=(run([0.1], disturbance=BUSY),), pairs=(pair(-0.1),)),
]
TEXT = measurement_file.render(WHOLE)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    measurement_file.write(tmp_path / "a.json", measurement_file.render(WHOLE))
    assert list(measurement_file.read(tmp_path / "a.json")) == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_one_measurement_is_one_line_so_that_a_diff_is_readable() -> None:
    head, *lines, tail = TEXT.splitlines()
    assert (head, [json.loads(line.rstrip(","))["test"] for line in lines], tail) == (
        '{"version": 1, "measurements": [',
        [one.test for one in WHOLE],
        "]}",
    )


def test_a_file_that_can_not_be_written_or_read_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match=r"b\.json can't be written: No such file or directory\. Name another file"):
        measurement_file.write(tmp_path / "a" / "b.json", measurement_file.render(WHOLE))
    with pytest.raises(TfperfError, match=r"b\.json can't be read: No such file or directory"):
        measurement_file.read(tmp_path / "b.json")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        pytest.param(TEXT, True, id="an export"),
        pytest.param(json.dumps(json.loads(TEXT), indent=1, sort_keys=True), True, id="formatted anew"),
        pytest.param(TEXT[:50], True, id="cut off"),
        pytest.param('{"log": "1\\timages/sec: 5", "stream": "stdout"}', False, id="Docker's lines"),
        pytest.param("1\timages/sec: 5", False, id="a log"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_an_export_is_told_from_a_log_that_is_json(text: str, is_one: bool) -> None:
    assert measurement_file.is_measurement_file(text) is is_one


def faulty(**first: Any) -> str:
    """The export with these fields in its second measurement."""
    whole = json.loads(TEXT)
    whole["measurements"][1] |= first
    return json.dumps(whole)


def run_with(**fields: Any) -> list[dict[str, Any]]:
    return [json.loads(TEXT)["measurements"][0]["runs"][0] | fields]


def with_error(error: float) -> dict[str, Any]:
    """A throughput whose first run has this standard error, as a logarithm."""
    found: dict[str, Any] = json.loads(TEXT)["measurements"][0]["throughput"]
    found["runs"][0]["error"] = error
    return found


def with_rate(rate: float | str) -> dict[str, Any]:
    """A throughput of so many images/s."""
    return json.loads(TEXT)["measurements"][0]["throughput"] | {"examples_per_sec": rate}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (TEXT[:-100], r"a\.json, line 3: cut off or damaged"),
        ("", r"a\.json, line 1: cut off or damaged"),
        ("[]", r"a\.json: not an export of pytest-tfperf"),
        ('{"version": 1}', r"a\.json: not an export"),
        (
            '{"version": 2, "measurements": []}',
            r"a\.json has version 2 .*version 1\. Upgrade .*, or export it",
        ),
        ('{"version": 1, "measurements": [3]}', r"a\.json: measurements\[0\]: expected an object"),
        (faulty(seconds="long"), r"a\.json: measurements\[1\]\.seconds: expected float, .* or upgrade pytest-tfperf"),
        (faulty(runs=[], discarded=[]), r"a\.json: measurements\[1\]: no runs or pairs, .*: export it again"),
        (measurement_file.render([interleaved(pairs=())]), r"a\.json: measurements\[0\]: no runs or pairs"),
        (
            measurement_file.render([replace(interleaved(), verdicts=())]),
            r"a\.json: measurements\[0\]: no runs or pairs",
        ),
        (faulty(runs=run_with(windows=[])), r"measurements\[1\]: no runs or pairs, a run without a rate"),
        (
            faulty(discarded=run_with(windows=[{"steps": 1, "seconds": 0}])),
            r"measurements\[1\]: no runs or pairs, a run without a rate",
        ),
        (faulty(throughput=with_error(261.0)), r"measurements\[1\]: .* or a figure that no run gives"),
        (faulty(throughput=with_rate(0.0)), r"measurements\[1\]: .* or a figure that no run gives"),
        (faulty(throughput=with_rate("inf")), r"measurements\[1\]: .* or a figure that no run gives"),
    ],
)
def test_a_faulty_file_is_refused_with_the_place_of_its_fault(text: str, fault: str) -> None:
    with pytest.raises(TfperfError, match=fault):
        measurement_file.parse(text, "a.json")


def test_bytes_that_are_not_json_are_refused() -> None:
    for text in ("\ufffd\ufffd{", "[" * 100_000, '{"version": 1, "measurements": [' + "[]," * 100_000 + "[]]}"):
        with pytest.raises(TfperfError, match=r"^a\.json"):
            measurement_file.parse(text, "a.json")


@settings(max_examples=150)
@given(st.data())
def test_no_mutation_makes_reading_crash(data: st.DataObject) -> None:
    text = TEXT
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        piece = data.draw(st.sampled_from(["0", "-1", "1e308", "1e-308", '"nan"', '"inf"', "null", "[", "}", "9" * 30]))
        text = text[:at] + piece + text[at + data.draw(st.integers(0, 5)) :]
    with suppress(TfperfError):
        measurement_file.parse(text, "a.json")
