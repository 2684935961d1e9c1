"""What the guard says of a measurement, from a sampler that is played."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from pytest_tfperf.bench import disturbance as guard
from pytest_tfperf.bench.disturbance import Guard
from pytest_tfperf.core.samples import Limits, Sample

NEIGHBOUR = Sample(
    monotonic_seconds=1.0, seconds=1.0, usable_cores=2, other_cpu_fraction=0.9, busiest_other="make (pid 7)"
)


@dataclass
class Played:
    """A sampler that saw this."""

    samples: tuple[Sample, ...] = ()
    hangs: bool = False

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def since(self, monotonic_seconds: float) -> tuple[Sample, ...]:
        return self.samples


def disturbance(monkeypatch: pytest.MonkeyPatch, played: Played, *gpus: str) -> str:
    def sampler(roots: object, gpu_uuids: Iterable[str]) -> Played:
        return played

    monkeypatch.setattr(guard, "Sampler", sampler)
    with Guard(Limits()).watching(gpus) as seen:
        pass
    return seen.disturbance


def test_a_machine_that_was_quiet_disturbed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert disturbance(monkeypatch, Played()) == ""


def test_a_driver_that_does_not_answer_is_a_disturbance(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the GPU's driver does not answer any more" in disturbance(monkeypatch, Played(hangs=True), "GPU-1")


def test_where_no_gpu_is_watched_its_driver_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the kernel does not answer any more" in disturbance(monkeypatch, Played(hangs=True))


def test_what_else_was_seen_is_said_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said = disturbance(monkeypatch, Played((NEIGHBOUR,), hangs=True))
    assert said == "other processes used 90 % of 2 cores, above all make (pid 7)"
