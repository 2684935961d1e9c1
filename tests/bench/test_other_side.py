"""The other side of a session's checks: what it refuses, what starts its workers, and its way through a file."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.bench.comparing import OtherSide, State
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import NotCompared, TfperfError
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from tests.helpers.measurements import WORKLOAD, command

TEST = "a.py::test"
OTHER_PYTHON = OtherSide(
    a=State(title="/other/python", python="/other/python"), b=State(title="this Python"), announcement=()
)
BASE = Checkout(repository=Path("/r"), folder=Path("/c/1"), name="main (1a2b)", beside=Path("/c"))
OTHER_CODE = OtherSide(
    a=State(title=BASE.name, checkout=BASE, facts={"commit": "1a2b"}),
    b=State(title="this checkout", checkout=replace(BASE, folder=BASE.repository)),
    announcement=("each check compares this checkout (b) with main (a)",),
    terms=Terms(tolerance=Tolerance(-0.05, None)),
    lacking={"new/b.py::test": "new"},
)


def test_a_program_that_would_run_with_the_same_packages_on_both_sides_is_refused() -> None:
    with pytest.raises(TfperfError, match=r"train runs with the same packages on both sides: /other/python \(a\) and"):
        OTHER_PYTHON.refuse(command(argv=("train",)), TEST)


@pytest.mark.parametrize(
    ("other", "subject"),
    [
        (OTHER_PYTHON, WORKLOAD),
        (OTHER_PYTHON, command(argv=(sys.executable, "train.py"))),
        (OTHER_CODE, command(argv=("train",))),
    ],
)
def test_what_code_or_packages_can_change_is_compared(other: OtherSide, subject: Any) -> None:
    other.refuse(subject, TEST)


def test_a_test_whose_folder_the_other_side_lacks_is_new() -> None:
    with pytest.raises(NotCompared, match=r"NEW: main \(1a2b\) has no folder new/"):
        OTHER_CODE.refuse(WORKLOAD, "new/b.py::test")


def test_it_is_the_same_after_a_way_through_a_file() -> None:
    assert build(OtherSide, json.loads(json.dumps(plain(OTHER_CODE))), "step.json") == OTHER_CODE


def test_only_what_differs_from_this_python_and_the_current_code_gets_a_launcher_of_its_own() -> None:
    launched: list[Any] = []
    here: Any = object()

    def launch(interpreter: Any) -> Any:
        launched.append(interpreter)
        return interpreter

    assert OTHER_PYTHON.launchers(here, launch) == (launched[0], here)
    a, b = OTHER_CODE.launchers(here, launch)
    assert isinstance(a, CheckoutLauncher)
    assert isinstance(b, CheckoutLauncher)
    assert [(one.python, dict(one.moved)) for one in launched] == [
        ("/other/python", {}),
        (sys.executable, {Path("/r"): Path("/c/1")}),
    ]
