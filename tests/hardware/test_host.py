"""The host: CPU model, what affinity and control groups leave, and how it is set up."""

from __future__ import annotations

import platform
from pathlib import Path

import psutil
import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.exit_status import EXIT_USAGE
from pytest_tfperf.core.topology import host_part
from pytest_tfperf.hardware.host import cpu_model, host_facts, read_host


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cores(root: Path, files: dict[str, str]) -> int:
    """Usable cores of a host with these control groups, whose affinity leaves 8."""
    return read_host(lay_out(root, files), affinity=range(8)).usable_cores


def test_this_machine_is_read():
    host = read_host()
    assert 1 <= host.usable_cores <= host.total_cores
    assert host.cpu_model
    assert host.memory_bytes > 2**20
    assert (host.kernel, host.hostname) == (platform.release(), platform.node())


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel name\t: Xeon(R) CPU  E5-2698 v4\ncpu MHz\t: 1\n", "Xeon(R) CPU E5-2698 v4"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t: 2\n", "POWER9, altivec supported"),
    ],
)
def test_the_model_is_what_the_kernel_writes(cpuinfo, model):
    assert cpu_model(cpuinfo) == model


@pytest.mark.parametrize(
    ("brand", "tells"),
    [
        ("AMD EPYC", False),
        ("AMD EPYC Processor (with IBPB)", False),
        ("Intel(R) Xeon(R) Processor", False),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", False),
        ("Common KVM processor", False),
        ("AMD EPYC 7763 64-Core Processor", True),
        ("AMD EPYC-Milan Processor", True),
        ("Intel Xeon Processor (Skylake, IBRS)", True),
        ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", True),
        ("Intel(R) Core(TM) i9-7900X CPU @ 3.30GHz", True),
    ],
)
def test_family_and_model_are_part_of_a_model_whose_brand_does_not_tell_the_generation(brand, tells):
    models = [
        cpu_model(
            f"vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: {number}\nmodel name\t: {brand}\nstepping\t: 1\n"
        )
        for number in (1, 17)
    ]
    assert models == ([brand] * 2 if tells else [f"{brand} family 25 model {number}" for number in (1, 17)])
    assert (host_part(models[0], 2) == host_part(models[1], 2)) is tells


def test_on_arm_lscpu_names_the_model(tmp_path, monkeypatch):
    (tmp_path / "lscpu").write_text('#!/bin/sh\necho "Architecture: aarch64"\necho "  Model name:  Neoverse-V2"\n')
    (tmp_path / "lscpu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert cpu_model("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n") == "Neoverse-V2"


def test_without_any_name_the_architecture_stands_for_the_model(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert cpu_model("") == (platform.processor() or platform.machine())


@pytest.mark.parametrize(
    ("quota", "usable"),
    [
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("1600000 100000", 8),
        ("max 100000", 8),
        ("garbage", 8),
    ],
)
def test_a_quota_of_version_2_limits_the_usable_cores(tmp_path, quota, usable):
    group = {"proc/self/cgroup": "0::/user/job\nbroken\n", "sys/fs/cgroup/user/job/cpu.max": quota + "\n"}
    assert cores(tmp_path, group) == usable


@pytest.mark.parametrize(("quota", "usable"), [("400000", 4), ("-1", 8)])
def test_a_quota_of_version_1_limits_the_usable_cores(tmp_path, quota, usable):
    files = {
        "proc/self/cgroup": "5:memory:/\n4:cpu,cpuacct:/docker/1f\n0::/\n",
        "sys/fs/cgroup/cpu/docker/1f/cpu.cfs_quota_us": quota + "\n",
        "sys/fs/cgroup/cpu/docker/1f/cpu.cfs_period_us": "100000\n",
    }
    assert cores(tmp_path, files) == usable


def test_the_lowest_quota_on_the_way_up_counts_and_a_neighbours_does_not(tmp_path):
    files = {
        "proc/self/cgroup": "0::/slice/pod/container\n",
        "sys/fs/cgroup/slice/pod/container/cpu.max": "max 100000\n",
        "sys/fs/cgroup/slice/pod/cpu.max": "300000 100000\n",
        "sys/fs/cgroup/slice/cpu.max": "600000 100000\n",
        "sys/fs/cgroup/slice/neighbour/cpu.max": "100000 100000\n",
    }
    assert cores(tmp_path, files) == 3


@pytest.mark.parametrize("path", ["/../../outside", "/docker/1f"])
def test_a_container_whose_group_is_the_mounts_top_is_limited(tmp_path, path):
    files = {"proc/self/cgroup": f"0::{path}\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}
    assert cores(tmp_path, files) == 2


@pytest.mark.parametrize(
    ("file", "limit", "limited"),
    [
        ("memory.max", "8388608", True),
        ("memory.max", "max", False),
        ("memory/memory.limit_in_bytes", "8388608", True),
        ("memory/memory.limit_in_bytes", "9223372036854771712", False),
    ],
)
def test_a_lower_memory_limit_of_either_version_counts(tmp_path, file, limit, limited):
    groups = "5:memory:/\n" if "/" in file else "0::/\n"
    lay_out(tmp_path, {"proc/self/cgroup": groups, f"sys/fs/cgroup/{file}": limit + "\n"})
    assert (read_host(tmp_path).memory_bytes == 8 * 2**20) == limited


def test_the_hosts_setup_is_given_where_known(tmp_path):
    cpu = "sys/devices/system/cpu"
    lay_out(
        tmp_path,
        {
            f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{cpu}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/intel_pstate/no_turbo": "1\n",
        },
    )
    setup = {"governor": "performance+powersave", "turbo": "off"}
    assert host_facts(tmp_path) == {"kernel": platform.release(), **setup}
    assert list(host_facts(tmp_path / "reports nothing")) == ["kernel"]


# A systemd unit with ProcSubset=pid, or a container without /proc.


@pytest.mark.parametrize("command", ["topology", "doctor"])
def test_without_proc_a_command_refuses_in_a_line(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    assert cli.main([command]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert f"{tmp_path}/meminfo can't be read (No such file or directory), and without it no work of others" in said
    assert said.count("\n") == 1


def test_without_proc_a_session_is_a_usage_error(pytester):
    pytester.makepyfile("import pytest\n@pytest.mark.cpu\ndef test_it(throughput): pass")
    pytester.makeconftest(f"import psutil\npsutil.PROCFS_PATH = {str(pytester.path)!r}")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    result.stderr.fnmatch_lines(["*meminfo can't be read*Mount /proc, and all of it*"])
