"""Where traces lie, under names that any file system takes."""

from __future__ import annotations

import base64
import errno
import re
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.profile import OpTime, Trace
from pytest_tfperf.features.profiles.plugin import file_name, write_traces


def trace(data: bytes = b"events", host: str = "vm") -> Trace:
    op = OpTime(name="conv", type="Conv2D", seconds=0.1, count=1.0)
    return Trace(host=host, steps=3, ops=(op,), xspace=base64.b64encode(zlib.compress(data)).decode())


# Names


@given(st.text())
def test_any_text_gives_a_name_that_every_file_system_takes(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}", file_name(text))


@given(st.text(), st.text())
def test_different_tests_have_different_names(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


def test_a_readable_name_stays_as_it_is() -> None:
    assert file_name("20261122-185932-b17799") == "20261122-185932-b17799"


@pytest.mark.parametrize("test", ["", "..", "../../etc/passwd", "a/b::c[\0]", "-rf", "é" * 300, "\udcff", "x" * 10_000])
def test_a_hostile_test_id_stays_inside_of_the_folder(tmp_path: Path, test: str) -> None:
    folder = tmp_path / "traces"
    written = write_traces(folder, test, "today", "1-resnet50", [trace()])
    assert written.resolve().parent.parent == folder.resolve()


# Writing


def test_a_trace_lies_where_tensorboard_looks_for_it(tmp_path: Path) -> None:
    written = write_traces(tmp_path, "test_a", "today", "1-resnet50", [trace(b"events")])
    assert written == tmp_path / "test_a" / "today"
    assert (written / "plugins/profile/1-resnet50/vm.xplane.pb").read_bytes() == b"events"


def test_ranks_of_one_host_have_a_file_each(tmp_path: Path) -> None:
    written = write_traces(tmp_path, "test_a", "today", "1-resnet50", [trace(b"one"), trace(b"two")])
    files = sorted(written.rglob("*.pb"))
    assert [(file.name, file.read_bytes()) for file in files] == [
        ("rank0-vm.xplane.pb", b"one"),
        ("rank1-vm.xplane.pb", b"two"),
    ]


def test_a_rank_that_only_lends_its_devices_has_no_file(tmp_path: Path) -> None:
    written = write_traces(tmp_path, "test_a", "today", "1-resnet50", [trace(), replace(trace(), ops=())])
    assert [file.name for file in written.rglob("*.pb")] == ["rank0-vm.xplane.pb"]


def test_what_a_full_disk_cut_off_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_the_disk(path: Path, data: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        write_traces(tmp_path, "test_a", "today", "1-resnet50", [trace()])
    assert list(tmp_path.iterdir()) == []
