"""Which measured test a command's argument means: the same for `explain`, `ack`, `bisect` and the filters."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.console.measured_test import named, wanted_test
from pytest_tfperf.core.past import Value
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import measurement
from tests.helpers.past_results import changed

RESULT = Value.of(measurement(session="s"))
names = st.from_regex(r"[a-zé_][a-zé0-9_]*", fullmatch=True)
parameters = st.just("") | st.text(st.sampled_from("a:[]/ é-"), max_size=8).map("[{}]".format)
ids = st.tuples(st.lists(names, max_size=2), names, st.lists(names, min_size=1, max_size=3), parameters)


def wanted(text: str, *tests: str) -> str:
    return wanted_test(History(Path("none.sqlite")), [changed(RESULT, test=test) for test in tests], text)[0]


@given(ids, st.lists(ids, max_size=3), st.integers(0, 5))
def test_a_test_is_among_those_that_the_end_of_its_id_names_whatever_its_parameters_hold(
    own: tuple[list[str], str, list[str], str], others: list[tuple[list[str], str, list[str], str]], start: int
) -> None:
    folders, file, chain, of_it = own
    tests = ["/".join([*f, f"{name}.py"]) + "::" + "::".join(c) + p for f, name, c, p in [own, *others]]
    path = [*folders, f"{file}.py"]
    ends = ["::".join(chain[index:]) for index in range(len(chain))]
    ends += ["/".join(path[index:]) + "::" + "::".join(chain) for index in range(len(path))]
    end = ends[start % len(ends)]
    assert tests[0] in named(end + of_it, tests) or end + of_it in tests
    assert tests[0] in named(end, tests) or end in tests


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("test_a", "d/test_x.py::test_a[x::y]"),
        ("test_a[x::y]", "d/test_x.py::test_a[x::y]"),
        ("test_x.py::test_a", "d/test_x.py::test_a[x::y]"),
        ("TestB::test_c", "d/test_x.py::TestB::test_c[a[0]/b ::c]"),
        ("test_c", "d/test_x.py::TestB::test_c[a[0]/b ::c]"),
        ("y", "d[1]/test_x.py::y"),
        ("test_ab", "d/test_x.py::test_ab"),
    ],
)
def test_a_function_is_found_by_its_name_and_not_by_what_parameters_hold(text: str, meant: str) -> None:
    others = ("d/test_x.py::test_ab", "d/test_a.py::test_other", "d[1]/test_x.py::y")
    assert wanted(text, "d/test_x.py::test_a[x::y]", "d/test_x.py::TestB::test_c[a[0]/b ::c]", *others) == meant


def test_a_name_of_several_tests_lists_them_all() -> None:
    tests = [f"test_x.py::test_a[{number}::b]" for number in range(12)]
    with pytest.raises(TfperfError, match="'test_a' is a part of 12 tests") as error:
        wanted("test_a", *tests, "test_x.py::test_ab")
    assert [line.strip() for line in str(error.value).splitlines()[1:13]] == tests
