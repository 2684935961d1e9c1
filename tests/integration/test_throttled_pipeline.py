"""A run that waits for its input reads the input's own rate, whether it comes evenly or in files."""

from __future__ import annotations

import re

import pytest
from inner import Project

TESTS = """
    import time

    import pytest
    from pytest_tfperf import Workload
    from pytest_tfperf.bench import windows

    def measure(throughput, gpu_topology):
        workload = Workload(model="nets:tiny", batch_size=4, input_pipeline="nets:buffered")
        return throughput.measure(workload, on=gpu_topology.take(1), warmup_steps=30).images_per_sec

    def take(queue):
        steps = queue._asked.popleft()
        time.sleep(0.2)
        queue._run.request(steps)
        return queue._run.receive()

    @pytest.mark.cpu
    class TestOnCpus:
        def test_it(self, throughput, gpu_topology):
            print("back to back:", measure(throughput, gpu_topology))

        def test_idling(self, throughput, gpu_topology, monkeypatch):
            "What the driver must not do: ask for a window after it has read the last one, and dawdle before that."
            monkeypatch.setattr(windows._Queue, "ask", lambda queue, steps: queue._asked.append(steps))
            monkeypatch.setattr(windows._Queue, "take", take)
            print("idling:", measure(throughput, gpu_topology))

        def test_in_files(self, throughput, gpu_topology):
            workload = Workload(model="nets:tiny", batch_size=4, input_pipeline="nets:in_files")
            measured = throughput.measure(workload, on=gpu_topology.take(1), steps=200, warmup_steps=30)
            print("in files:", measured.images_per_sec)
"""


@pytest.fixture(scope="module")
def images_per_sec(shared: Project) -> dict[str, float]:
    """By how the driver asks for its windows."""
    shared.write("test_it.py", TESTS)
    finished = shared.run("-s")
    found = re.findall(r"(back to back|idling|in files): ([\d.]+)", finished.text)
    assert len(found) == 3, finished.text
    return {how: float(images) for how, images in found}


def test_a_driver_that_idled_between_windows_would_read_far_too_fast(images_per_sec: dict[str, float]) -> None:
    # Twenty times or more where nothing else runs; each of the two is far off on a machine that stalls.
    assert images_per_sec["idling"] > 3 * images_per_sec["back to back"]


def test_files_that_are_read_in_one_piece_are_measured_at_their_own_rate(images_per_sec: dict[str, float]) -> None:
    # 320 images/s is all that it can give, on any machine; between two files it is ten times that.
    assert images_per_sec["in files"] < 2 * 320
