"""What pytest-benchmark gets from our tests: a timer, rounds, and rows of its table if its options ask for them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.session.reporting import FIXTURE, SESSION

BenchmarkGroups = Sequence[tuple[str | None, Sequence[dict[str, Any]]]]
"""What one table of pytest-benchmark shows: each group's name, and its tests."""


def asks_for_benchmarks(config: pytest.Config) -> bool:
    """Whether an option of pytest-benchmark's was given, other than the one that silences it."""
    words = [*config.invocation_params.args, *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    words += config.getini("addopts")
    return any(str(word).startswith("--benchmark-") and word != "--benchmark-quiet" for word in words)


def without_ours(config: pytest.Config, groups: BenchmarkGroups) -> BenchmarkGroups:
    """The groups without throughput tests, which have a table of their own, and without empty groups."""
    ours = config.stash[SESSION].selection
    left = [(name, [test for test in tests if test["fullname"] not in ours]) for name, tests in groups]
    return [(name, tests) for name, tests in left if tests]


def set_clock(item: pytest.Item) -> None:
    """Give pytest-benchmark our timer, beside what the test's own `benchmark` marker says."""
    from pytest_tfperf.reports.pytest_benchmark import window_clock

    own = item.get_closest_marker("benchmark")
    item.add_marker(pytest.mark.benchmark(**{**(own.kwargs if own else {}), "timer": window_clock}), append=False)


def feed_benchmark(item: pytest.Item, benchmark: Any) -> None:
    """The windows of the first check as pytest-benchmark's rounds; a test without a valid measurement has none."""
    from pytest_tfperf.core.consequence import outcome_of
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.reports.pytest_benchmark import feed

    fixture = item.stash[FIXTURE]
    measured = [result for result in fixture.outcomes.results if isinstance(result, Measurement)]
    if measured and outcome_of(measured[0]) is not Outcome.INVALID and not fixture.outcomes.is_undecided:
        feed(benchmark, measured[0])
    else:
        benchmark.skipped = True  # otherwise pytest-benchmark warns that its fixture was not used
