"""How often lasting changes are reported wrongly, and how late: simulated and recorded series.

    python benchmarks/changes.py [--years 20] [--repeats 200] [--seed 20261122] [--recorded mountpoint-s3]
    python benchmarks/changes.py --red [--years 20] [--repeats 200] [--seed 20261122]
    python benchmarks/changes.py --speed

`--recorded` is a clone with the branch gh-pages of https://github.com/awslabs/mountpoint-s3: a throughput in MiB/s of
each of 22 tests for each commit.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_tfperf.core.past import Series, Value
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.changes.plugin import lasting_losses
from pytest_tfperf.judging.change_points import alarms
from pytest_tfperf.judging.lasting_changes import changes_of

Values = NDArray[np.float64]
Generator = np.random.Generator

YEAR, TESTS = 365, 50
BEFORE, AFTER = 60, 120  # sessions before and after an injected loss
TOLERATED = 20  # a report that is dated so many sessions before the loss still counts as found
LOSSES = (0.01, 0.02, 0.03, 0.05)
SLOPE = math.log1p(-0.02) / 30  # a month has 30 sessions


# Noise, in log rate


def normal(random: Generator, count: int, cv: float) -> Values:
    return random.normal(0, cv, count)


def heavy(random: Generator, count: int, cv: float) -> Values:
    """Student's t with three degrees of freedom; `cv` is its scale."""
    return random.standard_t(3, count) * cv


def correlated(random: Generator, count: int, cv: float) -> Values:
    """Neighbours with a correlation of 0.3."""
    noise, drawn = np.zeros(count), random.normal(0, cv * math.sqrt(1 - 0.3**2), count)
    for index in range(1, count):
        noise[index] = 0.3 * noise[index - 1] + drawn[index]
    return noise


def spells(random: Generator, count: int, cv: float) -> Values:
    """In 2 % of the sessions begin one or two that are slow by 3 to 10 standard deviations."""
    noise = random.normal(0, cv, count)
    for index in np.flatnonzero(random.random(count) < 0.02):
        noise[index : index + random.integers(1, 3)] -= random.uniform(3, 10) * cv
    return noise


def skewed(random: Generator, count: int, cv: float) -> Values:
    """A long tail to the slow side: lognormal."""
    return (math.exp(0.32) - np.exp(random.normal(0, 0.8, count))) * cv


NOISES: dict[str, Callable[[Generator, int, float], Values]] = {
    "normal": normal,
    "heavy tails (t, 3 degrees of freedom)": heavy,
    "skewed to the slow side": skewed,
    "neighbours correlated by 0.3": correlated,
    "slow spells of one or two sessions": spells,
}


Reports = list[list[tuple[int, int]]]
"""Of each series, its reports: the session in which it was reported, and the first session after the change."""


def reports_of(series: Sequence[Values], tests: int = 1) -> Reports:
    return [[(one.found, one.first) for one in alarms(values, tests)] for values in series]


# Tables


def quiet_table(years: int, seed: int) -> None:
    """False alarms a year for 50 tests, of single series."""
    print("\n| noise, CV 1 % | reports a year | of them slowdowns |\n| --- | --- | --- |")
    for name, noise in NOISES.items():
        random = np.random.default_rng(seed)
        series = [noise(random, YEAR, 0.01) for _ in range(TESTS * years)]
        reports = [
            (values, first) for values, of in zip(series, reports_of(series, TESTS), strict=True) for _, first in of
        ]
        slower = sum(_falls(values, first) for values, first in reports)
        print(f"| {name} | {_rate(len(reports), years)} | {_rate(slower, years)} |", flush=True)


def machine_table(years: int, seed: int) -> None:
    """False alarms a year for 50 tests on a machine whose sessions differ, by the production code as a whole."""
    print("\n| 50 tests, CV 0.3 to 5 %, sessions of the machine differ by 1 % | of tests | of the machine |")
    print("| --- | --- | --- |")
    for name, noise in NOISES.items():
        random = np.random.default_rng(seed)
        tests = machine = 0
        for _ in range(years):
            spread = np.exp(random.uniform(math.log(0.003), math.log(0.05), TESTS))
            rates = np.column_stack([noise(random, YEAR, cv) for cv in spread])
            found = changes_of(_results(rates + normal(random, YEAR, 0.01)[:, None]))
            machine += sum(change.test is None for change in found)
            tests += sum(change.test is not None for change in found)
        print(f"| {name} | {_rate(tests, years)} | {_rate(machine, years)} |", flush=True)


