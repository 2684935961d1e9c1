"""A test's measurements as properties of its test case in JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.consequence import outcome_of
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.measurement_table import outcome
from pytest_tfperf.safe_text import printable

PREFIX = "tfperf_"
"""The beginning of each property's name."""

Property = tuple[str, str | float]


def properties(results: Sequence[Measurement | Comparison]) -> list[Property]:
    """The properties of a test: `tfperf_outcome` is of its first call, `tfperf_2_outcome` of its second.

    Fractions are signed: a change of -0.13 is 13 % slower. Unknown values are left out.
    """
    found: list[Property] = []
    for number, result in enumerate(results, 1):
        prefix = PREFIX if number == 1 else f"{PREFIX}{number}_"
        facts = _measured(result) if isinstance(result, Measurement) else _compared(result)
        found += [(prefix + name, _rounded(value)) for name, value in facts.items() if value is not None]
    return found


def _measured(m: Measurement) -> dict[str, str | float | None]:
    verdict, t = m.verdict, m.throughput
    row = verdict.baseline if verdict else None
    return {
        "outcome": outcome(m),
        "workload": m.workload.id,
        "topology": m.topology,
        "machine": m.machine,
        "unit": f"{t.unit}/s",
        "examples_per_sec": None if outcome_of(m) is Outcome.INVALID else t.examples_per_sec,
        "baseline": row.reference if row else None,
        "change": verdict.change if verdict else None,
        "confirmed_change": verdict.confirmed_change if verdict else None,
        "threshold": -verdict.threshold if verdict and verdict.threshold else None,
    }


def _compared(c: Comparison) -> dict[str, str | float | None]:
    return {
        "outcome": outcome(c),
        "a": c.a.workload.id,
        "b": c.b.workload.id,
        "topology": c.topology,
        "machine": c.machine,
        "ratio": None if c.outcome is Outcome.INVALID else c.ratio,
    }


def _rounded(value: str | float) -> str | float:
    """A number with six digits, which are more than any measurement has; a text as it may be shown."""
    return printable(value) if isinstance(value, str) else float(f"{value:.6g}")
