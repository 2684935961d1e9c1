"""What a test's records become once its body is through."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from measurements import record

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.fixture import ThroughputFixture
from pytest_tfperf.settings import Settings


class PlayedBench:
    """Keeps all rows but those that are too noisy."""

    def save(self, one: Measurement) -> str:
        if one.workload.batch_size == 1:
            raise MeasurementError("its runs differ too much")
        return one.workload.id


def test_a_row_that_is_too_noisy_keeps_no_other_from_being_saved() -> None:
    noisy, good = (replace(record(), workload=Workload(model="trivial", batch_size=size)) for size in (1, 2))
    changes: list[Any] = []
    session = SimpleNamespace(settings=Settings(), changes=changes, bench=PlayedBench())
    fixture = ThroughputFixture(cast(Any, session), "a.py::test", records=[], _to_save=[noisy, good])
    with pytest.raises(MeasurementError, match="differ too much"):
        fixture.conclude(print)
    assert changes == [good.workload.id]
