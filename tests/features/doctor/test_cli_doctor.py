"""`tfperf doctor`: what it finds of hosts and GPUs that tests describe, and what it tells the caller."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pynvml
import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.features.doctor import fitness, gpu_fitness
from pytest_tfperf.features.doctor.command import conclusion, render
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level, Observed, host_findings
from pytest_tfperf.features.doctor.gpu_fitness import gpu_findings
from tests.helpers.fake_nvml import FakeNvml, MigDevice, Now, NvLink
from tests.helpers.machines import load

GREEN, USAGE, UNFIT = 0, 4, 8
GIB = 2**30
CPU = "sys/devices/system/cpu"
QUIET = Telemetry(
    seconds=3.0,
    usable_cores=2,
    load_average_mean=0.1,
    other_cpu_fraction_mean=0.01,
    idle_fraction_mean=0.98,
    steal_fraction_mean=0.0,
    swap_bytes_per_sec_mean=0.0,
    memory_available_bytes_min=6 * GIB,
)


def seen(**more: Any) -> Observed:
    """A quiet host of 8 GiB; further names are of its telemetry."""
    own = {name: more.pop(name) for name in ("swap_used_bytes", "busy", "throttled") if name in more}
    return Observed(
        **{"telemetry": replace(QUIET, **more), "memory_bytes": 8 * GIB, "swap_used_bytes": 0, "busy": {}} | own
    )


def of_host(
    subject: Check, root: Path, now: Observed | None = None, files: dict[str, str] | None = None, **more: Any
) -> Finding:
    """What is found of the subject on a host with these files below `root` and CPUs 0 and 1."""
    for name, text in (files or {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    given = {"history": Path("/data/.tfperf"), "free_bytes": 50 * GIB, "root": root, "affinity": (0, 1)}
    (found,) = [one for one in host_findings(now or seen(), **given | more) if one.subject is subject]
    return found


# The host's usage


@pytest.mark.parametrize(
    ("subject", "now", "level"),
    [
        (Check.OTHER_PROCESSES, seen(), Level.OK),
        (Check.OTHER_PROCESSES, seen(other_cpu_fraction_mean=0.1), Level.WARNING),
        (Check.OTHER_PROCESSES, seen(other_cpu_fraction_mean=0.5, idle_fraction_mean=0.0), Level.UNFIT),
        (Check.OTHER_PROCESSES, seen(other_cpu_fraction_mean=0.5, idle_fraction_mean=0.5), Level.WARNING),
        (Check.OTHER_PROCESSES, seen(other_cpu_fraction_mean=None), Level.UNKNOWN),
        (Check.LOAD, seen(load_average_mean=2.5), Level.WARNING),
        (Check.STEAL, seen(steal_fraction_mean=0.05), Level.WARNING),
        (Check.STEAL, seen(steal_fraction_mean=0.5), Level.UNFIT),
        (Check.SWAP, seen(swap_used_bytes=GIB), Level.WARNING),
        (Check.SWAP, seen(swap_bytes_per_sec_mean=1e8), Level.UNFIT),
        (Check.MEMORY, seen(memory_available_bytes_min=GIB // 2), Level.WARNING),
    ],
    ids=[
        *("quiet", "others", "others that take all", "others on idle cores", "unknown CPU time"),
        *("load", "steal", "much steal", "swap used", "swapping", "memory"),
    ],
)
def test_what_the_host_does_has_a_level(subject: Check, now: Observed, level: Level, tmp_path: Path) -> None:
    assert of_host(subject, tmp_path, now).level is level


def test_the_busiest_processes_are_named_with_a_command_that_shows_them(tmp_path: Path) -> None:
    busy = {"make (pid 4711)": 0.4, "cc1 (pid 12)": 0.5}
    now = seen(other_cpu_fraction_mean=0.9, idle_fraction_mean=0.0, other_processes=busy)
    found = of_host(Check.OTHER_PROCESSES, tmp_path, now)
    assert found.fact == "used 90 % of 2 cores; cc1 (pid 12) 50 %; make (pid 4711) 40 %"
    assert found.fix.startswith("ps -fp 12,4711 ")


def test_what_can_not_be_ended_or_explains_nothing_is_not_named(tmp_path: Path) -> None:
    busy = {"init (pid 1)": 0.2, "kdamond.0 (pid 76)": 0.2, "sh (pid 5)": 0.004, "a) b (pid 7)": 0.06}
    files = {
        "proc/76/stat": f"76 (kdamond.0) S 2 0 0 0 -1 {0x00208040} 0 0",
        "proc/7/stat": f"7 (a) b) S 1 7 7 0 -1 {0x00400000} 0 0",
    }
    now = seen(other_cpu_fraction_mean=0.71, idle_fraction_mean=0.0, other_processes=busy)
    found = of_host(Check.OTHER_PROCESSES, tmp_path, now, files)
    assert found.fact.startswith("used 71 % of 2 cores; a) b (pid 7) 6 %; the rest: the kernel, and processes that ")
    assert found.fix.startswith("ps -fp 7 ")


# The host's settings


@pytest.mark.parametrize(
    ("subject", "files", "level", "fix"),
    [
        (Check.GOVERNOR, {}, Level.UNKNOWN, ""),
        (Check.GOVERNOR, {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance"}, Level.OK, ""),
        (Check.GOVERNOR, {f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave"}, Level.WARNING, "-g performance"),
        (Check.TURBO, {f"{CPU}/cpufreq/boost": "0"}, Level.OK, ""),
        (Check.TURBO, {f"{CPU}/cpufreq/boost": "1"}, Level.WARNING, "echo 0 | sudo tee /sys/devices/"),
        (Check.TURBO, {f"{CPU}/intel_pstate/no_turbo": "0"}, Level.WARNING, "echo 1 | sudo tee /sys/devices/"),
        (Check.QUOTA, {}, Level.OK, ""),
        (
            Check.QUOTA,
            {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"},
            Level.WARNING,
            "--cpuset-cpus",
        ),
        (
            Check.QUOTA,
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            Level.WARNING,
            "--cpuset-cpus",
        ),
        (
            Check.QUOTA,
            {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "400000 100000"},
            Level.OK,
            "",
        ),
    ],
    ids=[
        *("no governor", "performance", "powersave", "turbo off", "turbo on", "Intel's turbo on"),
        *("no quota", "quota", "quota of version 1", "quota above the CPUs"),
    ],
)
def test_a_setting_has_a_level_and_a_command(
    subject: Check, files: dict[str, str], level: Level, fix: str, tmp_path: Path
) -> None:
    found = of_host(subject, tmp_path, files=files)
    assert (found.level, fix in found.fix) == (level, True)


def test_a_quota_that_held_the_group_back_is_counted(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}
    fact = of_host(Check.QUOTA, tmp_path, seen(throttled=7), files).fact
    assert fact == "1.5 cores' worth of time on 2 CPUs, held back 7 times while looking"


@pytest.mark.parametrize(
    ("siblings", "busy", "level"),
    [
        ({}, {}, Level.UNKNOWN),
        ({0: "0", 1: "1"}, {}, Level.OK),
        ({0: "0-1", 1: "0-1"}, {0: 1.0, 1: 1.0}, Level.OK),
        ({0: "0,32", 1: "1,33"}, {}, Level.OK),
        ({0: "0,32", 1: "1,33"}, {33: 0.5}, Level.WARNING),
    ],
    ids=["unknown", "none", "ours", "idle", "in use"],
)
def test_only_a_busy_sibling_that_is_not_ours_is_a_warning(
    siblings: dict[int, str], busy: dict[int, float], level: Level, tmp_path: Path
) -> None:
    files = {f"{CPU}/cpu{cpu}/topology/thread_siblings_list": text for cpu, text in siblings.items()}
    assert of_host(Check.SIBLINGS, tmp_path, seen(busy=busy), files).level is level


@pytest.mark.parametrize(
    ("free", "level"), [(50 * GIB, Level.OK), (GIB // 2, Level.WARNING), (2**20, Level.UNFIT)], ids=str
)
def test_a_disk_has_a_level(free: int, level: Level, tmp_path: Path) -> None:
    assert of_host(Check.DISK, tmp_path, free_bytes=free).level is level


MOUNTS = "/dev/sda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\n/dev/sdb /data/my\\040disk xfs rw 0 0\nbroken\n"


@pytest.mark.parametrize(
    ("folder", "level"),
    [("/home/.tfperf", Level.OK), ("/data/.tfperf", Level.WARNING), ("/data/my disk/.tfperf", Level.OK)],
)
def test_a_history_on_a_network_file_system_is_a_warning(folder: str, level: Level, tmp_path: Path) -> None:
    files = {"proc/mounts": MOUNTS}
    assert of_host(Check.FILE_SYSTEM, tmp_path, files=files, history=Path(folder)).level is level


def test_the_file_system_is_that_which_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "lustre").mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path / "lustre")
    files = {"proc/mounts": f"/dev/root / ext4 rw 0 0\nserver {tmp_path}/lustre lustre rw 0 0\n"}
    history = tmp_path / "scratch" / "history.sqlite"
    assert of_host(Check.FILE_SYSTEM, tmp_path, files=files, history=history).level is Level.WARNING


# GPUs, played

DGX = load("dgx1-p100")


@pytest.fixture(autouse=True)
def _named_pids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that sees all GPUs, and whose pids NVML gives."""
    monkeypatch.setattr(gpu_fitness, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(gpu_fitness, "gives_our_pids", lambda root: True)
    monkeypatch.setattr(gpu_fitness, "process_name", "python (pid {})".format)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


IN_ORDER = {
    "GetPersistenceMode": 1,
    "GetPowerManagementDefaultLimit": 300_000,
    "GetApplicationsClock": 1480,
    "GetDefaultApplicationsClock": 1480,
    "GetTotalEccErrors": 0,
}


def answering(**answers: Any) -> dict[str, Any]:
    """What plays NVML's functions, which are named without "nvmlDevice"; all else is in order."""
    return {f"nvmlDevice{name}": lambda *_, value=value: value for name, value in (IN_ORDER | answers).items()}


def gpus(machine: Topology = DGX, *, pids: bool = True, **answers: Any) -> list[Finding]:
    """What is found of the first GPU, which answers like this."""
    now = answers.pop("now", Now())
    one = replace(machine, gpus=machine.gpus[:1], links=((None,),))
    with patch.object(gpu_fitness, "gives_our_pids", return_value=pids):
        return gpu_findings(Path("/none"), FakeNvml(one, now=now, answers=answering(**answers)))


def test_a_gpu_in_order_has_no_warning() -> None:
    found = gpus()
    assert {one.level for one in found} == {Level.OK}
    assert {one.subject for one in found} == {
        *(Check.DRIVER, Check.COMPUTE_MODE, Check.PERSISTENCE, Check.POWER_LIMIT),
        *(Check.GPU_CLOCKS, Check.GPU_PROCESSES, Check.ECC),
    }


@pytest.mark.parametrize(
    ("answers", "subject", "level", "said"),
    [
        ({"GetPersistenceMode": 0}, Check.PERSISTENCE, Level.WARNING, "sudo nvidia-smi -i 0 -pm 1"),
        ({"GetPowerManagementDefaultLimit": 350_000}, Check.POWER_LIMIT, Level.WARNING, "nvidia-smi -i 0 -pl 350"),
        ({"GetApplicationsClock": 1189}, Check.GPU_CLOCKS, Level.WARNING, "sudo nvidia-smi -i 0 -rac"),
        ({"now": Now(celsius=91, reasons=1 << 6)}, Check.GPU_CLOCKS, Level.UNFIT, "check cooling"),
        ({"now": Now(processes={7: 80})}, Check.GPU_PROCESSES, Level.UNFIT, "ps -fp 7 "),
        ({"now": Now(processes={7: 0})}, Check.GPU_PROCESSES, Level.WARNING, "ps -fp 7 "),
        ({"GetTotalEccErrors": 3}, Check.ECC, Level.UNFIT, "-q -d ECC"),
        ({"now": Now(compute_mode=3)}, Check.COMPUTE_MODE, Level.WARNING, "sudo nvidia-smi -i 0 -c DEFAULT"),
        ({"now": Now(compute_mode=2)}, Check.COMPUTE_MODE, Level.UNFIT, "sudo nvidia-smi -i 0 -c DEFAULT"),
    ],
    ids=[
        *("persistence", "power", "clocks", "heat", "process", "idle process", "memory errors"),
        *("exclusive process", "prohibited"),
    ],
)
def test_a_gpu_out_of_order_is_named_with_the_command_that_mends_it(
    answers: dict[str, Any], subject: Check, level: Level, said: str
) -> None:
    (found,) = [one for one in gpus(**answers) if one.level is not Level.OK]
    assert (found.subject, found.level, said in found.fix) == (subject, level, True)


@pytest.mark.parametrize(
    ("utilisation", "level", "said"),
    [
        (0, Level.UNKNOWN, "NVML gives the host's process ids"),
        (40, Level.UNFIT, "40 % in use, by processes that can't"),
    ],
)
def test_processes_are_unknown_in_a_container_but_not_their_use_of_a_gpu(
    utilisation: int, level: Level, said: str
) -> None:
    now = Now(processes={7: 0}, utilisation=utilisation)
    (found,) = [one for one in gpus(pids=False, now=now) if one.subject is Check.GPU_PROCESSES]
    assert (found.level, said in found.fact) == (level, True)


def test_a_driver_without_a_list_of_processes_is_not_called_a_container() -> None:
    without = {"GetComputeRunningProcesses": None, "GetComputeRunningProcesses_v2": None}
    (found,) = [one for one in gpus(**without, now=Now(utilisation=0)) if one.subject is Check.GPU_PROCESSES]
    assert (found.level, "this driver has no list of them" in found.fact) == (Level.UNKNOWN, True)


def test_a_gpu_that_seems_to_be_in_use_only_while_it_wakes_is_not_in_use() -> None:
    looks = iter([100, 0])
    rates = {"nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=next(looks))}
    machine = replace(DGX, gpus=DGX.gpus[:1], links=((None,),))
    nvml = FakeNvml(machine, answers=answering() | rates)
    with patch.object(gpu_fitness, "gives_our_pids", return_value=False):
        found = gpu_findings(Path("/none"), nvml)
    assert [one.level for one in found if one.subject is Check.GPU_PROCESSES] == [Level.UNKNOWN]


@pytest.mark.parametrize(
    ("links", "levels"),
    [((4, 4), [Level.OK, Level.OK]), ((4, 3), [Level.OK, Level.UNFIT]), ((4, 0), [Level.OK]), ((0, 0), [])],
    ids=["all", "one is down", "one GPU has no bridge", "none"],
)
def test_gpus_that_are_linked_to_each_other_have_equally_many_links(
    links: tuple[int, int], levels: list[Level]
) -> None:
    pair = replace(DGX, gpus=DGX.gpus[:2], links=tuple(row[:2] for row in DGX.links[:2]))
    ends = {gpu: [NvLink(pynvml.NVML_NVLINK_DEVICE_TYPE_GPU)] * count for gpu, count in enumerate(links)}
    found = gpu_findings(Path("/none"), FakeNvml(pair, nvlinks=ends, answers=answering()))
    assert [finding.level for finding in found if finding.subject is Check.NVLINKS] == levels


def test_only_gpus_that_a_test_could_take_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    found = gpu_findings(Path("/none"), FakeNvml(DGX, answers=answering()))
    assert [one.fact for one in found if one.subject is Check.GPU_PROCESSES] == [
        f"GPU {index}: no other process computes on it" for index in (2, 3)
    ]


def test_a_gpu_in_mig_mode_is_asked_for_the_processes_of_its_mig_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    mig = {0: [MigDevice("MIG-0", "H200 MIG 1g.18gb", GIB), MigDevice("MIG-1", "H200 MIG 1g.18gb", GIB)]}

    def computing(handle: Any) -> list[Any]:
        return [SimpleNamespace(pid=7)] if handle == (0, 1) else []

    answers = answering() | {"nvmlDeviceGetComputeRunningProcesses": computing}
    nvml = FakeNvml(load("h200"), mig=mig, answers=answers)
    both = gpu_findings(Path("/none"), nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-0")
    ours = gpu_findings(Path("/none"), nvml)
    assert [[one.level for one in found if one.subject is Check.GPU_PROCESSES] for found in (both, ours)] == [
        [Level.OK, Level.WARNING],
        [Level.OK],
    ]


def test_what_a_driver_does_not_report_is_left_out() -> None:
    silent = dict.fromkeys(
        [
            *("GetPersistenceMode", "GetPowerManagementDefaultLimit", "GetApplicationsClock", "GetTotalEccErrors"),
            "GetComputeMode",
        ]
    )
    assert {one.subject for one in gpus(**silent)} == {Check.DRIVER, Check.GPU_CLOCKS, Check.GPU_PROCESSES}


@pytest.mark.parametrize(
    ("code", "level"),
    [(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, Level.ABSENT), (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, Level.UNFIT)],
    ids=["no driver", "not loaded"],
)
def test_only_a_driver_that_fails_makes_a_machine_unfit(code: int, level: Level) -> None:
    (found,) = gpu_findings(Path("/none"), FakeNvml(DGX, broken={"nvmlInit": code}))
    assert (found.subject, found.level) == (Check.DRIVER, level)


def test_a_driver_that_does_not_answer_makes_a_machine_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_fitness, "driver_hangs", lambda root: True)
    (found,) = gpu_findings()
    assert (found.subject, found.level) == (Check.DRIVER, Level.UNFIT)


# The report and the command


def test_the_worst_comes_first_with_its_reason_and_command() -> None:
    found = [
        Finding(Check.SWAP, Level.OK, "none"),
        Finding(Check.TURBO, Level.WARNING, "on", "switch it off"),
        Finding(Check.DISK, Level.UNFIT, "full", "delete files"),
    ]
    lines = render("box", found)
    assert [line.split()[0] for line in lines[2:-2]] == ["UNFIT", "why", "fix", "warning", "why", "fix", "ok"]
    assert lines[-1] == "Not fit to measure: 1 fault, 1 warning."


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A host that is watched for no time, without GPUs."""
    monkeypatch.setattr(fitness, "observe", lambda seconds: seen(**getattr(request, "param", {})))
    monkeypatch.setattr(gpu_fitness, "gpu_findings", lambda **_: [])


def test_a_machine_without_a_driver_is_called_fit_for_cpus_only() -> None:
    assert (
        conclusion(gpu_findings(Path("/none"), FakeNvml(DGX, broken={"nvmlInit": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND})))
        == "Fit to measure on CPUs."
    )


@pytest.mark.usefixtures("played")
def test_a_machine_with_warnings_is_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", f"--dir={tmp_path / 'new' / 'folder'}"]) == GREEN
    assert capsys.readouterr().out.splitlines()[-1].startswith("Fit to measure")


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("played", [{"steal_fraction_mean": 0.9}], indirect=True, ids=["steal"])
def test_an_unfit_machine_has_an_exit_status_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", f"--dir={tmp_path}", "--json"]) == UNFIT
    found = json.loads(capsys.readouterr().out)
    assert found["fit"] is False
    assert [one["subject"] for one in found["findings"] if one["level"] == "UNFIT"] == ["steal time"]


def test_this_machine_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--seconds=0.1", f"--dir={tmp_path}"]) in (GREEN, UNFIT)
    assert "it to measure" in capsys.readouterr().out


def test_a_time_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--seconds=nan"]) == USAGE
    assert "--seconds=nan: give 0.1 to 3600" in capsys.readouterr().err


@pytest.mark.usefixtures("played")
def test_doctor_says_how_the_gate_was_tried_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trial").mkdir()
    said = "The gate was tried on 2026-11-27: 0 of 20 sessions failed falsely (at most 14 %)"
    (tmp_path / "trial" / "trial.json").write_text(json.dumps({"version": 1, "machine": "box", "fact": said}))
    cli.main(["doctor", f"--dir={tmp_path}"])
    assert said in capsys.readouterr().out
