"""What each option's text is taken for; where options are given is tested with pytest itself."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.settings import Settings

PARSERS = {f.name: f.metadata["parse"] for f in fields(Settings) if "parse" in f.metadata}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tolerance", "0.05", 0.05),
        ("steps", "1", 1),
        ("warmup_steps", "0", 0),
        ("runs", "5", 5),
        ("timeout", "0.5", 0.5),
        ("inject_slowdown", "0", 0.0),
        ("strict", "Yes", True),
        ("strict", "off", False),
        ("worker", "fresh", "fresh"),
    ],
)
def test_a_good_value_is_taken(name: str, text: str, value: Any) -> None:
    assert PARSERS[name](text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tolerance", "0"),
        ("tolerance", "1"),
        ("tolerance", "5"),
        ("tolerance", "nan"),
        ("tolerance", "5 %"),
        ("steps", "0"),
        ("steps", "1.5"),
        ("warmup_steps", "-1"),
        ("runs", "4"),
        ("timeout", "0"),
        ("timeout", "nan"),
        ("timeout", "inf"),
        ("inject_slowdown", "1"),
        ("inject_slowdown", "-0.1"),
        ("inject_slowdown", "nan"),
        ("strict", "maybe"),
        ("strict", ""),
        ("worker", "spoon"),
    ],
)
def test_a_bad_value_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        PARSERS[name](text)


@given(st.sampled_from(sorted(PARSERS)), st.text())
def test_any_text_is_taken_or_refused(name: str, text: str) -> None:
    with suppress(ValueError):
        PARSERS[name](text)
