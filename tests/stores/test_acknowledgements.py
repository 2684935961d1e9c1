"""acknowledged.toml: what is written is read again, and what a person breaks is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.acknowledgements import NAME, read, render, write
from tests.helpers.measurements import acknowledged

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
changes = st.floats(0.001, 0.5).map(lambda change: float(f"{change:.6g}"))


@st.composite
def entries(draw: st.DrawFn) -> Acknowledgement:
    change = draw(changes)
    return Acknowledgement(
        machine=draw(texts),
        test=draw(texts),
        figure=draw(st.sampled_from(["throughput", "peak_memory"])),
        change=-change,
        worst=-max(change, draw(changes)),
        until=draw(st.dates()),
        why=draw(texts),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(known=st.lists(entries(), unique_by=lambda one: one.key))
def test_what_is_written_is_read_again_in_order(known: list[Acknowledgement], tmp_path: Path) -> None:
    write(tmp_path, known)
    assert list(read(tmp_path)) == sorted(known, key=lambda one: one.key)


def test_the_text_does_not_depend_on_the_order() -> None:
    known = [acknowledged(test=test) for test in ("b", "a", "c")]
    assert render(known) == render(known[::-1])


def test_without_a_file_or_a_folder_nothing_is_acknowledged(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == ()


def test_the_last_entry_takes_the_file_with_it(tmp_path: Path) -> None:
    write(tmp_path, [acknowledged()])
    write(tmp_path, [])
    assert list(tmp_path.iterdir()) == []


def test_two_entries_of_one_figure_are_named_with_both_lines(tmp_path: Path) -> None:
    entry = render([acknowledged()]).partition("\n\n")[2]
    (tmp_path / NAME).write_text(f"{entry}\n{entry}")
    with pytest.raises(TfperfError, match=r"line 10: .* throughput box is acknowledged on line 1 already"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("until = 2027-01-15", "until = 2027-13-15", r"no TOML: .*line 9"),
        ("until = 2027-01-15", "until = 2027-01-15T00:00:00", r"line 3: acknowledged.until: expected a date"),
        ("worst = -0.15", "worst = -0.1", r"line 3: acknowledged: change -0.13 and worst -0.1 are no loss"),
        ("why = ", "reason = ", r"line 3: acknowledged: unknown field 'reason'"),
        ("[[acknowledged]]", "[acknowledged]", r"something else than tables \[\[acknowledged\]\]"),
        ("[[acknowledged]]", "<<<<<<< HEAD\n[[acknowledged]]", r"line 3: git's merge of this file is unfinished"),
        ("box", "b\udcffx", "no TOML"),
    ],
)
def test_what_a_person_breaks_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = render([acknowledged()])
    assert old in text
    (tmp_path / NAME).write_bytes(text.replace(old, new).encode(errors="surrogateescape"))
    with pytest.raises(TfperfError, match=says):
        read(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("\ufeff" + render([acknowledged()]))
    assert read(tmp_path) == (acknowledged(),)
