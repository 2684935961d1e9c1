"""What others wrote: a true text is decoded as json does, and a bomb is refused before it takes memory."""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.plain_json import MOST_BYTES, build, from_json, plain, unzipped
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry
from pytest_tfperf.errors import TfperfError
from tests.helpers.measurements import measurement, run
from tests.helpers.patience import running

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_a_text_of_any_values_is_decoded_as_json_does(value: Any) -> None:
    text = json.dumps(value)
    assert from_json(text) == from_json(text.encode()) == json.loads(text)


def test_twenty_minutes_of_the_shortest_windows_is_decoded() -> None:
    # No true text has more values for its length: numbers of few digits, no losses, and no blanks, as jq writes it.
    windows = measurement(runs=(run((0.15,) * 8_000),))
    text = json.dumps(plain(windows), separators=(",", ":"))
    assert build(Measurement, from_json(text), "it") == windows


def test_telemetry_of_eight_gpus_is_decoded() -> None:
    gpus = tuple(GpuTelemetry(uuid=f"GPU-{n}", temperature_celsius_max=60, throttled_fractions={}) for n in range(8))
    polled = measurement(runs=(run(polls=(Telemetry(seconds=1.0, gpus=gpus),) * 600),))
    assert build(Measurement, from_json(json.dumps(plain(polled))), "it") == polled


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" + "[]," * 100_000 + "0]", "200,001 values in 300,003 bytes are no measurements"),
        ("[" + "{}," * 100_000 + "0]", "200,001 values in 300,003 bytes are no measurements"),
        ("[" + "1," * 100_000 + "0]", "100,001 values in 200,003 bytes are no measurements"),
        ('{"a":' * 15_000 + "0" + "}" * 15_000, "nested too deeply"),
        ("9" * 30, "a whole number has 30 digits"),
        ("9" * 5_000, "a whole number has 5000 digits"),
        ("", "Expecting value"),
        (b"\xff", "can't decode"),
    ],
    ids=["lists", "objects", "numbers", "nesting", "a long number", "a longer number", "nothing", "no text"],
)
def test_a_text_that_would_take_much_more_memory_than_its_length_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        from_json(text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (zlib.compress(bytes(MOST_BYTES + 1)), "it decompresses to more than 32 MiB"),
        (zlib.compress(b"x" * 1000)[:-5], "it is cut off"),
        (b"", "it is cut off"),
        (b"x", "it is cut off"),
        (b"xxxxxxxx", "incorrect header check"),
    ],
    ids=["a bomb", "cut off", "empty", "a byte", "damaged"],
)
def test_what_can_not_be_decompressed_in_bounds_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        unzipped(data)


@given(st.binary(max_size=200))
def test_what_zlib_compressed_comes_back(data: bytes) -> None:
    assert unzipped(zlib.compress(data), len(data)) == data


def test_a_bomb_takes_the_memory_that_a_true_text_may() -> None:
    # In a process of its own, because a process's peak never falls.
    program = """
import resource, sys, zlib
from pytest_tfperf.core.plain_json import unzipped
press = zlib.compressobj(1)
bomb = b"".join(press.compress(bytes(2**20)) for _ in range(512)) + press.flush()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    unzipped(bomb)
except ValueError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    with running(program) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) < 4 * MOST_BYTES / 1024


@pytest.mark.parametrize("value", [["x"] * 1_000_000, "x" * 10_000_000], ids=["long", "a long text"])
def test_an_error_shows_the_begin_of_a_value(value: object) -> None:
    with pytest.raises(TfperfError) as refused:
        build(Measurement, {**plain(measurement()), "seconds": value}, "it")
    assert len(str(refused.value)) < 200


def test_an_error_shows_a_value_that_is_nested_as_deep_as_can_be() -> None:
    deep: Any = 0
    for _ in range(sys.getrecursionlimit() * 10):
        deep = [deep]
    with pytest.raises(TfperfError, match=r"it\.seconds: expected float, found \[\[\["):
        build(Measurement, {**plain(measurement()), "seconds": deep}, "it")