def delay_table(repeats: int, seed: int) -> None:
    """Sessions until a loss is reported."""
    print("\n| CV | 1 % | 2 % | 3 % | 5 % | 2 % a month |\n| --- | --- | --- | --- | --- | --- |")
    for cv in (0.005, 0.01, 0.02):
        cells = []
        for loss in (*[np.full(AFTER, math.log1p(-loss)) for loss in LOSSES], SLOPE * np.arange(1, AFTER + 1)):
            random = np.random.default_rng(seed)
            noises = [normal(random, BEFORE + AFTER, cv) for _ in range(repeats)]
            cells.append(_delays(noises, loss))
        print(f"| {cv:.1%} | {' | '.join(cells)} |".replace("%", " %"), flush=True)


def recorded_table(years: int, clone: Path, seed: int) -> None:
    """The same with recorded noise: deviations from a running median, in blocks of ten sessions drawn at random.

    Losses are added to the series with a CV below 2.5 %; reports on the last sessions are for 50 tests.
    """
    recorded = {name: values for name, values in recorded_series(clone).items() if len(values) >= YEAR}
    noises = {name: _deviations(values) for name, values in recorded.items()}
    quiet = [values for values in noises.values() if _spread(values) < 0.025]
    print(f"\n{len(noises)} recorded series of {min(map(len, noises.values()))} to {max(map(len, noises.values()))} "
          f"sessions; {len(quiet)} of them with a CV below 2.5 %")  # fmt: skip
    print("\n| reports a year | 3 % found | 5 % found | 10 % found | reports on the last 365 sessions |")
    print("| --- | --- | --- | --- | --- |")
    random = np.random.default_rng(seed)
    drawn = [_drawn(random, one, YEAR) for one in _cycled(list(noises.values()), TESTS * years)]
    false = _rate(sum(map(len, reports_of(drawn, TESTS))), years)
    short = [_drawn(random, one, BEFORE + AFTER) for one in _cycled(quiet, 3 * len(quiet))]
    cells = " | ".join(_delays(short, np.full(AFTER, math.log1p(-loss))) for loss in (0.03, 0.05, 0.10))
    latest = sum(map(len, reports_of([one[-YEAR:] for one in recorded.values()], TESTS)))
    per_50 = latest / len(recorded) * TESTS
    print(f"| {false} | {cells} | {per_50:.0f} |".replace("%", " %"), flush=True)


def speed_table() -> None:
    """Time of the production code on one core."""
    print("\n| measurements | tests x sessions | CPU seconds |\n| --- | --- | --- |")
    for tests, sessions in ((50, 200), (150, 200), (500, 200), (274, 365), (50, 2000)):
        results = _results(np.random.default_rng(1).normal(0, 0.01, (sessions, tests)))
        spent = []
        for _ in range(3):
            started = time.process_time()
            changes_of(results)
            spent.append(time.process_time() - started)
        print(f"| {tests * sessions:,} | {tests} x {sessions} | {min(spent):.2f} |", flush=True)
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


# Whole machines, session by session, as `--tfperf-fail-on-drift` judges them


def nights(random: Generator) -> Values:
    return np.arange(YEAR) + random.uniform(0, 0.05, YEAR)


def bursts(random: Generator) -> Values:
    """Nights, and in each fortnight one day with seven sessions within 80 minutes."""
    days = np.arange(7, YEAR, 14) + random.uniform(0.2, 0.7, len(range(7, YEAR, 14)))
    return np.sort(np.concatenate([nights(random), *(days + minute / 1440 for minute in np.linspace(0, 80, 7))]))


def unequal(random: Generator) -> Values:
    """Intervals with an exponential distribution, a day in the mean."""
    return np.cumsum(random.exponential(1, YEAR))


def weekdays(random: Generator) -> Values:
    times = nights(random)
    return times[np.arange(YEAR) % 7 < 5]


