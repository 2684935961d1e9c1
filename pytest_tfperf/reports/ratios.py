"""What a test says where a ratio fell short of the documents'."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pytest_tfperf.judging.published_ratios import PublishedRatio
from pytest_tfperf.reports.numbers import percent, rate


def message(pairs: Sequence[tuple[float, float]], published: PublishedRatio, least: float, rerun: str) -> str:
    """Fact, place, next step; `pairs` are images/s of either side, `least` is what would have passed."""
    figure, over = published.figure, published.over
    ratios = [one / other for one, other in pairs]
    now = median(ratios)
    lines = [
        f"{figure.key.workload} on {figure.key.topology} over {over.key.workload} on {over.key.topology}: {now:.3f}, "
        f"{percent(1 - now / published.value)} below the documents' {published.value:.3f}",
        f"  measured    {'  '.join(f'{rate(a)} / {rate(b)} = {a / b:.3f}' for a, b in pairs)}",
        f"  least       {least:.3f}    ({published.value:.3f}, tolerance {percent(1 - least / published.value)})",
        f"  document    {rate(figure.reference)} / {rate(over.reference)} on {figure.machine}: "
        f"{figure.source}; over {over.source}",
        f"  rerun       {rerun}",
    ]
    return "\n".join(lines)
