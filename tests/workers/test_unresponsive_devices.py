"""After a worker hung: a probe shows whether its devices are to blame, and only those are avoided from then on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.workers.local import UnresponsiveDevices

CPUS = Devices(kind=DeviceKind.CPU, count=2)


def gpus(*uuids: str) -> Devices:
    return Devices(kind=DeviceKind.GPU, count=len(uuids), gpu_uuids=uuids)


def answers() -> None:
    pass


def hangs() -> None:
    raise Hung("the worker (pid 7) said nothing for 600 s", "its log")


def raises() -> None:
    raise MeasurementError("the worker raised RuntimeError")


def no_probe() -> None:
    pytest.fail("a probe")


def after_a_hang(on: Devices, probe: Callable[[], None]) -> UnresponsiveDevices:
    """A worker hung on these devices, and then the next test's probe ran."""
    known = UnresponsiveDevices()
    known.suspect(on)
    try:
        known.check(on, probe)
    except MeasurementError:
        assert probe is hangs
    return known


def test_without_a_hang_there_is_no_probe() -> None:
    UnresponsiveDevices().check(CPUS, no_probe)


def test_devices_that_answer_the_probe_are_used_without_a_further_one() -> None:
    after_a_hang(CPUS, answers).check(CPUS, no_probe)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (gpus("GPU-1"), r"no worker was started: GPU-1 no longer answers.*pid 7\) said nothing for 600 s\. .*Xid"),
        (CPUS, r"no worker was started: the CPU no longer answers.*dmesg"),
    ],
)
def test_a_probe_that_hangs_keeps_the_worker_from_starting(devices: Devices, message: str) -> None:
    known = UnresponsiveDevices()
    known.suspect(devices)
    with pytest.raises(MeasurementError, match=message):
        known.check(devices, hangs)


def test_devices_on_which_the_probe_hung_are_refused_at_once_and_others_used_as_before() -> None:
    known = after_a_hang(gpus("GPU-1"), hangs)
    for on in (gpus("GPU-1"), gpus("GPU-0", "GPU-1")):
        with pytest.raises(MeasurementError, match="GPU-1 no longer answers"):
            known.check(on, no_probe)
    for on in (gpus("GPU-0"), CPUS):
        known.check(on, no_probe)


def test_a_probe_that_fails_without_a_hang_lets_the_worker_start() -> None:
    after_a_hang(CPUS, raises).check(CPUS, answers)


def test_a_second_hang_after_an_answer_is_probed_again() -> None:
    known = after_a_hang(CPUS, answers)
    known.suspect(CPUS)
    with pytest.raises(MeasurementError, match="the CPU no longer answers"):
        known.check(CPUS, hangs)
