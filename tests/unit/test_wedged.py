"""After a worker hung: a probe decides whether its devices are to blame, and only they are avoided then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.workers.wedged import Wedged

CPUS = Devices(kind=DeviceKind.CPU, count=2)


def gpus(*uuids: str) -> Devices:
    return Devices(kind=DeviceKind.GPU, count=len(uuids), gpu_uuids=uuids)


def answers() -> None:
    pass


def hangs() -> None:
    raise Hung("the worker (pid 7) said nothing for 600 s\nits log")


def raises() -> None:
    raise MeasurementError("the worker raised RuntimeError")


def unasked() -> None:
    pytest.fail("a probe")


def after_a_hang(on: Devices, probe: Callable[[], None]) -> Wedged:
    """A worker hung on these devices, and the next test's probe did that."""
    wedged = Wedged()
    wedged.suspect(on)
    try:
        wedged.require(on, probe)
    except MeasurementError:
        assert probe is hangs
    return wedged


def test_where_nothing_hung_nothing_is_probed() -> None:
    Wedged().require(CPUS, unasked)


def test_devices_that_answer_are_used_without_a_further_probe() -> None:
    after_a_hang(CPUS, answers).require(CPUS, unasked)


def test_a_probe_that_hangs_keeps_the_worker_from_starting() -> None:
    wedged = Wedged()
    wedged.suspect(gpus("GPU-1"))
    said = r"no worker was started: GPU-1 no longer answers.*pid 7\) said nothing for 600 s\. Look for its Xid"
    with pytest.raises(MeasurementError, match=said):
        wedged.require(gpus("GPU-1"), hangs)


@pytest.mark.parametrize("on", [gpus("GPU-1"), gpus("GPU-0", "GPU-1")], ids=["itself", "with another"])
def test_devices_that_hung_twice_are_not_tried_again(on: Devices) -> None:
    with pytest.raises(MeasurementError, match="GPU-1 no longer answers"):
        after_a_hang(gpus("GPU-1"), hangs).require(on, unasked)


@pytest.mark.parametrize("on", [gpus("GPU-0"), CPUS], ids=["another GPU", "the CPU"])
def test_other_devices_are_used_as_before(on: Devices) -> None:
    after_a_hang(gpus("GPU-1"), hangs).require(on, unasked)


def test_a_probe_that_fails_otherwise_leaves_the_word_to_the_worker() -> None:
    after_a_hang(CPUS, raises).require(CPUS, answers)


def test_a_second_hang_after_an_answer_is_probed_again() -> None:
    wedged = after_a_hang(CPUS, answers)
    wedged.suspect(CPUS)
    with pytest.raises(MeasurementError, match="the CPU no longer answers"):
        wedged.require(CPUS, hangs)
