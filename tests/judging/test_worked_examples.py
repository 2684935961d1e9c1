"""Worked examples of the judgement, with all of their figures: a change of any formula shows in expected/*.txt.

The laws are in the other files. These hold what no law says: how much, to six digits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.past import EarlierMeasurement, SessionChanges
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Noise, Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.judging.change_points import alarms, shapes
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.lasting_changes import changes_of
from pytest_tfperf.judging.noise import noise_of
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.judging.session_effects import CommonDrift, learnt_baseline, session_variance
from pytest_tfperf.judging.software_and_machine import ReferencePairs, judge_machine, judge_sentinels
from pytest_tfperf.judging.target import Target, provisional_baseline, target_for
from pytest_tfperf.judging.unrecorded import unrecorded_tests
from pytest_tfperf.judging.validity import settled_from, why_not_steady
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import KEY, NOISE, baseline, figure_evidence, measurement, pair, run, run_at, throughput
from tests.helpers.past_results import past_figure, past_results, quiet_tests


def shown(value: object, name: str = "") -> Iterator[str]:
    """Each field on a line, numbers to six digits; what is None, empty or 0 is left out."""
    if is_dataclass(value):
        for field in fields(value):
            yield from shown(getattr(value, field.name), f"{name}.{field.name}".lstrip("."))
    elif isinstance(value, Enum):
        yield f"{name} {value.name}"
    elif isinstance(value, float):
        yield f"{name} {value:.6g}"
    elif isinstance(value, list | tuple) and all(isinstance(one, float | int) for one in value):
        if value:
            yield f"{name} {'  '.join(f'{one:.6g}' for one in value)}"
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from shown(one, f"{name}[{index}]")
    elif value:
        yield f"{name} {value}"


def sessions(*changes: float, outcome: Outcome = Outcome.PASS) -> list[SessionChanges]:
    return [SessionChanges(str(number), (change,), outcome) for number, change in enumerate(changes)]


PAST = [*sessions(-0.004, 0.006, 0.011), SessionChanges("two", (-0.01, 0.002), Outcome.PASS), *sessions(*[0.003] * 4)]
REGRESSED = sessions(-0.06, -0.07, outcome=Outcome.REGRESSED)
SLOW = (-0.05, -0.06, -0.055, -0.052, -0.07, -0.049, -0.058, -0.061)


def verdict(*runs: float, pairs: Sequence[float] | None = None, target: Target | None = None, **more: Any) -> Any:
    """Of runs, and of pairs with a reference environment, that differ by these fractions."""
    if pairs is not None:
        more |= {"pairs": [pair(change) for change in pairs], "has_reference_environment": True}
    return without_inputs(
        judge(
            Evidence(
                throughput=throughput(*(1000.0 * (1 + change) for change in runs), error=0.002),
                target=target or Target(baseline(), noise=NOISE),
                tolerance=Tolerance(),
                **more,
            )
        )
    )


def without_inputs(found: Verdict) -> Verdict:
    return replace(found, baseline=None, tolerance=None)


def test_verdicts(same_texts: SameTexts) -> None:
    floor = baseline(500.0, provenance=Provenance.PUBLISHED, machine="paper", runs=1, between_runs=None)
    earlier = baseline(provenance=Provenance.PROVISIONAL)
    few: dict[str, Any] = {"tests": 5, "variance": session_variance(tests=5)}
    texts = {
        "a good first run of one test": verdict(-0.01),
        "a good first run of 50 tests in a slow session": verdict(-0.03, drift=CommonDrift(-0.02, 50, 0.002), tests=50),
        "a fast first run": verdict(0.2, tests=20),
        "a first run that is suspected": verdict(-0.05),
        "eight slow runs": verdict(*SLOW, tests=4, drift=CommonDrift(0.01, 12, 0.003)),
        "ten runs of a test with a history": verdict(*SLOW, -0.05, -0.04, past=PAST, tests=30),
        "of few tests, the others as slow": verdict(*SLOW, others=-0.05, **few),
        "of few tests, the others as before": verdict(*SLOW, others=0.001, **few),
        "runs that disagree": verdict(-0.2, -0.2, -0.2, -0.2, -0.2, 0.0, 0.0, 0.0),
        "one run of a log": verdict(-0.3, max_runs=1),
        "a first run that pairs will confirm": verdict(-0.05, pairs=(), suspects=3),
        "two pairs": verdict(-0.05, pairs=(-0.05, -0.055), suspects=3),
        "twelve pairs": verdict(-0.05, pairs=(*SLOW, -0.05, -0.06, -0.04, -0.055), suspects=3, tests=10),
        "twelve pairs of wild scatter": verdict(-0.05, pairs=(-0.3, 0.2, -0.25, 0.15, -0.1, -0.2) * 2, suspects=3),
        "above a document's floor": verdict(0.1, target=Target(floor, is_floor=True, noise=NOISE)),
        "against earlier sessions": verdict(*SLOW[:3], target=Target(earlier, noise=NOISE)),
    }
    same_texts("verdicts", {name: shown(found) for name, found in texts.items()})


def test_figures(same_texts: SameTexts) -> None:
    memory, loss = Figure("peak_memory"), Figure("loss", limit=2.5)
    latency = Figure("p50", field="p50", unit="ms", tolerance=0.002)
    noise = Noise(between_runs=0.01, degrees_of_freedom=40)

    def judged(figure: Figure, *values: float, value: float, **more: Any) -> Iterator[str]:
        row = baseline(value, key=KEY._replace(figure=figure.name), unit=figure.unit)
        found = judge(figure_evidence(figure, values, row, noise, **more))
        return shown(replace(found, figure=None, baseline=None))  # type: ignore[arg-type]

    def compared(figure: Figure, *pairs: tuple[float, float], **more: Any) -> Iterator[str]:
        given = {"is_comparison": True, "terms": Terms(), "rank": "rank 3"} | more
        found = judge(figure_evidence(figure, (), None, None, pairs=pairs, **given))
        return shown(replace(found, figure=None))  # type: ignore[arg-type]

    close = ((100.0, 101.0), (100.4, 101.2), (99.8, 100.9), (100.1, 101.4))
    same_texts(
        "figures",
        {
            "memory that grew a little": judged(memory, 8.05e9, value=8e9, rank="rank 1"),
            "memory that grew": judged(memory, 9e9, 9.1e9, 9.05e9, value=8e9, tests=6),
            "memory that shrank": judged(memory, 7e9, value=8e9, tests=6),
            "a loss in eight runs": judged(loss, *[2.2, 2.21, 2.19, 2.2] * 2, value=2.0, suspects=3),
            "a loss beyond its limit": judged(loss, 2.6, 2.7, 2.8, value=2.5),
            "a time in a slow session": judged(
                latency, *[22.0, 22.4] * 4, value=20.0, drift=CommonDrift(-math.log(1.05), 9)
            ),
            "a time in pairs": judged(
                latency,
                *(22.0,),
                value=20.0,
                pairs=[(20.0, 22.0), (20.2, 22.1), (20.1, 22.3), (19.9, 22.0)] * 3,
                has_reference_environment=True,
                suspects=2,
            ),
            "compared, close": compared(latency, *close),
            "compared, close, among three": compared(latency, *close, suspects=3, terms=Terms(max_pairs=4)),
            "compared, worse": compared(latency, *((a, b + 4) for a, b in close)),
            "compared, better": compared(latency, *((a, b - 6) for a, b in close)),
            "a compared loss": compared(loss, *((a / 50, b / 50) for a, b in close)),
            "a compared loss beyond its limit": compared(loss, *((a / 40, b / 40) for a, b in close)),
        },
    )


def test_pairs(same_texts: SameTexts) -> None:
    ratios = [-0.004, 0.012, -0.02, 0.006, 0.001, -0.013, 0.018, -0.4, 0.003, -0.007, 0.3, 0.002]

    def compared(ratios: Sequence[float], **more: Any) -> Iterator[str]:
        pairs = [replace(pair(math.expm1(ratio)), error=0.004) for ratio in ratios]
        of_b = throughput(*(1000.0 for _ in pairs))
        given: dict[str, Any] = {"is_comparison": True, "terms": Terms()} | more
        found = judge(Evidence(throughput=of_b, target=Target(), tolerance=Tolerance(), pairs=pairs, **given))
        return shown(replace(found, figure=None, tolerance=None))  # type: ignore[arg-type]

    strict = Terms(false_alarms=0.001, false_passes=0.004)
    all_of = {f"{n} pairs": compared(ratios[:n]) for n in (2, 3, 5, 9, 12)}
    slower = {f"{count} slower ones": compared([x - 0.08 for x in ratios[:count]]) for count in (3, 7)}
    same_texts("pairs", all_of | slower | {"of few errors": compared([0.1] * 6, terms=strict)})


def test_noise_and_references(same_texts: SameTexts) -> None:
    deviations = (0.004, 0.012, 0.03, 0.009, 0.02, 0.0)
    rows = [
        baseline(key=KEY._replace(topology=f"1x{number}"), between_runs=sd, runs=4 + number)
        for number, sd in enumerate(deviations)
    ]
    alike = [replace(row, between_runs=0.01, runs=5) for row in rows]
    unknown = baseline(key=KEY._replace(topology="9x9"), between_runs=None, runs=1)
    earlier = [
        EarlierMeasurement(
            session=f"s{number}",
            date=f"2026-01-0{number + 1}",
            runs=tuple(RunValue(math.log(rate), 0.004, 20) for rate in rates),
            unit="tokens",
            gpu="",
            environment={"tensorflow": "2.21"},
        )
        for number, rates in enumerate([(1000.0,), (1010.0, 990.0, 700.0), (1004.0,)])
    ]
    provisional = {KEY: provisional_baseline("box", KEY, earlier)}
    no_gpu: dict[str, Any] = {"gpu_fp32_tflops": None, "provisional": provisional}
    cases = {f"a row of {row.between_runs}": noise_of(row, rows) for row in rows} | {
        "one row": noise_of(rows[1], rows[1:2]),
        "rows that are alike": noise_of(alike[0], alike),
        "a row that knows nothing": noise_of(unknown, [*rows, unknown]),
        "a machine that knows nothing": noise_of(unknown, [unknown]),
        "earlier sessions": target_for({}, (), "box", KEY, **no_gpu),
        "earlier sessions beside rows": target_for({row.key: row for row in rows}, (), "box", KEY, **no_gpu),
    }
    same_texts("noise", {name: shown(found) for name, found in cases.items()})


def test_sessions(same_texts: SameTexts) -> None:
    histories = {
        "nothing": [],
        "a quiet row": [(NOISE, 5, PAST)],
        "a restless row": [(replace(NOISE, between_runs=0.004), 5, sessions(0.02, -0.015, 0.03, -0.02, 0.01, -0.03))],
        "a lasting change": [(NOISE, 5, [*PAST, *REGRESSED])],
        "one that comes and goes": [(NOISE, 1, [*REGRESSED[:1], *sessions(0.0), *REGRESSED[:1]])],
        "one in doubt": [(NOISE, 5, [*PAST, *sessions(-0.04, outcome=Outcome.INCONCLUSIVE), *REGRESSED])],
        "a very large change": [(NOISE, 5, [*PAST, *sessions(-0.5, outcome=Outcome.REGRESSED)])],
    }
    texts = {}
    for name, rows in histories.items():
        for tests in (5, 50):
            found = session_variance(rows, tests=tests)
            texts[f"{name}, {tests} tests"] = [
                f"{title} {value:.6g}"
                for title, value in (("mean", found.mean), ("upper", found.upper), ("shared", found.upper_of_shared))
            ]
    learnt = {f"the baseline at {sigma}": learnt_baseline(NOISE, 5, PAST * 2, sigma) for sigma in (0.0, 0.003)}
    same_texts("sessions", texts | {name: shown(found) for name, found in learnt.items()})


def test_software_and_machine(same_texts: SameTexts) -> None:
    def measured(*changes: Sequence[float], machine: float = 0.0) -> list[ReferencePairs]:
        """Tests with pairs of these changes, whose reference environment ran faster than its row by `machine`."""
        return [
            ReferencePairs(
                baseline(1000.0 / (1 + machine + number / 500), between_runs=0.01),
                NOISE,
                list(map(pair, of_test)),
                test=f"test_it.py::test_{number}",
                first_change=machine + number / 500 + of_test[0],
            )
            for number, of_test in enumerate(changes)
        ]

    one, slow = (-0.01, 0.004, -0.013, 0.002), (-0.06, -0.05, -0.055, -0.065)
    software = {
        "one pair each, slow": measured(slow[:1], slow[1:2], slow[2:3], slow[3:]),
        "two pairs each, as before": measured(one[:2], one[2:], one[1:3], one[:2]),
        "four pairs each, slow": measured(slow, slow[::-1], slow, slow),
        "one of three disagrees": measured(slow, slow, [0.01, 0.012, 0.009, 0.011]),
        "tests disagree": measured(slow, one, [x * 4 for x in slow], one),
        "in doubt": measured([-0.03, -0.05] * 2, [-0.05, 0.0] * 2, [-0.04, -0.01] * 2, [-0.05, -0.02] * 2),
        "a wild machine": measured([-0.2, 0.1] * 2, [-0.1, 0.05] * 2, [-0.3, 0.1] * 2, [-0.1, 0.02] * 2),
    }
    machine = {
        "by its drift": judge_machine(CommonDrift(-0.08, 20, 0.004)),
        "of few tests": judge_machine(CommonDrift(tests=3), measured(one, one, machine=-0.1)),
        "by three tests' pairs": judge_machine(CommonDrift(-0.08, 20, 0.004), measured(one, one, one, machine=-0.1)),
        "by four tests' pairs": judge_machine(
            CommonDrift(-0.08, 20, 0.004), measured(one, one, one[:2], one, machine=-0.1), between_sessions=0.004
        ),
        "a faster machine": judge_machine(CommonDrift(0.08, 20, 0.004), measured(one, one, one, one, machine=0.1)),
        "a drift that its tests' scatter explains": judge_machine(CommonDrift(-0.06, 9, 0.04)),
    }
    texts = {name: judge_sentinels(found, Tolerance()) for name, found in software.items()} | machine
    same_texts("software_and_machine", {name: shown(found) for name, found in texts.items()})


def test_lasting_changes(same_texts: SameTexts) -> None:
    texts: dict[str, Any] = {}
    for seed in range(6):
        draw = np.random.default_rng(seed)
        values = draw.normal(0, 0.01, 150)
        values[60:] += (-0.03, 0.04, -0.02, 0.025, -0.05, 0.02)[seed]
        values[110:] += (0.03, 0.03, -0.03, -0.02, 0.05, 0.03)[seed] * (np.minimum(np.arange(40), 30) / 30)
        texts[f"series {seed}"] = [line for one in shapes(values, alarms(values)) for line in shown(one)]
    for seed in range(3):
        draw = np.random.default_rng(seed)
        values = np.zeros(140)
        for index, step in enumerate(draw.normal(0, 0.01, 140)):
            values[index] = step + 0.4 * values[max(index - 1, 0)]
        values[70:] -= 0.04
        texts[f"neighbours are alike {seed}"] = [line for one in shapes(values, alarms(values)) for line in shown(one)]
    draw, places = np.random.default_rng(9), np.arange(120)
    decline = draw.normal(0, 0.005, 120) - 0.08 * np.clip((places - 60) / 60, 0, 1)
    back = draw.normal(0, 0.005, 120) - 0.06 * np.interp(places, [40, 60, 80, 100], [0, 1, 1, 0])
    for name, values in {"a decline that goes on": decline, "a decline that is mended slowly": back}.items():
        texts[name] = [line for one in shapes(values, alarms(values)) for line in shown(one)]
    tests = quiet_tests(10, 90)
    tests = {name: rates - 0.03 * (np.arange(90) >= 50) for name, rates in tests.items()}
    tests["test_4"][30:] -= 0.05
    tests["test_2"] += 0.08 * np.clip((np.arange(90) - 40) / 30, 0, 1)
    scores = list(np.random.default_rng(4).normal(0, 0.05, 40) - np.repeat([2.0, 3.0], 20))
    sizes = list(8e9 * (1 + np.random.default_rng(5).normal(0, 0.004, 40)) * np.repeat([1.0, 1.1], 20))
    score = Figure("score", field="score", better="higher", absolute=0.1)
    results = [*past_results(tests), *past_figure(score, scores), *past_figure(Figure("peak_memory"), sizes)]
    texts["a machine"] = [line for change in changes_of(results) for line in [*shown(change), ""]]
    same_texts("lasting_changes", texts)


def test_steady_states(same_texts: SameTexts) -> None:
    def windows(*rates: float, scatter: float = 0.01) -> list[Window]:
        draw = random.Random(3)
        return [Window(2, 2 / (rate * (1 + draw.gauss(0, scatter)))) for rate in rates]

    cases = {
        "a slow start": windows(*[60.0] * 7, *[100.0] * 33),
        "a start that is slower by little": windows(*[97.0] * 7, *[100.0] * 33),
        "a start that is faster": windows(*[115.0] * 7, *[100.0] * 33),
        "a long slow start": windows(*[60.0] * 15, *[100.0] * 25),
        "a slow fall": windows(*(120 - number / 2 for number in range(60))),
        "a fall that ends": windows(*[120.0] * 21, *[110.0] * 20, *[100.0] * 22),
        "a spell in the middle": windows(*[100.0] * 20, *[70.0] * 20, *[100.0] * 20),
        "two speeds": windows(*[100.0, 80.0, 100.0] * 20),
        "two speeds that are near": windows(*[100.0, 91.0] * 30),
        "two speeds, few slow ones": windows(*[100.0, 100.0, 100.0, 100.0, 70.0] * 12),
        "two speeds, noisy": windows(*[100.0, 80.0] * 30, scatter=0.06),
        "noise": windows(*[100.0] * 60, scatter=0.1),
        "a slow start of skewed windows": windows(*[70.0] * 6, *[100.0, 98.0, 101.0, 99.0, 88.0] * 8, scatter=0.02),
    }
    texts = {}
    for name, made in cases.items():
        for fetches in (False, True):
            why = why_not_steady(made, fetches=fetches)
            texts[f"{name}{', batches are fetched' if fetches else ''}"] = [
                f"from {settled_from(made, fetches=fetches)}",
                *shown(why),
            ]
    same_texts("steady_states", texts)


def test_tests_without_a_baseline(same_texts: SameTexts) -> None:
    new = Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE)
    today = [
        measurement(throughput(1000.0, error=error), runs=(run_at(1000.0),), verdict=new) for error in (0.001, 0.03)
    ]
    noisy = [measurement(throughput(1000.0, error=0.2), runs=(run_at(1000.0),), verdict=new)]
    recorded = [measurement(throughput(1000.0), runs=(run([0.064] * 5),))]
    cases = {"two": today, "beside recorded ones": [*today, *recorded], "a noisy one": noisy}
    facts = {
        name: unrecorded_tests([m for m in found if m.is_unrecorded], Tolerance()) for name, found in cases.items()
    }
    same_texts("unrecorded", {name: shown(fact) for name, fact in facts.items()})
