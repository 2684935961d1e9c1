"""What a record says that it was made with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_tfperf.bench.bench import environment
from tests.helpers.machines import load

H200 = load("h200")


def test_worker_driver_commit_and_a_slowdown_on_purpose_are_recorded_without_blanks() -> None:
    found = environment({"tensorflow": "2.21.0"}, replace(H200, driver_version="580 open"), 0.1, "0123456789ab")
    recorded = {"tensorflow": "2.21.0", "driver": "580_open", "commit": "0123456789ab", "injected_slowdown": "0.1"}
    assert found | recorded == found


def test_what_is_not_known_is_left_out() -> None:
    found = environment({}, replace(H200, driver_version=""), 0.0, "")
    assert not {"commit", "driver", "injected_slowdown"} & found.keys()


@pytest.mark.parametrize(("gpus", "links"), [(1, None), (2, "NV1"), (8, "SYS")])
def test_the_slowest_link_between_gpus_is_recorded(gpus: int, links: str | None) -> None:
    assert environment({}, load("dgx1-p100").take(gpus), 0.0, "").get("gpu_links") == links