def load(random: Generator, times: Values, tests: int) -> Values:
    """24 spells of an hour and 24 of a day in a year, in which all tests or half of them are 3 to 20 % slower."""
    slower = np.zeros((len(times), tests))
    for days in (1 / 24, 1.0) * 24:
        begin = random.uniform(0, YEAR)
        of = random.random(tests) < random.choice([0.5, 1.0])
        slower[np.ix_((times >= begin) & (times < begin + days), of)] += math.log1p(-random.uniform(0.03, 0.2))
    return slower


def first_red(rates: Values, times: Values) -> int | None:
    """The first red session; None where none is. From ten sessions after a report on, each fifth is judged."""
    results = _results(rates, times)
    found = sorted(int(change.found_session[1:]) for change in changes_of(results))
    spaced = (session for first in found for session in (*range(first, first + 10), *range(first + 10, len(rates), 5)))
    judged = {session for session in spaced if session < len(rates)}
    red = (
        session
        for session in sorted(judged)
        if lasting_losses(results[: rates.shape[1] * (session + 1)], f"s{session}", {})
    )
    return next(red, None)


def red_table(years: int, seed: int) -> None:
    """Machines of which a session was red in a year without any change, in spells of load."""
    print("\n| red in a year, nothing changed | 1 test | 5 tests | 50 tests |\n| --- | --- | --- | --- |")
    worlds = [(nights, noise) for noise in (normal, heavy, skewed, correlated)]
    worlds += [(schedule, normal) for schedule in (bursts, unequal, weekdays)]
    for schedule, noise in worlds:
        cells = []
        for tests, count in ((1, 20 * years), (5, 20 * years), (50, 2 * years)):
            random, red = np.random.default_rng([seed, tests]), 0
            for _ in range(count):
                times = schedule(random)
                rates = np.column_stack([noise(random, len(times), 0.01) for _ in range(tests)])
                red += first_red(rates + load(random, times, tests), times) is not None
            cells.append(_share(red, count))
        print(f"| {schedule.__name__}, {noise.__name__} | {' | '.join(cells)} |", flush=True)


def red_steps_table(repeats: int, seed: int) -> None:
    """Steps of one of five tests: when a night is first red, and how it goes on, also after the step is fixed."""
    print("\n| sessions differ by | step | red within 7 sessions | 14 sessions | later ones | 6 after the fix |")
    print("| --- | --- | --- | --- | --- | --- |")
    judged = [*range(BEFORE + 4, BEFORE + 14), *range(BEFORE + 20, BEFORE + 60, 10)]
    for cv, step in itertools.product((0.005, 0.01, 0.02), (0.03, 0.05)):
        random, first, later, fixed = np.random.default_rng(seed), [], [], []
        for _ in range(repeats):
            times = nights(random)[: BEFORE + 66]
            rates = np.column_stack([normal(random, len(times), cv) for _ in range(5)]) + load(random, times, 5)
            rates[BEFORE:-6, 0] += math.log1p(-step)
            results = _results(rates, times)
            red = {night: _is_red(results[: 5 * (night + 1)]) for night in judged}
            first.append(min((night - BEFORE + 1 for night in judged if red[night]), default=math.inf))
            later += [red[night] for night in judged[-4:]]
            fixed.append(_is_red(results))
        within = [[one <= most for one in first] for most in (7, 14)]
        cells = [_share(sum(of), len(of)) for of in (*within, later, fixed)]
        print(f"| {cv:.1%} | {step:.0%} | {' | '.join(cells)} |".replace("%", " %").replace("  %", " %"), flush=True)


def _is_red(results: Sequence[Value]) -> bool:
    """Whether the last session is red for the test with the step."""
    return any(loss.test == "test_0" for loss in lasting_losses(results, results[-1].session, {}))


# Recorded series


def recorded_series(clone: Path) -> dict[str, Values]:
    """Log MiB/s of each test over all commits: each commit of the branch holds the latest 30."""
    found: dict[str, Values] = {}
    for path in ("dev/bench/data.js", "dev/s3-express/bench/data.js"):
        shas = _git(clone, "log", "--format=%H", "gh-pages", "--", path).split()
        points: dict[tuple[int, str], dict[str, float]] = {}
        for sha in [*shas[::8], shas[-1]]:
            for entries in _entries(_git(clone, "show", f"{sha}:{path}")):
                for entry in entries:
                    benches = {bench["name"]: float(bench["value"]) for bench in entry["benches"]}
                    points[entry["date"], entry["commit"]["id"]] = benches
        for name in sorted({name for benches in points.values() for name in benches}):
            values = [points[at][name] for at in sorted(points) if points[at].get(name, 0) > 0]
            found[f"{path.split('/')[1]} {name}"] = np.log(values)
    return found


