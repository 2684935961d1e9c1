"""What each destination of documents does, as checks of one that is empty."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.sharing.destination import Destination

Opened = Callable[[], Destination]
"""Opens the place once more, as another session does."""

NAME: Final = "v1/box/2026-11/monday.json.gz"
BAD_NAMES: Final = ("../outside", "v1/../../outside", "/etc/outside", "", "v1/a\0b", "v1/a\nb", f"v1/{'a' * 600}")


def _has_no_names(opened: Opened) -> None:
    place = opened()
    assert (list(place.list()), list(place.get([NAME]))) == ([], [])


def _gives_what_was_put(opened: Opened) -> None:
    place = opened()
    noise = random.Random(1)
    documents = {f"v1/box/2026-11/{n}.json.gz": noise.randbytes(noise.choice([1, 6_000])) for n in range(250)}
    documents[NAME] = noise.randbytes(1_500_000)
    place.put(documents)
    assert sorted(place.list()) == sorted(documents)
    assert list(place.get([*documents])) == [*documents.items()]


def _lists_by_prefix(opened: Opened) -> None:
    place = opened()
    names = [f"v1/{machine}/{month}/s.json.gz" for machine in ("a_b", "axb", "a%b") for month in ("2026-01", "2026-11")]
    place.put(dict.fromkeys([*names, "v2/later"], b"x"))
    assert sorted(place.list()) == sorted(names)
    assert sorted(place.list("v1/a_b/")) == names[:2]
    assert sorted(place.list("v1/a_b/2026-1")) == names[1:2]
    assert list(place.list("v1/nobody/")) == []


def _leaves_a_name_that_exists(opened: Opened) -> None:
    place = opened()
    place.put({NAME: b"first"})
    place.put({NAME: b"second", f"{NAME}2": b"new"})
    assert dict(place.get([NAME, f"{NAME}2"])) == {NAME: b"first", f"{NAME}2": b"new"}


def _leaves_out_what_is_gone(opened: Opened) -> None:
    place = opened()
    place.put({NAME: b"x"})
    assert list(place.get(["v1/box/gone", *BAD_NAMES, NAME, "v1"])) == [(NAME, b"x")]


def _refuses_names_that_lead_out(opened: Opened) -> None:
    place = opened()
    for name in BAD_NAMES:
        with pytest.raises(TfperfError, match="can't be the name of a session's document"):
            place.put({NAME: b"x", name: b"x"})
    assert list(place.list()) == []


def _loses_nothing_of_ten_writers(opened: Opened) -> None:
    place = opened()
    shared = [f"v1/shared/{n}" for n in range(10)]
    own = [f"v1/own/{writer}" for writer in range(10)]
    with ThreadPoolExecutor(10) as writers:
        list(writers.map(lambda writer: opened().put(dict.fromkeys([*shared, own[writer]], b"x")), range(10)))
    assert dict(place.get([*shared, *own])) == dict.fromkeys([*shared, *own], b"x")
    assert sorted(place.list()) == sorted([*shared, *own])


CONTRACT: Final[tuple[Callable[[Opened], None], ...]] = (
    _has_no_names,
    _gives_what_was_put,
    _lists_by_prefix,
    _leaves_a_name_that_exists,
    _leaves_out_what_is_gone,
    _refuses_names_that_lead_out,
    _loses_nothing_of_ten_writers,
)


def name_of(check: object) -> str:
    """A check's name as a test's id."""
    return getattr(check, "__name__", "").strip("_")
