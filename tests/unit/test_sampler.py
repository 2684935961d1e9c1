"""The sampler: on a machine laid out as files, on a stand-in for NVML, and on the machine at hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from machines import load
from nvml_stand_in import NOT_FOUND, NOT_SUPPORTED, UNKNOWN, Now, Slice, StandIn
from patience import PATIENCE_SECONDS, wait_for

from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.samples import GpuProcess, GpuSample, Sample, Throttle
from pytest_tfperf.hardware import sampler as sampler_module
from pytest_tfperf.hardware.host_samples import HostWatch
from pytest_tfperf.hardware.processes import family, read_process, read_processes
from pytest_tfperf.hardware.sampler import Sampler
from pytest_tfperf.hardware.software import host_facts

PYTEST, SERVER, WORKER, NEIGHBOUR, INIT = 100, 110, 111, 4711, 1
TICKS = os.sysconf("SC_CLK_TCK")


class Machine:
    """A /proc that a test writes; `pass_time` moves it and its clock on."""

    def __init__(self, root: Path, cores: int = 2) -> None:
        self.root, self.cores, self.now = root, cores, 50.0
        self.families: dict[int, tuple[str, int, int]] = {}
        self.ticks: dict[int, list[int]] = {}
        self.cpus = [[1000, 0, 0, 9000, 0, 0, 0, 0] for _ in range(cores)]
        self.pages = {"pswpin": 10, "pswpout": 20}
        self.start(INIT, "init", 0)
        self.start(PYTEST, "pytest", INIT)
        self.start(SERVER, "python", PYTEST, session=SERVER)
        self.start(WORKER, "python", SERVER, session=WORKER)
        self.start(NEIGHBOUR, "Web Content (x) ", INIT)
        self.write()

    def start(self, pid: int, name: str, parent: int, session: int = 0) -> None:
        self.families[pid] = (name, parent, session or self.families.get(parent, ("", 0, 1))[2])
        self.ticks[pid] = [0, 0]

    def end(self, pid: int, *, reaped_by: int = 0) -> None:
        used = sum(self.ticks.pop(pid))
        if reaped_by:
            self.ticks[reaped_by][1] += used
        del self.families[pid]
        (self.root / f"proc/{pid}/stat").unlink()

    def pass_time(self, seconds: float, used: dict[int, float] | None = None, steal: float = 0.0, pages: int = 0):
        """`used` gives each process's seconds of CPU; the cores share them evenly."""
        self.now += seconds
        busy = round(sum((used or {}).values()) * TICKS / self.cores)
        stolen = round(steal * seconds * TICKS)
        for cpu in self.cpus:
            cpu[0] += busy
            cpu[7] += stolen
            cpu[3] += max(0, round(seconds * TICKS) - busy - stolen)
        for pid, cpu_seconds in (used or {}).items():
            if pid in self.ticks:
                self.ticks[pid][0] += round(cpu_seconds * TICKS)
        self.pages["pswpin"] += pages
        self.write()

    def write(self) -> None:
        cpus = "".join(f"cpu{i} {' '.join(map(str, fields))} 0 0\n" for i, fields in enumerate(self.cpus))
        self.put("proc/stat", f"cpu  1 1 1 1 1 1 1 1 0 0\n{cpus}intr 12 0 0\nctxt 7\n")
        self.put("proc/vmstat", "nr_free_pages 3\n" + "".join(f"{k} {v}\n" for k, v in self.pages.items()))
        for pid, (name, parent, session) in self.families.items():
            own, children = self.ticks[pid]
            self.put(
                f"proc/{pid}/stat", f"{pid} ({name}) S {parent} 1 {session} 0 -1 4 0 0 0 0 {own} 0 {children} 0 20\n"
            )

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def watch(self, roots: tuple[int, ...] = (PYTEST, SERVER, WORKER), cpus: int | None = None) -> HostWatch:
        return HostWatch(lambda: roots, self.root, range(cpus or self.cores), lambda: self.now)


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


# Others' CPU time


def test_our_own_work_is_not_others(machine):
    watch = machine.watch()
    machine.pass_time(1, {WORKER: 1.5, PYTEST: 0.1})
    assert watch.sample().other_cpu_fraction == pytest.approx(0, abs=0.01)


