"""What a record says that it was made with."""

from __future__ import annotations

from dataclasses import replace

from machines import load

from pytest_tfperf.bench.environment import environment

H200 = load("h200")


def test_what_the_worker_tells_is_kept() -> None:
    assert environment({"tensorflow": "2.21.0"}, H200, 0.0, "")["tensorflow"] == "2.21.0"


def test_the_commit_is_part_of_it_so_that_a_change_shows() -> None:
    assert environment({}, H200, 0.0, "0123456789ab")["commit"] == "0123456789ab"


def test_a_loss_on_purpose_is_told() -> None:
    assert environment({}, H200, 0.1, "")["injected_slowdown"] == "0.1"


def test_what_is_not_known_is_left_out() -> None:
    found = environment({}, replace(H200, driver_version=""), 0.0, "")
    assert not {"commit", "driver", "injected_slowdown"} & found.keys()


def test_values_hold_no_blanks() -> None:
    assert environment({}, replace(H200, driver_version="580 open"), 0.0, "")["driver"] == "580_open"
