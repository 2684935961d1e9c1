"""`--tfperf-inject-slowdown`: a loss on purpose, for tests and demonstrations of the gate."""

from __future__ import annotations

import re

import pytest
from inner import Finished, Project


@pytest.fixture(scope="module")
def slowed(shared: Project) -> Finished:
    shared.write(
        "test_it.py",
        """
        import pytest
        from pytest_tfperf import Workload

        @pytest.mark.cpu
        def test_it(throughput, gpu_topology):
            workload = Workload(model="nets:sleeping", batch_size=4)
            measured = throughput.check(workload, on=gpu_topology.take(1))
            # Never more: no sleep is shorter than it was asked to be.
            assert measured.images_per_sec <= 0.6 * 4 * 50
        """,
    )
    shared.baseline("nets:sleeping-b4-replicated-device", reference=4 * 50)
    return shared.run("--tfperf-inject-slowdown=0.4")


def test_a_loss_of_40_percent_regresses(slowed: Finished) -> None:
    # Five runs show it, or eight where the machine is restless.
    assert re.search(r"\n  confirmed   (5 of 5|7 of 8|8 of 8) fresh workers: ", slowed.cases["test_it"].text)


def test_the_loss_on_purpose_is_announced(slowed: Finished) -> None:
    assert "tfperf: workers lose 40% of their throughput on purpose" in slowed.text
