"""When a comparison ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from pytest_tfperf.bench import comparing
from pytest_tfperf.bench.comparing import compare
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.measurement import Ended, Measurement
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.judging.pairs import Terms
from tests.helpers.played import BOX, PLAN, TRIVIAL, Notes, PlayedGuard, PlayedLauncher, PlayedRun

CLOSE = (97.2, 98.3, 97.0, 98.0)  # b against a's 100, and a tolerance of 2 %: undecided for many pairs


@dataclass
class Clock:
    """Stands still, but for what launchers add to it."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass(eq=False)
class TimedLauncher(PlayedLauncher):
    """Starting its workers takes these seconds, one after the other; the last one repeats."""

    clock: Clock = None  # type: ignore[assignment]
    seconds: tuple[float, ...] = (0.0,)

    def start(self, job: Job, progress: Callable[[str], None]) -> PlayedRun:
        self.clock.now += self.seconds[min(self.started, len(self.seconds) - 1)]
        return super().start(job, progress)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Instead of the machine's, which no test may depend on."""
    played = Clock()
    monkeypatch.setattr(comparing, "time", played)
    return played


def compared(
    clock: Clock,
    b: tuple[float, ...] = CLOSE,
    *,
    seconds: tuple[float, ...] = (1.0,),
    loss: float = 1.0,
    figures: tuple[Figure, ...] = (),
    **terms: float,
) -> Measurement:
    """b against a steady a, where each pair takes these seconds; b's rates repeat."""
    engine = RunEngine(Notes(), PlayedGuard())
    left = TimedLauncher((100.0,) * 20, "a", clock=clock)
    right = TimedLauncher(b * 10, "b", left.machine, clock=clock, seconds=seconds, loss=loss)
    sides = [Side(workload=TRIVIAL, topology=BOX, launcher=launcher) for launcher in (left, right)]
    plan = replace(PLAN, also=figures)
    return compare(engine, *sides, plan, Terms(**terms))  # type: ignore[arg-type]


def test_a_figure_that_a_run_could_not_tell_hides_no_slowdown(clock: Clock) -> None:
    found = compared(clock, (80.0,), figures=(Figure("bleu", field="bleu"),))
    assert [one.outcome for one in found.figures] == [Outcome.INVALID]
    assert (found.verdict.outcome, len(found.pairs) >= 3) == (Outcome.REGRESSED, True)


def test_a_comparison_in_doubt_goes_on_to_its_last_pair(clock: Clock) -> None:
    found = compared(clock, max_pairs=6)
    assert (found.outcome, len(found.pairs), found.other.ended) == (Outcome.INCONCLUSIVE, 6, Ended.MAX_PAIRS)


def test_no_pair_is_begun_that_would_end_after_the_time_limit(clock: Clock) -> None:
    found = compared(clock, seconds=(10.0,), max_seconds=59.0)
    assert (len(found.pairs), found.other.ended) == (5, Ended.MAX_SECONDS)


def test_a_pair_that_just_fits_is_begun(clock: Clock) -> None:
    assert len(compared(clock, seconds=(10.0,), max_seconds=60.0).pairs) == 6


def test_a_smaller_share_of_errors_takes_more_pairs(clock: Clock) -> None:
    alone = compared(clock, (100.1, 99.9))
    one_of_many = compared(clock, (100.1, 99.9), false_alarms=0.0001, false_passes=0.0001)
    assert (alone.outcome, one_of_many.outcome) == (Outcome.PASS, Outcome.PASS)
    assert len(one_of_many.pairs) > len(alone.pairs)


def test_a_figure_that_regressed_fails_a_comparison_whose_ratio_passes(clock: Clock) -> None:
    found = compared(clock, (101.9, 102.0, 102.1), loss=1.2, figures=(Figure("loss"),))
    assert (found.outcome, found.verdict.outcome) == (Outcome.REGRESSED, Outcome.PASS)
    assert [one.outcome for one in found.figures] == [Outcome.REGRESSED]


def test_a_comparison_tells_how_long_it_took(clock: Clock) -> None:
    found = compared(clock, seconds=(10.0,), max_pairs=6)
    assert found.seconds == 10.0 * len(found.pairs)
