"""TFRecords and Examples without TensorFlow; tests/training holds them against TensorFlow's own parser."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.training.tfrecord import NotTFRecords, crc32c, example, features, framed, records

FLOATS = st.floats(width=32, allow_nan=False)
INTS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(*(st.lists(kind, min_size=1, max_size=4) for kind in (st.binary(max_size=300), FLOATS, INTS)))


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (b"", 0)],
)
def test_checksums_are_those_of_rfc_3720(data: bytes, value: int) -> None:
    assert crc32c(data) == value


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_records_come_back_as_they_were_written(payloads: list[bytes]) -> None:
    assert list(records(io.BytesIO(b"".join(map(framed, payloads))))) == payloads


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=5))
def test_an_example_comes_back_as_it_was_written(written: dict[str, list[bytes] | list[float] | list[int]]) -> None:
    assert features(example(written)) == written


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(NotTFRecords):
        list(records(io.BytesIO(data)))
    with suppress(NotTFRecords):
        features(data)


@given(st.data())
def test_a_file_that_is_cut_off_is_refused_and_the_record_named(data: st.DataObject) -> None:
    payloads = data.draw(st.lists(st.binary(max_size=50), min_size=1, max_size=3))
    whole = b"".join(map(framed, payloads))
    last = len(whole) - len(framed(payloads[-1]))
    with pytest.raises(NotTFRecords, match=f"record {len(payloads) - 1} "):
        list(records(io.BytesIO(whole[: data.draw(st.integers(last + 1, len(whole) - 1))])))
