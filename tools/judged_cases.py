"""What 20,000 random cases decide, for changes of the judgement that must change no outcome.

    python -m tools.judged_cases > /tmp/before.txt      # at the commit before
    python -m tools.judged_cases > /tmp/after.txt       # and after
    diff /tmp/before.txt /tmp/after.txt

The cases are throughputs and figures, with runs, pairs, drift, history, floors and provisional rows; and figures and
throughputs of comparisons. A line is one case: outcome, reason, rule, wants and all numbers to the last digit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.figure import Better, Figure
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Noise, Outcome, Tolerance, Verdict
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.judging.session_effects import CommonDrift, session_variance
from pytest_tfperf.judging.target import Target
from tests.helpers.measurements import figure_evidence, run_at

PLACES: Final = ((), (), ("at step 400",), ("at step 400", "at the end"))


def throughput(draw: random.Random) -> str:
    """A throughput's verdict."""
    spread, change = draw.choice([0.001, 0.01, 0.03]), draw.choice([0, 0, -0.02, -0.05, -0.1, -0.3, 0.05, 0.2])
    runs = [_run(change + draw.gauss(0, spread)) for _ in range(draw.choice([1, 1, 1, 2, 3, 5, 8]))]
    if draw.random() < 0.02:
        runs[-1] = replace(runs[-1], windows=tuple(replace(window, loss=math.nan) for window in runs[-1].windows))
    pairs = [
        Pair(_run(0.0), _run(change), change + draw.gauss(0, spread), draw.choice([0.001, 0.01, 0.1]))
        for _ in range(draw.choice([0, 0, 2, 3, 4, 8, 12]))
    ]
    past = [_session(draw) for _ in range(draw.choice([0, 0, 3, 8, 15]))]
    tests = draw.choice([2, 20])
    row = _row(draw, Key("w", "1x1"), 1000.0, "images")
    is_floor = row.provenance is Provenance.PUBLISHED and draw.random() < 0.5
    evidence = Evidence(
        throughput=summarise(runs),
        target=Target() if draw.random() < 0.05 else Target(row, is_floor, noise=_noise(draw)),
        tolerance=_tolerance(draw),
        pairs=pairs,
        drift=CommonDrift(draw.choice([0.0, -0.03, 0.02]), draw.choice([0, 9, 50]), 0.004),
        others=draw.choice([None, None, -0.04, 0.03]),
        variance=session_variance([(_noise(draw), 5, past)] if past else (), tests=tests),
        past=past,
        tests=draw.choice([1, 3, 20, 200]),
        suspects=draw.choice([1, 2, 10]),
        has_reference_environment=draw.random() < 0.5,
        max_runs=draw.choice([None, None, None, 1, 3]),
        is_drift_to_come=draw.random() < 0.2,
    )
    return _shown(judge(evidence))


def figure(draw: random.Random) -> str:
    """The verdict on a figure beside it."""
    asked = _figure(draw)
    change, spread = draw.choice([0, 0, 0.05, -0.05, 0.2, -0.2, 0.4]), draw.choice([0, 0.001, 0.01, 0.05])
    row = _row(draw, Key("w", "1x1", "own"), 100.0, asked.unit or "")
    has_row = draw.random() < 0.9
    evidence = figure_evidence(
        asked,
        _values(draw, draw.choice([1, 1, 2, 3, 5, 8]), change, spread),
        row if has_row else None,
        _noise(draw) if has_row else None,
        pairs=_sides(draw, draw.choice([0, 0, 2, 3, 4, 8, 12]), change, spread),
        places=draw.choice(PLACES),
        drift=CommonDrift(draw.choice([0.0, -0.03, 0.02]), draw.choice([0, 9, 50]), 0.004),
        tests=draw.choice([1, 4, 50]),
        suspects=draw.choice([1, 3]),
        has_reference_environment=draw.random() < 0.5,
        is_drift_to_come=draw.random() < 0.2,
    )
    return _shown(judge(evidence))


def compared_figure(draw: random.Random) -> str:
    """The verdict on a figure of a comparison."""
    change, spread = draw.choice([0, 0, 0.05, -0.05, 0.2, -0.2]), draw.choice([0, 0.001, 0.01, 0.05])
    evidence = figure_evidence(
        _figure(draw),
        (),
        None,
        None,
        pairs=_sides(draw, draw.choice([1, 2, 3, 4, 6, 10, 15, 20]), change, spread),
        places=draw.choice(PLACES),
        suspects=draw.choice([1, 3]),
        is_comparison=True,
        terms=Terms(),
    )
    return _shown(judge(evidence))


