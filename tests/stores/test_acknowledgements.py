"""acknowledged.toml: what is written is read again, and what a person breaks is named with its line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.acknowledgements import NAME, read, render, write
from tests.helpers.measurements import acknowledged

TODAY = datetime.now(UTC).date()
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
topologies = st.sampled_from(["1x1", "1x2"])
changes = st.floats(0.001, 0.5)


@st.composite
def entries(draw: st.DrawFn) -> Acknowledgement:
    change = draw(changes)
    return Acknowledgement(
        machine=draw(texts),
        test=draw(texts),
        workload="resnet50-b64-replicated-device",
        topology=draw(topologies),
        figure=draw(st.sampled_from(["throughput", "loss"])),
        change=-change,
        worst=-min(max(change, draw(changes)), 1.9 * change),
        until=draw(st.dates(max_value=TODAY + timedelta(days=366))),
        why=draw(texts),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(known=st.lists(entries(), unique_by=lambda one: one.key))
def test_what_is_written_is_read_again_in_order(known: list[Acknowledgement], tmp_path: Path) -> None:
    write(tmp_path, known)
    rounded = [replace(one, change=_kept(one.change), worst=_kept(one.worst)) for one in known]
    assert list(read(tmp_path)) == sorted(rounded, key=lambda one: one.key)


def _kept(change: float) -> float:
    """The change with the digits that the file keeps."""
    return float(f"{change:.6g}")


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
    (tmp_path / NAME).write_text(f"version = 1\n{entry}\n{entry}")
    with pytest.raises(TfperfError, match=r"line 13: .* throughput box .* is acknowledged on line 2 already"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("until = 2027-01-15", "until = 2027-13-15", r"no TOML: .*line 12"),
        ("until = 2027-01-15", "until = 2027-01-15T00:00:00", r"line 4: acknowledged.until: expected a date"),
        ("worst = -0.15", "worst = -0.1", r"line 4: acknowledged: change -0.13 and worst -0.1 are no loss"),
        ("why = ", "reason = ", r"line 4: acknowledged: unknown field 'reason'"),
        ("topology = ", "# ", r"line 4: acknowledged: the field 'topology' is missing. Correct it, or write it anew"),
        ("[[acknowledged]]", "[acknowledged]", r"something else than tables \[\[acknowledged\]\]"),
        ("[[acknowledged]]", "<<<<<<< HEAD\n[[acknowledged]]", r"line 4: git's merge of this file is unfinished"),
        ("box", "b\udcffx", "no TOML"),
    ],
)
def test_what_a_person_breaks_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = render([acknowledged()])
    assert old in text
    (tmp_path / NAME).write_bytes(text.replace(old, new).encode(errors="surrogateescape"))
    with pytest.raises(TfperfError, match=says):
        read(tmp_path)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"change": -8.0, "worst": -11.5}, "change -8: write a fraction, -0.08 for 8 % slower"),
        ({"change": -0.08, "worst": -11.5}, "worst -11.5: write a fraction, -0.115 for 11.5 % slower"),
        ({"change": 0.08, "worst": 0.1}, "change 0.08 is no loss of throughput: write -0.08"),
        ({"change": -0.08, "worst": -0.5}, "worst -0.5 is more than 2 times change -0.08"),
        ({"figure": "peak_memory", "change": -1e9, "worst": -1.1e9}, "no loss of peak_memory: write 1e"),
        ({"figure": "Peak Memory"}, "unknown figure 'Peak Memory'. Did you mean 'peak_memory'?"),
        ({"until": date(9999, 12, 31)}, "until 9999-12-31 is more than a year away"),
        ({"until": TODAY + timedelta(days=367)}, "is more than a year away"),
        ({"why": " "}, "why is empty: write the reason"),
        ({"machine": ""}, "machine is empty"),
        ({"topology": "two"}, "topology 'two': write nodes x devices"),
    ],
)
def test_an_entry_that_means_nothing_or_hides_any_loss_is_refused(
    tmp_path: Path, values: dict[str, Any], says: str
) -> None:
    given = {
        "machine": '"box"',
        "test": '"t.py::t"',
        "workload": '"program"',
        "topology": '"1x1"',
        "figure": '"throughput"',
        "why": '"x"',
    }
    given |= {"change": "-0.13", "worst": "-0.15", "until": str(TODAY)}
    given |= {name: json.dumps(value) if isinstance(value, str) else str(value) for name, value in values.items()}
    lines = [f"{name} = {value}" for name, value in given.items()]
    (tmp_path / NAME).write_text("\n".join(["version = 1", "[[acknowledged]]", *lines, ""]))
    with pytest.raises(TfperfError, match=re.escape(says)) as error:
        read(tmp_path)
    assert f"{NAME}, line 2: " in str(error.value)


def test_a_year_away_is_no_more_than_a_year(tmp_path: Path) -> None:
    one = acknowledged(until=TODAY + timedelta(days=366))
    write(tmp_path, [one])
    assert read(tmp_path) == (one,)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("\ufeff" + render([acknowledged()]))
    assert read(tmp_path) == (acknowledged(),)