def test_a_neighbours_work_is_measured_and_named(machine):
    watch = machine.watch()
    machine.pass_time(1, {WORKER: 1.0, NEIGHBOUR: 1.0})
    sample = watch.sample()
    assert (sample.other_cpu_fraction, sample.busiest_other) == (pytest.approx(0.5), "Web Content (x)  (pid 4711)")


def test_the_time_that_nobody_used_is_idle(machine):
    watch = machine.watch()
    machine.pass_time(1, {NEIGHBOUR: 0.5})
    assert watch.sample().idle_fraction == pytest.approx(0.75)


def test_after_a_quiet_time_the_busiest_is_named_from_the_second_look_on(machine):
    watch = machine.watch()
    machine.start(4712, "make", INIT)
    machine.pass_time(100, {NEIGHBOUR: 5})
    watch.sample()
    names = []
    for _ in range(3):
        machine.pass_time(1, {4712: 1.9})
        names.append(watch.sample().busiest_other)
    assert names == ["", "make (pid 4712)", "make (pid 4712)"]


def test_a_new_child_of_ours_is_ours_from_its_first_moment(machine):
    watch = machine.watch()
    machine.start(112, "pt_data_worker", WORKER, session=WORKER)
    machine.pass_time(1, {112: 1.8})
    assert watch.sample().other_cpu_fraction == pytest.approx(0, abs=0.01)


def test_an_orphan_of_the_workers_session_is_ours(machine):
    watch = machine.watch()
    machine.start(113, "decoder", INIT, session=WORKER)
    machine.pass_time(1, {113: 1.8})
    assert watch.sample().other_cpu_fraction == pytest.approx(0, abs=0.01)


def test_a_child_that_worked_and_ended_between_two_looks_is_ours(machine):
    watch = machine.watch()
    machine.start(114, "git", PYTEST)
    machine.pass_time(1, {114: 1.0})
    machine.end(114, reaped_by=PYTEST)
    machine.write()
    assert watch.sample().other_cpu_fraction == pytest.approx(0, abs=0.01)


def test_a_worker_that_its_server_waited_for_is_not_counted_twice(machine):
    watch = machine.watch()
    machine.pass_time(10, {WORKER: 10})
    watch.sample()
    machine.end(WORKER, reaped_by=SERVER)
    machine.pass_time(1, {NEIGHBOUR: 1.0})
    assert watch.sample().other_cpu_fraction == pytest.approx(0.5)


def test_a_worker_that_nobody_waited_for_makes_its_past_nobodys(machine):
    watch = machine.watch()
    machine.pass_time(10, {WORKER: 10})
    watch.sample()
    machine.end(WORKER)
    machine.pass_time(1, {PYTEST: 1.0})
    assert watch.sample().other_cpu_fraction == pytest.approx(0, abs=0.01)


def test_cores_that_we_may_not_use_do_not_count(machine):
    watch = machine.watch(cpus=1)
    machine.cpus[1][0] += TICKS
    machine.pass_time(1)
    assert watch.sample().other_cpu_fraction == pytest.approx(0)


def test_under_a_quota_others_may_use_the_rest_of_the_machine(tmp_path):
    machine = Machine(tmp_path, cores=8)
    machine.put("proc/self/cgroup", "0::/\n")
    machine.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    machine.put("sys/fs/cgroup/cpu.max", "200000 100000\n")
    watch = machine.watch()
    machine.pass_time(1, {NEIGHBOUR: 6})
    first = watch.sample()
    machine.pass_time(1, {NEIGHBOUR: 7})
    assert (first.usable_cores, first.other_cpu_fraction) == (2, pytest.approx(0))
    assert watch.sample().other_cpu_fraction == pytest.approx(0.5, abs=0.05)


# Steal, swap and the rest


def test_steal_is_the_hypervisors_share(machine):
    watch = machine.watch()
    machine.pass_time(1, {WORKER: 1.0}, steal=0.3)
    assert watch.sample().steal_fraction == pytest.approx(0.3)


def test_swapped_pages_are_told_in_bytes_a_second(machine):
    watch = machine.watch()
    machine.pass_time(2, pages=1000)
    assert watch.sample().swap_bytes_per_sec == 500 * os.sysconf("SC_PAGE_SIZE")


