"""A session of a user's own program on the stand-in's GPU, which is cold at first, and whose log has warnings."""

from __future__ import annotations

import pytest

from tests.helpers.inner import Project
from tests.helpers.stand_in_libraries import NvmlScenario

# Each run is warmer than the last, up to 60 C, and the first is 3 % faster. It tells of its starts, and warns.
PROGRAM = """
    import os, pathlib, time

    file = pathlib.Path(os.environ["FAKE_NVML"])
    starts = pathlib.Path("starts")
    number = len(starts.read_text()) + 1 if starts.exists() else 1
    starts.write_text("x" * number)
    print("UserWarning: CUDA initialization: the NVIDIA driver is too old", flush=True)
    for celsius in (30, 30 + 10 * min(number, 3)):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("gpu.0.temperature.0 ")]
        file.with_name("hot").write_text("\\n".join([*lines, f"gpu.0.temperature.0 {celsius}"]) + "\\n")
        file.with_name("hot").replace(file)
        for step in range(30):
            time.sleep(0.05)
            print(f"{(103 if number == 1 else 100) + step % 3 / 100} images/s", flush=True)
"""
TESTS = """
    import sys
    import pytest
    from pytest_tfperf import Command, Reads

    @pytest.mark.gpu
    def test_program(throughput, gpu_topology):
        on = gpu_topology.take(1)
        reads = Reads(pattern="(?P<rate>[0-9.]+) images/s")
        program = Command([sys.executable, "train.py"], name="loop", unit="images/s", reads=reads)
        throughput.check(program, on=on, steps=45)
"""


@pytest.mark.slow
def test_the_first_runs_on_a_cold_gpu_are_thrown_away_and_warnings_of_the_log_are_recorded(
    project: Project, nvml_scenario: NvmlScenario
) -> None:
    nvml_scenario("h100_570")
    project.write("train.py", PROGRAM)
    project.write("test_it.py", TESTS)
    done = project.run("-o", "tfperf_gpu_warmup=60", "-rA")
    assert done.status == 0, done.text
    measured = project.measured("test_program")
    starts = len((project.folder / "starts").read_text())
    assert (starts, measured.throughput.examples_per_sec) == (4, pytest.approx(100.0, rel=0.001))
    assert "GPUs were warmed up from 30 to 60 C" in done.text
    assert measured.environment["log_warnings"] == "no_cuda"
