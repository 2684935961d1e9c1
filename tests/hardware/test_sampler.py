"""The sampler: GPU readings from a fake NVML, and the polls of this machine."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from types import SimpleNamespace

import pynvml
import pytest

from pytest_tfperf.core.telemetry import GpuTelemetry
from pytest_tfperf.hardware import sampler as sampler_module
from pytest_tfperf.hardware.nvml import gives_our_pids, handles_of, read_gpus
from pytest_tfperf.hardware.sampler import Sampler
from tests.helpers.fake_nvml import FakeNvml, MigDevice, Now
from tests.helpers.machines import load
from tests.helpers.patience import wait_for

H200 = load("h200")
UUID = H200.gpus[0].uuid
NAMES = {7: "", 4711: "python (pid 4711)", 80: "nvidia-cuda-mps-server (pid 80)"}  # 7 is ours


def read(now: Now | None = None, uuid: str = UUID, **options: object) -> GpuTelemetry:
    nvml = FakeNvml(H200, now=now or Now(), **options)
    (gpu,) = read_gpus(nvml, handles_of(nvml, [uuid]), NAMES.get)
    return gpu


def test_what_a_gpu_shows_is_read():
    assert read(Now(celsius=87, reasons=0x64)) == GpuTelemetry(
        uuid=UUID,
        temperature_celsius_max=87,
        sm_clock_mhz_median=1410,
        power_watts_mean=250.5,
        power_limit_watts_max=300,
        utilisation_fraction_mean=0.97,
        throttled_fractions={"power_cap": 1, "sw_thermal": 1, "hw_thermal": 1},
        other_processes={},
        processes_max=0,
    )


@pytest.mark.parametrize(
    ("functions", "missing"),
    [
        (["PowerUsage"], ["power_watts_mean"]),
        (["CurrentClocksEventReasons", "CurrentClocksThrottleReasons"], ["throttled_fractions"]),
        (["ComputeRunningProcesses", "ComputeRunningProcesses_v2"], ["other_processes", "processes_max"]),
    ],
)
def test_what_the_driver_fails_to_report_is_none_and_nothing_more(functions, missing):
    facts = asdict(read(broken={f"nvmlDeviceGet{one}": pynvml.NVML_ERROR_UNKNOWN for one in functions}))
    unknown = {name for name, value in facts.items() if value is None}
    assert unknown == {"neighbours_max", *missing}  # only MIG devices have neighbours


def test_an_older_driver_knows_why_a_gpu_is_slowed_down_by_another_name():
    broken = {"nvmlDeviceGetCurrentClocksEventReasons": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    assert read(Now(reasons=0x4), broken=broken).throttled_fractions == {"power_cap": 1}


def test_an_older_driver_knows_processes_by_another_function():
    broken = {"nvmlDeviceGetComputeRunningProcesses": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    assert read(Now(processes={4711: 62}), broken=broken).other_processes == {"python (pid 4711)": 0.62}


@pytest.mark.parametrize(
    ("now", "broken", "others"),
    [
        (Now(processes={4711: 62}), 0, {"python (pid 4711)": 0.62}),
        (Now(processes={7: 62}), 0, {}),
        (Now(processes={4711: 62, 9999: 62}), 0, {"python (pid 4711)": 0.62}),  # 9999 is gone since
        (Now(processes={7: 62, 9999: 62}), 0, None),  # or it is of another namespace
        (Now(processes={80: 62}), 0, {}),  # computes for its clients, and one of them is ours
        (Now(processes={80: 62}, mps_clients=[7, 4711]), 0, {"python (pid 4711)": 0}),
        # Some drivers give a use that cannot be, or an old one.
        (Now(processes={4711: 37_100}), 0, {"python (pid 4711)": 0}),
        (Now(processes={4711: 62}, stale=True), 0, {"python (pid 4711)": 0}),
        (Now(processes={4711: 62}), pynvml.NVML_ERROR_NOT_FOUND, {"python (pid 4711)": 0}),
        (Now(processes={4711: 62}), pynvml.NVML_ERROR_NOT_SUPPORTED, {"python (pid 4711)": 1}),
    ],
)
def test_a_process_of_somebody_else_is_named_with_its_use_of_the_gpu(now, broken, others):
    assert read(now, broken={"nvmlDeviceGetProcessUtilization": broken}).other_processes == others


def test_a_mig_device_has_its_gpus_temperature():
    gpu = read(Now(celsius=71), "MIG-1", mig={0: [MigDevice("MIG-1", "H200 MIG 1g.18gb", 18 * 2**30)]})
    assert (gpu.uuid, gpu.temperature_celsius_max) == ("MIG-1", 71)


def test_neighbours_on_other_mig_devices_of_the_gpu_are_counted():
    processes = {0: [4711, 7, 80], (0, 0): [7]}
    answer = {"nvmlDeviceGetComputeRunningProcesses": lambda h: [SimpleNamespace(pid=pid) for pid in processes[h]]}
    gpu = read(None, "MIG-1", mig={0: [MigDevice("MIG-1", "H200 MIG 1g.18gb", 18 * 2**30)]}, answers=answer)
    assert (gpu.other_processes, gpu.processes_max, gpu.neighbours_max) == ({}, 1, 2)


@pytest.mark.parametrize(
    ("facts", "use"),
    [
        ({"other_processes": {}, "utilisation_fraction_mean": 0.97}, 0.0),
        ({"utilisation_fraction_mean": 0.97, "processes_max": 0}, 0.97),  # a list may leave out other containers
        ({"processes_max": 1}, 1.0),  # a MIG device in a container
        ({"processes_max": 0}, 0.0),
        ({}, 0.0),
    ],
)
def test_use_by_unknown_processes_is_the_utilisation_or_that_there_are_any(facts, use):
    assert GpuTelemetry(uuid=UUID, **facts).use_by_unknown == use


def test_a_container_knows_no_other_processes_because_nvml_gives_the_hosts_pids():
    nvml = FakeNvml(H200, now=Now(processes={4711: 62}))
    (gpu,) = read_gpus(nvml, handles_of(nvml, [UUID]), None)
    assert (gpu.other_processes, gpu.utilisation_fraction_mean) == (None, 0.97)


@pytest.mark.parametrize(
    ("link", "ours"), [("pid:[4026531836]", True), ("pid:[4026532448]", False), (None, False)], ids=str
)
def test_the_hosts_process_ids_are_known_by_the_first_namespaces_number(tmp_path, link, ours):
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    if link:
        (tmp_path / "proc/self/ns/pid").symlink_to(link)
    assert gives_our_pids(tmp_path) is ours


# Polling


@pytest.mark.parametrize(("init", "celsius"), [(0, 87), (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, None)])
def test_a_run_shorter_than_the_interval_is_sampled_with_its_gpus_if_there_is_a_driver(init, celsius):
    sampler = Sampler([UUID, UUID], nvml=FakeNvml(H200, now=Now(celsius=87), broken={"nvmlInit": init}))
    sampler.start()
    time.sleep(0.2)
    telemetry = sampler.stop()
    assert (telemetry.seconds >= 0.1, sampler.hung) == (True, False)
    assert [gpu.temperature_celsius_max for gpu in telemetry.gpus] == [celsius]
    assert telemetry.load_average_mean is not None


@pytest.mark.parametrize(
    ("call", "limit"), [("nvmlInit", "WAKE_SECONDS"), ("nvmlDeviceGetTemperature", "_STOP_SECONDS")]
)
def test_a_driver_that_never_returns_does_not_block_stop(call, limit, monkeypatch):
    monkeypatch.setattr(sampler_module, limit, 0.01)
    answer = threading.Event()
    nvml = FakeNvml(H200, answers={call: lambda *_: answer.wait()})
    sampler = Sampler([UUID], nvml=nvml)
    sampler.start()
    assert (sampler.stop(), sampler.hung) == (None, True)
    answer.set()


def test_stop_waits_longer_for_a_gpu_that_has_to_wake_first(monkeypatch):
    monkeypatch.setattr(sampler_module, "_STOP_SECONDS", 0.01)
    is_awake = threading.Event()

    def waking(uuid):
        time.sleep(0.3)
        is_awake.set()
        return 0

    nvml = FakeNvml(H200, answers={"nvmlDeviceGetHandleByUUID": waking})
    sampler = Sampler([UUID], nvml=nvml)
    sampler.start()
    sampler.stop()
    assert is_awake.is_set()


def test_a_gpu_is_searched_once_because_the_search_may_wake_others():
    nvml = FakeNvml(H200)
    sampler = Sampler([UUID], nvml=nvml)
    sampler.start()
    assert wait_for(lambda: len(sampler.polls) > 1)
    sampler.stop()
    assert nvml.calls.count("nvmlDeviceGetHandleByUUID") == 1


def test_each_poll_is_kept_without_the_names_of_processes():
    sampler = Sampler([UUID], nvml=FakeNvml(H200, now=Now(processes={4711: 62})))
    sampler.start()
    time.sleep(0.2)
    telemetry = sampler.stop()
    assert sum(poll.seconds for poll in sampler.polls) == pytest.approx(telemetry.seconds, abs=0.01)
    assert {poll.other_processes for poll in sampler.polls} == {None}
    assert {gpu.other_processes for poll in sampler.polls for gpu in poll.gpus} == {None}
