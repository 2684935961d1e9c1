"""Texts from files and pipes, in the encodings and wrappings in which logs come."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.files import STDIN, decode, read

TEXT = "1\timages/sec: 50.0 +/- 0.0 (jitter = 0.0)\t7.5\n"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(TEXT.encode(), id="UTF-8"),
        pytest.param(TEXT.encode("utf-8-sig"), id="UTF-8 with a mark"),
        pytest.param(TEXT.encode("utf-16"), id="UTF-16"),
        pytest.param(b"\xfe\xff" + TEXT.encode("utf-16-be"), id="UTF-16, big end first"),
        pytest.param(gzip.compress(TEXT.encode()), id="gzip"),
        pytest.param(gzip.compress(TEXT[:9].encode()) + gzip.compress(TEXT[9:].encode()), id="joined gzip files"),
        pytest.param(gzip.compress(TEXT.encode("utf-16")), id="gzip of UTF-16"),
    ],
)
def test_a_text_is_read_in_each_encoding(data: bytes) -> None:
    assert decode(data, "a.log") == TEXT


def test_bytes_that_are_no_text_do_not_hide_the_rest() -> None:
    assert decode(b"\xff\xfe progress \x80\n" + TEXT.encode(), "a.log").endswith(TEXT)


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (gzip.compress(TEXT.encode())[:-9], "a.log is a damaged or cut off gzip file"),
        (b"\x1f\x8b" + TEXT.encode(), "a.log is a damaged or cut off gzip file"),
        (lzma.compress(TEXT.encode()), "a.log is compressed with xz. Unpack it first: xzcat FILE | tfperf replay -"),
        (bz2.compress(TEXT.encode()), "a.log is compressed with bzip2"),
        (gzip.compress(bytes(2**20)) * 257, "a.log unpacks to more than 256 MiB. If it is to be so long, unpack it"),
    ],
    ids=["cut off", "damaged", "xz", "bzip2", "a bomb"],
)
def test_what_can_not_be_unpacked_is_named(data: bytes, fact: str) -> None:
    with pytest.raises(TfperfError) as error:
        decode(data, "a.log")
    assert fact in str(error.value)


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x1f\x8b", b"\xff\xfe", gzip.compress(TEXT.encode())[:20]]))
def test_no_bytes_crash_the_reader(data: bytes, head: bytes) -> None:
    with suppress(TfperfError):
        assert isinstance(decode(head + data, "a.log"), str)


@pytest.mark.parametrize(
    ("name", "fact"),
    [("none.log", "No such file"), ("", "Is a directory"), ("x" * 300, "File name too long")],
    ids=["missing", "a folder", "a name that is too long"],
)
def test_what_can_not_be_read_is_a_clear_error(tmp_path: Path, name: str, fact: str) -> None:
    with pytest.raises(TfperfError, match=rf"can't be read: {fact}.*\. Give the path of a log or an export"):
        read(tmp_path / name)


def test_a_pipe_is_read_once_and_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[TEXT * 2000])
    writer.start()
    assert read(pipe) == TEXT * 2000
    writer.join()


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert read(STDIN) == TEXT
