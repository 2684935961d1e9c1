"""What the host did between two readings: whose CPU time, steal and swapping; from plain values and from real ones."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest

from pytest_tfperf.hardware import sampler
from pytest_tfperf.hardware.sampler import (
    Counters,
    CpuSeconds,
    HostUsage,
    ProcessSeconds,
    our_processes,
    process_name,
    read_counters,
    usage_between,
)
from tests.helpers.patience import wait_for

OURS, NEIGHBOUR = os.getpid(), os.getppid()  # processes that have a name
CHILD = 2**22 + 1  # larger than any pid


def counters(
    at: float, busy: float = 0.0, idle: float = 0.0, stolen: float = 0.0, swapped: int | None = 0, **processes: object
) -> Counters:
    pids = {"ours": OURS, "child": CHILD, "neighbour": NEIGHBOUR}
    return Counters(
        monotonic_seconds=at,
        cpu=CpuSeconds(busy, idle, stolen),
        swapped_bytes=swapped,
        processes={pids[name]: ProcessSeconds(*value) for name, value in processes.items()},
        ours=frozenset({OURS, CHILD}),
    )


@pytest.mark.parametrize(
    ("before", "after", "others"),
    [
        # We used it all.
        ({"ours": (3,)}, {"busy": 1.6, "ours": (4.6,)}, 0.0),
        # A neighbour used half of it.
        ({"ours": (3,)}, {"busy": 2, "ours": (4,)}, 0.5),
        # A child that started since then.
        ({"ours": (3,)}, {"busy": 1.8, "ours": (3,), "child": (1.8,)}, 0.0),
        # A child that started and ended since then.
        ({"ours": (3,)}, {"busy": 1.0, "ours": (3, 1.0)}, 0.0),
        # A child that its parent waited for does not count twice.
        ({"ours": (3,), "child": (10,)}, {"busy": 1.0, "ours": (3, 10)}, 0.5),
        # A child that nobody waited for takes its past along.
        ({"ours": (3,), "child": (10,)}, {"busy": 1.0, "ours": (4,)}, 0.0),
    ],
)
def test_cpu_time_that_is_not_ours_is_of_others(before, after, others):
    usage = usage_between(counters(50, **before), counters(51, **after), cpus=2)
    assert usage.other_cpu_fraction_mean == pytest.approx(others)


def test_the_busiest_neighbour_is_named_with_its_share():
    before, after = counters(50, ours=(3,), neighbour=(7,)), counters(52, busy=2, ours=(3,), neighbour=(9,))
    assert usage_between(before, after, cpus=2).other_processes == {process_name(NEIGHBOUR): 0.5}


def test_idle_stolen_and_swapped_are_rates():
    usage = usage_between(counters(50), counters(52, idle=3, stolen=1, swapped=4096), cpus=2)
    rates = (usage.idle_fraction_mean, usage.steal_fraction_mean, usage.swap_bytes_per_sec_mean)
    assert rates == (0.75, 0.25, 2048)


@pytest.mark.parametrize(("busy", "others"), [(6, 0.0), (7, 0.5)])
def test_under_a_quota_others_may_use_the_rest_of_the_machine(busy, others):
    usage = usage_between(counters(50), counters(51, busy=busy), cpus=8, quota=2)
    assert (usage.usable_cores, usage.other_cpu_fraction_mean) == (2, others)


@pytest.mark.parametrize(
    ("busy", "stolen", "fraction"),
    [
        (62.72, 1.28, 0.02),  # other containers keep all CPUs busy, and every CPU loses 2 %
        (2, 2, 0.5),  # only our 4 CPUs are busy, and lose half of their time
    ],
)
def test_under_a_quota_the_time_stolen_from_other_containers_is_not_ours(busy, stolen, fraction):
    usage = usage_between(counters(50), counters(51, busy=busy, stolen=stolen), cpus=64, quota=4)
    assert usage.steal_fraction_mean == pytest.approx(fraction)


def test_cpus_are_counted_by_their_numbers_where_some_are_offline(monkeypatch):
    class Row(SimpleNamespace):
        nice = system = irq = softirq = idle = iowait = steal = 0.0

    rows = [Row(user=float(cpu)) for cpu in (0, 2, 4, 6)]
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: rows)
    monkeypatch.setattr(sampler, "cpu_numbers", lambda rows: [0, 2, 4, 6])
    assert read_counters({2, 6}, frozenset()).cpu.busy == 8
    assert read_counters({2, 3}, frozenset()).cpu.busy == 12, "renumbered: all are ours"


def test_the_kernels_numbers_are_those_of_psutils_rows():
    assert set(sampler.cpu_numbers(len(psutil.cpu_times(percpu=True)))) >= os.sched_getaffinity(0)


def test_what_the_kernel_does_not_report_is_none():
    silent = Counters(monotonic_seconds=50, processes={}, ours=frozenset())
    usage = usage_between(silent, silent, cpus=1)
    assert (usage.other_cpu_fraction_mean, usage.steal_fraction_mean, usage.swap_bytes_per_sec_mean) == (None,) * 3


# This machine


BUSY = ["sh", "-c", "while :; do :; done"]
IDLE = ["sleep", "100"]


@contextmanager
def started(command: list[str], count: int = 1, **options: object) -> Iterator[list[subprocess.Popen[str]]]:
    processes = [subprocess.Popen(command, **options) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_real_busy_process_of_others_is_named():
    cores = len(os.sched_getaffinity(0))
    with started(IDLE) as [ours], started(BUSY, cores) as busy:
        usage = HostUsage(ours.pid)
        names = {process_name(process.pid) for process in busy}
        assert wait_for(lambda: names & (usage.poll().other_processes or {}).keys())
        assert usage.other_process(busy[0].pid) in names


def test_a_real_busy_child_is_ours():
    with started(BUSY) as [child]:
        usage = HostUsage()
        assert wait_for(lambda: psutil.Process(child.pid).cpu_times().user > 0.1)
        assert process_name(child.pid) not in (usage.poll().other_processes or {})
        assert usage.other_process(child.pid) == ""


@pytest.mark.parametrize(
    ("signalled", "name"),
    [(PermissionError, "another user's process (pid 4711)"), (ProcessLookupError, None)],
    ids=["hidden", "gone"],
)
def test_a_process_that_proc_hides_is_told_from_one_that_is_gone(signalled, name, monkeypatch):
    def kill(pid: int, number: int) -> None:
        raise signalled

    monkeypatch.setattr(psutil.Process, "__init__", Mock(side_effect=psutil.NoSuchProcess(4711)))
    monkeypatch.setattr(os, "kill", kill)
    assert process_name(4711) == name


def test_a_process_that_is_named_as_ours_is_ours_whoever_started_it():
    with started(IDLE) as [root], started(BUSY) as [rank]:
        usage = HostUsage(root.pid, besides=[rank.pid])
        assert wait_for(lambda: psutil.Process(rank.pid).cpu_times().user > 0.1)
        assert process_name(rank.pid) not in (usage.poll().other_processes or {})


def test_an_orphan_in_a_session_of_ours_is_ours():
    command = ["sh", "-c", "(sleep 100 & echo $!); sleep 100"]
    with started(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as [leader]:
        orphan = int(leader.stdout.readline())
        leader.stdout.close()
        try:
            assert wait_for(lambda: psutil.Process().pid not in {p.pid for p in psutil.Process(orphan).parents()})
            assert {leader.pid, orphan} <= our_processes(os.getpid())
        finally:
            os.killpg(leader.pid, signal.SIGKILL)