def test_load_clock_and_memory_are_kept(machine):
    machine.put("proc/loadavg", "3.25 2.00 1.00 2/90 4711\n")
    machine.put("proc/meminfo", "MemTotal: 99 kB\nMemAvailable: 2048 kB\n")
    machine.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400123\n")
    watch = machine.watch()
    machine.pass_time(1)
    sample = watch.sample()
    assert (sample.load_average, sample.cpu_mhz, sample.memory_available_bytes) == (3.25, 2400, 2 * 2**20)


def clock(machine, cpus):
    watch = machine.watch(cpus=cpus)
    machine.pass_time(1)
    return watch.sample().cpu_mhz


def test_the_clock_is_the_mean_over_usable_cores(machine):
    for cpu, khz in enumerate((2_400_000, 1_200_000, 9_000_000)):
        machine.put(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", f"{khz}\n")
    assert clock(machine, 2) == 1800


CPUINFO = "".join(
    f"processor\t: {cpu}\nvendor_id\t: x\ncpu MHz\t\t: {mhz}\ncache size\t: 1 KB\n\n"
    for cpu, mhz in enumerate(("2400.000", "3200.123", "9000.000"))
)


def test_where_there_is_no_cpufreq_the_clock_is_what_cpuinfo_says(machine):
    machine.put("proc/cpuinfo", CPUINFO)
    assert clock(machine, 2) == 2800


def test_a_core_of_which_cpuinfo_says_no_clock_has_none(machine):
    machine.put("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50\n\n" + CPUINFO.partition("\n\n")[2])
    assert clock(machine, 1) is None


def test_a_long_cpuinfo_is_not_read_at_each_look(machine):
    machine.put("proc/cpuinfo", CPUINFO)
    watch = machine.watch()
    clocks = []
    for _ in range(9):
        machine.pass_time(0.25)
        clocks.append(watch.sample().cpu_mhz)
    assert [told is not None for told in clocks] == [True, *[False] * 7, True]


def test_of_hundreds_of_cores_few_are_asked_for_their_clock(machine):
    for cpu in range(200):
        machine.put(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", f"{1_000_000 + 1000 * cpu}\n")
    watch = machine.watch(cpus=200)
    assert len(watch._clocked) <= 16
    assert watch.sample().cpu_mhz == pytest.approx(1100, abs=10)


def test_a_machine_that_tells_nothing_gives_a_sample_of_nothing(tmp_path):
    times = iter([1.0, 1.5])
    sample = HostWatch(lambda: (), tmp_path, {0}, lambda: next(times)).sample()
    assert sample == Sample(monotonic_seconds=1.5, seconds=0.5, usable_cores=1)


def test_counters_that_are_all_zero_are_none(machine):
    machine.cpus = [[0] * 8 for _ in range(2)]
    machine.write()
    watch = machine.watch()
    machine.now += 1
    assert watch.sample().other_cpu_fraction is None


# Whose process


def test_a_family_is_the_roots_and_all_below(machine):
    assert family({PYTEST}, read_processes(machine.root / "proc").values()) == {PYTEST, SERVER, WORKER}


def test_a_process_that_is_gone_is_none():
    assert read_process(2**22 + 1) is None


def test_this_process_is_read_as_the_kernel_writes_it():
    assert read_process(os.getpid()).parent == os.getppid()


# The machine at hand


def until(true, what: str):
    found = wait_for(true)
    assert found, f"never seen: {what}"
    return found


@contextmanager
def busy_processes():
    """One for each usable core, so that they are busy whatever else runs here."""
    command = ["sh", "-c", "while :; do :; done"]
    started = [subprocess.Popen(command) for _ in os.sched_getaffinity(0)]
    try:
        yield {f"sh (pid {process.pid})": process.pid for process in started}
    finally:
        for process in started:
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def sampling(*roots: int, **options):
    sampler = Sampler(lambda: roots, interval_seconds=0.1, **options)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()


def names(sampler: Sampler, since: float = 0.0) -> set[str]:
    return {sample.busiest_other for sample in sampler.since(since)}


def test_a_real_busy_process_is_named_and_then_gone(tmp_path):
    (tmp_path / "proc").mkdir()
    # Of the real processes only the shells are to be seen: other tests may run beside this one and be busier.
    for name in ("stat", "vmstat"):
        (tmp_path / "proc" / name).symlink_to(f"/proc/{name}")
    with sampling(root=tmp_path) as sampler:
        with busy_processes() as shells:
            for pid in shells.values():
                (tmp_path / "proc" / str(pid)).symlink_to(f"/proc/{pid}")
            until(lambda: names(sampler) & set(shells), "a busy shell by its name")
        ended = time.monotonic()
        # The sample that was under way may still name one.
        later = until(lambda: sampler.since(ended)[2:], "samples after its end")
        assert not {sample.busiest_other for sample in later} & set(shells)


def test_a_real_busy_child_of_ours_is_never_named():
    with sampling(os.getpid()) as sampler, busy_processes() as shells:
        until(lambda: len(sampler.since(0)) >= 3, "three samples")
        assert not names(sampler) & set(shells)


def test_samples_follow_each_other_without_a_gap():
    with sampling(os.getpid()) as sampler:
        until(lambda: len(sampler.since(0)) >= 3, "three samples")
    samples = sampler.since(0)
    starts = [sample.monotonic_seconds - sample.seconds for sample in samples]
    assert starts[1:] == pytest.approx([sample.monotonic_seconds for sample in samples[:-1]])


def test_a_sampler_that_starts_again_begins_anew():
    with sampling(os.getpid()) as sampler:
        until(lambda: sampler.since(0), "a sample")
        again = time.monotonic()
        sampler.start()
        samples = until(lambda: sampler.since(0), "a sample of the second start")
    begun = min(sample.monotonic_seconds - sample.seconds for sample in samples)
    assert begun > again - 1e-6  # the difference was rounded


def test_stopping_what_never_started_is_harmless():
    Sampler(lambda: ()).stop()


def test_a_thread_that_does_not_come_back_is_left_alone(monkeypatch):
    monkeypatch.setattr(sampler_module, "_PATIENCE_SECONDS", 0.01)
    answer = threading.Event()
    sampler = Sampler(lambda: (answer.wait(), ())[1])
    sampler.start()
    sampler.stop()
    answer.set()
    assert sampler.hangs


def test_a_thread_that_comes_back_does_not_hang(monkeypatch):
    monkeypatch.setattr(sampler_module, "_PATIENCE_SECONDS", PATIENCE_SECONDS)
    with sampling(os.getpid()) as sampler:
        pass
    assert not sampler.hangs


# GPUs

PROGRAM = """
import json, sys, time
from dataclasses import asdict
from pathlib import Path
from pytest_tfperf.hardware.sampler import Sampler
roots, uuids = json.loads(sys.argv[1])
sampler = Sampler(lambda: roots, uuids, interval_seconds=0.01)
sampler.start()
while not sampler.since(0):
    time.sleep(0.01)
sampler.stop()
print(json.dumps(asdict(sampler.since(0)[0])))
"""
H200 = load("h200")
UUID = H200.gpus[0].uuid


@pytest.fixture(scope="session")
def gpu_libraries(tmp_path_factory):
    return tmp_path_factory.mktemp("nvml-now")


@pytest.fixture
def sample_gpus(gpu_libraries):
    """Samples in a fresh interpreter, since nvidia-ml-py keeps the first library that it loads."""

    def run(stand_in: StandIn | None, *uuids: str, roots: tuple[int, ...] = ()) -> tuple[GpuSample, ...]:
        folder = stand_in.build(gpu_libraries) if stand_in else Path("/nonexistent")
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps([roots, uuids or [UUID]])],
            env=dict(os.environ) | {"LD_LIBRARY_PATH": str(folder)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return build(Sample, json.loads(done.stdout), "sample").gpus

    return run


def stand_in(now: Now | None = None, **options) -> StandIn:
    return StandIn(H200, now={0: now or Now()}, **options)


def test_a_gpus_dials_are_read(sample_gpus):
    seen = sample_gpus(stand_in(Now(celsius=87, reasons=0x64)))
    assert seen == (
        GpuSample(
            uuid=UUID,
            temperature_celsius=87,
            sm_clock_mhz=1410,
            memory_clock_mhz=3201,
            power_watts=250.5,
            power_limit_watts=300,
            utilisation_fraction=0.97,
            memory_used_bytes=2**30,
            throttles=(Throttle.POWER_CAP, Throttle.SW_THERMAL, Throttle.HW_THERMAL),
            other_processes=(),
        ),
    )


def test_an_older_drivers_name_for_the_reasons_is_tried_too(sample_gpus):
    older = stand_in(Now(reasons=0x80), absent=frozenset({"nvmlDeviceGetCurrentClocksEventReasons"}))
    assert sample_gpus(older)[0].throttles == (Throttle.HW_POWER_BRAKE,)


def test_a_reason_that_only_newer_drivers_have_is_told(sample_gpus):
    assert sample_gpus(stand_in(Now(reasons=0x404)))[0].throttles == (Throttle.POWER_CAP, Throttle.UNKNOWN)


@pytest.mark.parametrize(("percent", "stale"), [(37_100, False), (62, True)])
def test_a_use_that_cannot_be_is_not_believed(sample_gpus, percent, stale):
    (seen,) = sample_gpus(stand_in(Now(processes={os.getpid(): percent}, stale=stale)))
    assert seen.other_processes[0].utilisation_fraction == 0.0


def test_a_process_of_somebody_else_is_named_with_its_use(sample_gpus):
    me = os.getpid()
    (seen,) = sample_gpus(stand_in(Now(processes={me: 62})))
    assert seen.other_processes == (GpuProcess(pid=me, name=read_process(me).name, utilisation_fraction=0.62),)


def test_our_own_process_is_nobody_else(sample_gpus):
    assert sample_gpus(stand_in(Now(processes={os.getpid(): 62})), roots=(os.getppid(),))[0].other_processes == ()


def test_a_process_that_can_not_be_seen_from_here_does_not_count(sample_gpus):
    assert sample_gpus(stand_in(Now(processes={2**22 + 1: 62})))[0].other_processes == ()


@pytest.mark.parametrize(("code", "used"), [(NOT_FOUND, 0.0), (NOT_SUPPORTED, None)])
def test_a_process_whose_use_is_not_told(sample_gpus, code, used):
    broken = {"nvmlDeviceGetProcessUtilization": code}
    (seen,) = sample_gpus(stand_in(Now(processes={os.getpid(): 62}), broken=broken))
    assert seen.other_processes[0].utilisation_fraction == used


def test_a_mig_devices_heat_is_its_gpus(sample_gpus):
    slice = Slice("MIG-1", "H200 MIG 1g.18gb", 18 * 2**30, 16, 1, 1)
    (seen,) = sample_gpus(stand_in(Now(celsius=71), mig={0: (slice,)}), "MIG-1")
    assert (seen.uuid, seen.temperature_celsius, seen.memory_used_bytes) == ("MIG-1", 71, 2**30)


@pytest.mark.parametrize(
    ("function", "fact"),
    [
        ("nvmlDeviceGetTemperature", "temperature_celsius"),
        ("nvmlDeviceGetPowerUsage", "power_watts"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_watts"),
        ("nvmlDeviceGetUtilizationRates", "utilisation_fraction"),
        ("nvmlDeviceGetMemoryInfo", "memory_used_bytes"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "other_processes"),
    ],
)
def test_what_nvml_fails_to_tell_is_none_and_no_more(sample_gpus, function, fact):
    facts = asdict(sample_gpus(stand_in(broken={function: UNKNOWN}))[0])
    assert [name for name, value in facts.items() if value is None] == [fact]


def test_a_machine_without_nvml_gives_a_gpu_of_which_nothing_is_known(sample_gpus):
    assert sample_gpus(None, UUID, UUID) == (GpuSample(uuid=UUID),)


# How the host is set up


def test_the_hosts_set_up_is_told_where_known(machine):
    cpu = "sys/devices/system/cpu"
    machine.put("proc/sys/kernel/osrelease", "6.8.0\n")
    machine.put(f"{cpu}/cpu0/cpufreq/scaling_governor", "powersave\n")
    machine.put(f"{cpu}/cpu1/cpufreq/scaling_governor", "performance\n")
    machine.put(f"{cpu}/intel_pstate/no_turbo", "1\n")
    machine.put(f"{cpu}/smt/active", "1\n")
    machine.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    assert host_facts(machine.root) == {
        "kernel": "6.8.0",
        "governor": "performance+powersave",
        "turbo": "off",
        "smt": "on",
        "large_pages": "madvise",
    }


def test_a_host_that_tells_nothing_still_has_a_kernel(tmp_path):
    assert list(host_facts(tmp_path)) == ["kernel"]


def test_this_machines_facts_hold_no_blanks():
    assert all(value and " " not in value for value in host_facts().values())