def _entries(text: str) -> list[list[dict[str, Any]]]:
    try:
        return list(json.loads(text[text.index("{") :].rstrip().rstrip(";"))["entries"].values())
    except ValueError:  # a commit without results
        return []


def _git(clone: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=True).stdout


def _deviations(values: Values) -> Values:
    half = 15
    middles = [np.median(values[max(0, at - half) : at + half + 1]) for at in range(len(values))]
    return values - middles


def _drawn(random: Generator, values: Values, count: int, block: int = 10) -> Values:
    starts = random.integers(0, len(values) - block + 1, count // block + 1)
    return np.concatenate([values[at : at + block] for at in starts])[:count]


def _cycled(series: Sequence[Values], count: int) -> list[Values]:
    return [series[at % len(series)] for at in range(count)]


def _spread(values: Values) -> float:
    return 1.4826 * float(np.median(np.abs(values)))


# What the tables share


def _delays(noises: Sequence[Values], loss: Values) -> str:
    """Median sessions until the loss is reported, and the share that is reported at all."""
    lossy = [np.concatenate((noise[:BEFORE], noise[BEFORE:] + loss)) for noise in noises]
    waited = []
    for reports in reports_of(lossy):
        sessions = [at - BEFORE + 1 for at, first in reports if at >= BEFORE and first >= BEFORE - TOLERATED]
        waited.append(min(sessions, default=math.inf))
    middle, found = statistics.median(waited), sum(map(math.isfinite, waited)) / len(waited)
    return f"{middle:.0f} ({found:.0%})" if math.isfinite(middle) else f"- ({found:.0%})"


def _falls(values: Values, first: int) -> bool:
    return float(np.median(values[first : first + 3])) < float(np.median(values[max(0, first - 10) : first]))


def _rate(count: int, years: int) -> str:
    """A Poisson rate with its 95 % interval (Garwood)."""
    from scipy.stats import chi2

    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return f"{count / years:.1f} ({low / years:.1f} to {chi2.ppf(0.975, 2 * count + 2) / 2 / years:.1f})"


def _results(rates: Values, times: Values | None = None) -> list[Value]:
    """The results of a year; `times` are in days, by default a session each night."""
    start = datetime(2026, 1, 1, 3, tzinfo=UTC)
    return [
        Value(
            series=Series("simulated", f"test_{test}", "w", "1x1"),
            session=f"s{session}",
            at=int((start + timedelta(days=session if times is None else float(times[session]))).timestamp()),
            unit="images",
            value=1000 * math.exp(rate),
            low=0.0,
            high=0.0,
            outcome=Outcome.PASS,
            runs=1,
            seconds=1.0,
            baseline=1000.0,
        )
        for session, row in enumerate(rates)
        for test, rate in enumerate(row)
    ]


def _share(count: int, of: int) -> str:
    """A share in percent with its 95 % interval (Clopper and Pearson)."""
    from scipy.stats import beta

    low = beta.ppf(0.025, count, of - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, of - count) if count < of else 1.0
    return f"{count / of:.1%} ({low:.1%} to {high:.1%})".replace("%", " %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, default=20, help="simulated years of 50 tests")
    parser.add_argument("--repeats", type=int, default=200, help="simulated losses of each cell")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--recorded", type=Path, metavar="CLONE")
    parser.add_argument("--red", action="store_true", help="only whole machines, judged as --tfperf-fail-on-drift does")
    parser.add_argument("--speed", action="store_true", help="only measure the time")
    options = parser.parse_args()
    if options.speed:
        speed_table()
        return
    if options.red:
        red_table(options.years, options.seed)
        red_steps_table(options.repeats, options.seed)
        return
    quiet_table(options.years, options.seed)
    machine_table(options.years, options.seed)
    delay_table(options.repeats, options.seed)
    if options.recorded:
        recorded_table(options.years, options.recorded, options.seed)
    print(f"\nseed {options.seed}, {options.years} years, {options.repeats} losses a cell")


if __name__ == "__main__":
    main()
