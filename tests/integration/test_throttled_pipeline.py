"""A run that waits for its input reads the input's own rate: no buffer fills between windows that run back to back."""

from __future__ import annotations

import re

from inner import Project

BATCHES_PER_SEC = 50
BATCH = 4

TESTS = f"""
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    def test_it(throughput, gpu_topology):
        workload = Workload(model="nets:tiny", batch_size={BATCH}, input_pipeline="nets:buffered")
        measured = throughput.measure(workload, on=gpu_topology.take(1), steps=40, warmup_steps=40)
        print("measured", measured.images_per_sec)
"""

# What the driver must not do: ask for a window after it has read the last one, and dawdle before that.
IDLING = """
    import time
    from pytest_tfperf import windows

    def take(queue):
        steps = queue._asked.popleft()
        time.sleep(0.2)
        queue._run.request(steps)
        return queue._run.receive()

    windows._Queue.ask = lambda queue, steps: queue._asked.append(steps)
    windows._Queue.take = take
"""


def measured(project: Project) -> float:
    """Batches a second."""
    project.write("test_it.py", TESTS)
    finished = project.run("-s")
    found = re.search(r"measured ([\d.]+)", finished.text)
    assert found, finished.text
    return float(found[1]) / BATCH


def test_a_throttled_pipeline_is_measured_at_its_own_rate(project: Project) -> None:
    # Never faster; a busy machine may make it slower.
    assert 0.8 * BATCHES_PER_SEC < measured(project) < 1.03 * BATCHES_PER_SEC


def test_a_driver_that_idled_between_windows_would_read_too_fast(project: Project) -> None:
    project.write("conftest.py", IDLING)
    assert measured(project) > 1.5 * BATCHES_PER_SEC
