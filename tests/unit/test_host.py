"""The host, read from file trees laid out as kernels and container runtimes do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_tfperf.hardware.host import read_host

if TYPE_CHECKING:
    from pathlib import Path

CGROUP2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
CGROUP1 = (
    "33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 30 0:30 / /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory\n"
)


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def x86(cpus: int, model: str = "AMD EPYC", threads: int = 1) -> str:
    lines = f"vendor_id\t: AuthenticAMD\nmodel name\t: {model}\nphysical id\t: 0\n"
    return "\n".join(f"processor\t: {i}\n{lines}core id\t\t: {i // threads}\n" for i in range(cpus))


def arm(part: str, cpus: int = 4) -> str:
    return "".join(
        f"processor\t: {i}\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part}\n\n"
        for i in range(cpus)
    )


def host(root: Path, files: dict[str, str], cpus: int = 8):
    return read_host(lay_out(root, {"proc/cpuinfo": x86(cpus)} | files), affinity=range(cpus))


def test_this_machine_is_read_without_an_error():
    assert read_host().usable_cores >= 1


def test_the_model_is_what_the_kernel_writes(tmp_path):
    lay_out(tmp_path, {"proc/cpuinfo": x86(2, "Intel(R) Xeon(R) CPU  E5-2698 v4 @ 2.20GHz")})
    assert read_host(tmp_path).cpu_model == "Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz"


@pytest.mark.parametrize(
    ("part", "name"), [("0xd4f", "Neoverse-V2"), ("0xd0c", "Neoverse-N1"), ("0xfff", "ARM 0x41 0xfff")]
)
def test_an_arm_core_is_named_by_its_part_number(tmp_path, part, name):
    assert read_host(lay_out(tmp_path, {"proc/cpuinfo": arm(part)})).cpu_model == name


def test_an_old_arm_kernels_text_beside_the_cores_is_no_core(tmp_path):
    text = "Processor\t: AArch64 Processor rev 4\n" + arm("0xd08") + "Hardware\t: BCM2835\nModel\t: Raspberry Pi 4\n"
    assert read_host(lay_out(tmp_path, {"proc/cpuinfo": text})).total_cores == 4


def test_big_and_little_cores_are_both_named(tmp_path):
    text = arm("0xd0b", cpus=2) + arm("0xd08", cpus=4)
    assert read_host(lay_out(tmp_path, {"proc/cpuinfo": text})).cpu_model == "Cortex-A72 + Cortex-A76"


def test_physical_cores_leave_out_hardware_threads(tmp_path):
    assert read_host(lay_out(tmp_path, {"proc/cpuinfo": x86(8, threads=2)})).physical_cores == 4


def test_physical_cores_come_from_sysfs_where_cpuinfo_lacks_them(tmp_path):
    topology = {f"sys/devices/system/cpu/cpu{i}/topology/core_id": f"{i // 2}\n" for i in range(4)}
    assert read_host(lay_out(tmp_path, {"proc/cpuinfo": arm("0xd4f")} | topology)).physical_cores == 2


def test_physical_cores_that_nothing_tells_are_unknown(tmp_path):
    assert read_host(lay_out(tmp_path, {"proc/cpuinfo": arm("0xd4f")})).physical_cores is None


def test_affinity_limits_the_usable_cores(tmp_path):
    lay_out(tmp_path, {"proc/cpuinfo": x86(8)})
    assert read_host(tmp_path, affinity={2, 3, 5}).usable_cores == 3


def test_affinity_leaves_the_total_alone(tmp_path):
    lay_out(tmp_path, {"proc/cpuinfo": x86(8)})
    assert read_host(tmp_path, affinity={2}).total_cores == 8


@pytest.mark.parametrize(
    ("quota", "usable"), [("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1), ("max 100000", 8)]
)
def test_a_quota_of_version_2_limits_the_usable_cores(tmp_path, quota, usable):
    files = {
        "proc/self/mountinfo": CGROUP2,
        "proc/self/cgroup": "0::/user/job\n",
        "sys/fs/cgroup/user/job/cpu.max": quota + "\n",
    }
    assert host(tmp_path, files).usable_cores == usable


def test_the_lowest_quota_on_the_way_up_counts(tmp_path):
    files = {
        "proc/self/mountinfo": CGROUP2,
        "proc/self/cgroup": "0::/slice/pod/container\n",
        "sys/fs/cgroup/slice/pod/container/cpu.max": "max 100000\n",
        "sys/fs/cgroup/slice/pod/cpu.max": "300000 100000\n",
        "sys/fs/cgroup/slice/cpu.max": "600000 100000\n",
    }
    assert host(tmp_path, files).usable_cores == 3


def test_a_group_beside_ours_does_not_count(tmp_path):
    files = {
        "proc/self/mountinfo": CGROUP2,
        "proc/self/cgroup": "0::/ours\n",
        "sys/fs/cgroup/theirs/cpu.max": "100000 100000\n",
    }
    assert host(tmp_path, files).usable_cores == 8


@pytest.mark.parametrize(("quota", "usable"), [("400000", 4), ("-1", 8)])
def test_a_quota_of_version_1_limits_the_usable_cores(tmp_path, quota, usable):
    files = {
        "proc/self/mountinfo": CGROUP1,
        "proc/self/cgroup": "5:memory:/\n4:cpu,cpuacct:/docker/1f\n",
        "sys/fs/cgroup/cpu,cpuacct/docker/1f/cpu.cfs_quota_us": quota + "\n",
        "sys/fs/cgroup/cpu,cpuacct/docker/1f/cpu.cfs_period_us": "100000\n",
    }
    assert host(tmp_path, files).usable_cores == usable


def test_a_container_that_sees_its_own_group_as_the_top_is_limited(tmp_path):
    # Docker on version 1: the path is the host's, the mount shows that subtree as its top.
    mount = "33 30 0:29 /docker/1f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
    files = {
        "proc/self/mountinfo": mount,
        "proc/self/cgroup": "4:cpu:/docker/1f/inner\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us": "200000\n",
        "sys/fs/cgroup/cpu/inner/cpu.cfs_period_us": "100000\n",
    }
    assert host(tmp_path, files).usable_cores == 2


def test_a_group_outside_the_namespace_falls_back_on_the_mount(tmp_path):
    files = {
        "proc/self/mountinfo": CGROUP2,
        "proc/self/cgroup": "0::/../../outside\n",
        "sys/fs/cgroup/cpu.max": "200000 100000\n",
    }
    assert host(tmp_path, files).usable_cores == 2


@pytest.mark.parametrize("text", ["", "garbage", "0 0", "-5 100000", "100000", "max", "1e5 100000", "\x00\xff"])
def test_a_quota_that_is_none_limits_nothing(tmp_path, text):
    files = {
        "proc/self/mountinfo": CGROUP2 + "broken line\n 1 2 - cgroup2\n",
        "proc/self/cgroup": "0::/\nbroken\n",
        "sys/fs/cgroup/cpu.max": text,
    }
    assert host(tmp_path, files).usable_cores == 8


def test_memory_is_the_ram(tmp_path):
    assert host(tmp_path, {"proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB\n"}).memory_bytes == 16384 * 1024


@pytest.mark.parametrize(
    ("limit", "expected"), [("8388608", 8 * 2**20), ("max", 16 * 2**20), ("99999999999", 16 * 2**20)]
)
def test_a_lower_memory_limit_of_version_2_counts(tmp_path, limit, expected):
    files = {
        "proc/meminfo": "MemTotal:       16384 kB\n",
        "proc/self/mountinfo": CGROUP2,
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/memory.max": limit + "\n",
    }
    assert host(tmp_path, files).memory_bytes == expected


@pytest.mark.parametrize(("limit", "expected"), [("8388608", 8 * 2**20), ("9223372036854771712", 16 * 2**20)])
def test_a_lower_memory_limit_of_version_1_counts(tmp_path, limit, expected):
    files = {
        "proc/meminfo": "MemTotal:       16384 kB\n",
        "proc/self/mountinfo": CGROUP1,
        "proc/self/cgroup": "5:memory:/job\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": limit + "\n",
    }
    assert host(tmp_path, files).memory_bytes == expected


def test_memory_that_nothing_tells_is_unknown(tmp_path):
    assert host(tmp_path, {}).memory_bytes is None


def test_kernel_and_host_name_are_recorded(tmp_path):
    names = {"proc/sys/kernel/osrelease": "6.1.0-28-amd64\n", "proc/sys/kernel/hostname": "node7\n"}
    assert (host(tmp_path, names).kernel, host(tmp_path, names).hostname) == ("6.1.0-28-amd64", "node7")


def test_an_empty_machine_still_has_a_core(tmp_path):
    assert read_host(tmp_path, affinity=()).usable_cores == 1
