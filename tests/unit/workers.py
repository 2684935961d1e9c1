"""Fake training runs: a steady rate, and a step profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_tfperf.core.run import Window
from pytest_tfperf.core.step_profile import Input, StepProfile


@dataclass(kw_only=True)
class PlayedRun:
    """What every fake worker has of a `TrainingRun`; a subclass says how long its windows take."""

    images_per_step: int = 1
    compile_seconds: float = 1.0
    fetches: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    step_profile: StepProfile = field(default_factory=lambda: StepProfile(input=Input.RESIDENT))
    asked: list[int] = field(default_factory=list)

    def request(self, steps: int) -> None:
        self.asked.append(steps)

    def profile_step(self, *, matrix_products: bool, multiply_adds: bool) -> StepProfile:
        return self.step_profile

    def close(self) -> None:
        pass


@dataclass
class Played(PlayedRun):
    """A worker of one steady rate."""

    images_per_sec: float

    def receive(self) -> Window:
        steps = self.asked.pop(0)
        return Window(steps, steps / self.images_per_sec, loss=1.0)
