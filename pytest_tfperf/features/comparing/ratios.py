"""The message of a test whose measured ratio is below the documents' ratio."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.reports.message import with_lines
from pytest_tfperf.reports.numbers import percent, rate


def message(pairs: Sequence[tuple[float, float]], figure: Baseline, over: Baseline, least: float, rerun: str) -> str:
    """Fact, location, next step.

    Args:
        pairs: measured images/s of the workload and of what it is divided by.
        figure, over: the documents' two figures.
        least: the ratio that would have passed.
        rerun: the command that measures the test again.
    """
    published = figure.reference / over.reference
    now = median(one / other for one, other in pairs)
    lines = [
        ("measured", "  ".join(f"{rate(a)} / {rate(b)} = {a / b:.3f}" for a, b in pairs)),
        ("threshold", f"fails below {least:.3f}    ({published:.3f}, tolerance {percent(1 - least / published)})"),
        (
            "document",
            f"{rate(figure.reference)} / {rate(over.reference)} on {figure.machine}: "
            f"{figure.source}; over {over.source}",
        ),
        ("rerun", rerun),
    ]
    headline = (
        f"{figure.key.workload} on {figure.key.topology} over {over.key.workload} on {over.key.topology}: {now:.3f}, "
        f"{percent(1 - now / published)} below the documents' {published:.3f}"
    )
    return with_lines(headline, lines)
