"""Facts from tests without a recorded baseline: how steady the machine is, and the slowdown it can detect."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import EarlierMeasurement, not_provisional
from pytest_tfperf.core.session_verdicts import UnrecordedTests
from pytest_tfperf.core.verdict import Against, Tolerance
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import TOO_NOISY_TO_GATE, mean_square
from pytest_tfperf.judging.session_effects import SessionVariance, session_variance
from pytest_tfperf.judging.target import Target, provisional_baseline, target_for

_RUNS_RECORDED = 5


def unrecorded_tests(unrecorded: Sequence[Measurement], tolerance: Tolerance) -> UnrecordedTests:
    """Return the facts from a session's measurements without a recorded baseline; `tolerance` is its default."""
    judged = [m.verdict for m in unrecorded if m.verdict is not None and m.verdict.against is Against.EARLIER_SESSIONS]
    today = [(m, target) for m in unrecorded if _is_telling(m) and (target := _as_target(m)) is not None]

    def detectable(variance: SessionVariance, as_row: Callable[[Target], Target]) -> float | None:
        return _median(
            judge(
                Evidence(
                    throughput=m.throughput,
                    target=as_row(target),
                    tolerance=tolerance,
                    variance=variance,
                    tests=len(unrecorded),
                )
            ).min_detectable_slowdown
            for m, target in today
        )

    recorded = detectable(session_variance(tests=len(unrecorded)), _recorded)
    return UnrecordedTests(
        tests=len(unrecorded),
        judged=len(judged),
        disturbances=tuple(kind for m in unrecorded if (kind := _disturbance(m)) is not None),
        within_runs=_median(run.error for m in unrecorded for run in m.throughput.runs),
        between_runs=_pooled(v.baseline for v in judged),
        # Against earlier sessions, as in a session of few tests, no common drift is taken out.
        detectable=detectable(session_variance(tests=0), lambda target: target),
        detectable_recorded=recorded,
        too_noisy_to_record=recorded is not None and recorded > TOO_NOISY_TO_GATE,
    )


def _disturbance(m: Measurement) -> DisturbanceKind | None:
    """Return the disturbance of the last run, where no run is undisturbed."""
    disturbances = [run.disturbance for run in m.runs]
    last = disturbances[-1]
    return None if last is None or None in disturbances else last.kind


def _is_telling(m: Measurement) -> bool:
    """Whether a run's windows give an error estimate; one or two windows give none that can be relied on."""
    return any(math.isfinite(run.error) for run in m.throughput.runs)


def _as_target(m: Measurement) -> Target | None:
    """Return the measurement's target, else the target that it makes for the next session; None for neither."""
    if m.verdict is not None and m.verdict.against is Against.EARLIER_SESSIONS:
        return Target(m.verdict.baseline, noise=m.verdict.noise)
    if not_provisional(m) is not None:
        return None
    rows = {m.key: provisional_baseline(m.machine, m.key, [EarlierMeasurement.of(m)])}
    return target_for({}, (), m.machine, m.key, gpu_fp32_tflops=None, provisional=rows)


def _recorded(target: Target) -> Target:
    assert target.baseline is not None, "made from a measurement"
    row = replace(target.baseline, provenance=Provenance.MEASURED, runs=max(_RUNS_RECORDED, target.baseline.runs))
    return replace(target, baseline=row)


def _pooled(rows: Iterable[Baseline | None]) -> float | None:
    """Return the root mean square of the rows' standard deviations; None where no row has two runs."""
    squares = mean_square(row.between_runs for row in rows if row is not None and row.between_runs and row.runs > 1)
    return None if squares is None else math.sqrt(squares)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.median(known) if known else None