def ratio(draw: random.Random) -> str:
    """The verdict on the throughput of a comparison."""
    change, spread = draw.choice([0, 0, -0.02, -0.05, -0.1, 0.1]), draw.choice([0.001, 0.01, 0.05])
    log_ratios = [change + draw.gauss(0, spread) for _ in range(draw.choice([1, 2, 3, 4, 6, 10, 15, 20]))]
    window_error, unevenness = draw.choice([0, 0.01, 0.2]), draw.choice([0, 0, 0.1])
    pairs = [Pair(_run(0.0), _run(one), one, window_error, unevenness) for one in log_ratios]
    evidence = Evidence(
        throughput=summarise([pair.b for pair in pairs]),
        target=Target(),
        tolerance=_tolerance(draw),
        pairs=pairs,
        is_comparison=True,
        terms=Terms(),
    )
    return _shown(judge(evidence))


def _shown(verdict: Verdict) -> str:
    return str(replace(verdict, baseline=None))


def _run(log_change: float) -> Run:
    return run_at(1000.0 * math.exp(log_change))


def _session(draw: random.Random) -> SessionChanges:
    outcome = draw.choice([*[Outcome.PASS] * 5, Outcome.REGRESSED, Outcome.INCONCLUSIVE])
    return SessionChanges("s", tuple(draw.gauss(0, 0.01) for _ in range(draw.choice([1, 3]))), outcome)


def _row(draw: random.Random, key: Key, reference: float, unit: str) -> Baseline:
    kinds = [Provenance.MEASURED] if key.figure else [*[Provenance.MEASURED] * 4, *Provenance]
    runs = draw.choice([1, 3, 5, 8])
    return Baseline(
        machine="m",
        key=key,
        value=reference,
        unit=unit if draw.random() < 0.97 else "min",
        provenance=draw.choice(kinds),
        runs=runs,
        between_runs=None if runs == 1 else draw.choice([0.001, 0.005, 0.01, 0.03, 0.1]),
        note=draw.choice(["", "read at step 400"]) if key.figure else "",
    )


def _noise(draw: random.Random) -> Noise:
    between_runs, freedom = (
        draw.choice([0.001, 0.005, 0.01, 0.02, 0.05, 0.15]),
        draw.choice([4.0, 12.0, 40.0, math.inf]),
    )
    return Noise(between_runs=between_runs, degrees_of_freedom=freedom, rows=draw.choice([0, 3, 10]))


def _tolerance(draw: random.Random) -> Tolerance:
    lower, upper = -draw.choice([0.01, 0.02, 0.05, 0.2]), draw.choice([0.02, 0.05, 0.2])
    return Tolerance(lower if draw.random() < 0.95 else None, upper if draw.random() < 0.9 else None)


def _figure(draw: random.Random) -> Figure:
    return Figure(
        "own",
        unit=draw.choice(["", "s", "bytes", "x/s"]),
        better=draw.choice(list(Better)),
        tolerance=draw.choice([0.02, 0.05, 0.3]),
        absolute=draw.choice([0.0, 5.0]),
        limit=draw.choice([None, None, 120.0, 80.0]),
        field="own",
    )


def _values(draw: random.Random, count: int, change: float, spread: float) -> list[float | None]:
    known = [100 * (1 + change + draw.gauss(0, spread)) for _ in range(count)]
    return [draw.choices([value, None, math.nan], [985, 10, 5])[0] for value in known]


def _sides(
    draw: random.Random, count: int, change: float, spread: float
) -> Sequence[tuple[float | None, float | None]]:
    return list(zip(_values(draw, count, 0.0, spread), _values(draw, count, change, spread), strict=True))


KINDS: Final[Sequence[tuple[Callable[[random.Random], str], int]]] = (
    (throughput, 10_000),
    (figure, 5_000),
    (compared_figure, 3_000),
    (ratio, 2_000),
)

if __name__ == "__main__":
    for kind, cases in KINDS:
        for number in range(cases):
            print(kind.__name__, number, kind(random.Random(f"{kind.__name__} {number}")))
