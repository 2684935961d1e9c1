"""A topology as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_tfperf.features.topology import render
from tests.helpers.machines import load

DGX1, H200 = load("dgx1-p100"), load("h200")


def test_the_matrix_is_nvidia_smis():
    lines = render(DGX1)
    start = next(i for i, line in enumerate(lines) if line.startswith("      GPU0"))
    rows = [line.split() for line in lines[start : start + 9]]
    assert rows[0] == [*(f"GPU{i}" for i in range(8)), "CPU", "Affinity", "NUMA", "Affinity"]
    assert rows[1] == ["GPU0", "X", "NV1", "NV1", "NV1", "NV1", "SYS", "SYS", "SYS", "0-19,40-59", "0"]
    assert rows[8] == ["GPU7", "SYS", "SYS", "SYS", "NV1", "NV1", "NV1", "NV1", "X", "20-39,60-79", "1"]


@pytest.mark.parametrize(
    "fact",
    [
        *(f"\n  {word:<4} = " for word in ["X", "SYS", "NODE", "PHB", "PXB", "PIX", "NV#"]),
        "8x-tesla-p100-sxm2-16gb-nvlink-xeon-e5-2698-v4-80c",
        "384.66, CUDA 9.0",
        "dgx-1: Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz, 80 of 80 cores usable (40 physical), 512 GiB",
        "compute 6.0  10.6 TFLOP/s FP32  PCIe 3 x16  GPU-00000100-0000-4000-8000-000000000000",
    ],
)
def test_legend_machine_driver_host_and_gpus_are_shown(fact):
    assert fact in "\n".join(render(DGX1))


def test_unknown_facts_are_not_made_up():
    bare = replace(H200.gpus[0], memory_bytes=None, compute_capability=None, cores=None, pcie_width=None)
    assert "? GiB  compute ?  ? TFLOP/s FP32  PCIe 5 x?" in "\n".join(render(replace(H200, gpus=(bare,))))
    assert "\n".join(render(load("4x-gtx-1080-ti"))).count("N/A") == 4


def test_without_gpus_the_reason_replaces_the_matrix():
    text = "\n".join(render(load("no-gpu")))
    assert "GPUs     none: there is no libnvidia-ml.so.1: no NVIDIA driver is installed" in text
    assert "Legend" not in text


def test_notes_are_shown():
    assert "note     GPU 3 is lost" in render(replace(H200, notes=("GPU 3 is lost",)))


def test_mig_devices_of_one_gpu_are_numbered():
    machine = load("mixed")
    mig = tuple(replace(gpu, index=0, mig_profile="1g.18gb") for gpu in machine.gpus)
    assert "GPU0.0  GPU0.1  GPU0.2" in "\n".join(render(replace(machine, gpus=mig)))
