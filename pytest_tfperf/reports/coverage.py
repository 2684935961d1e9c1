"""What `--tfperf-coverage` prints: how many of the documents' figures have a test, and those that have none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_tfperf.baseline import Baseline


def coverage(published: Sequence[Baseline], without: Sequence[Baseline]) -> list[str]:
    """One line for each document, one for each row without a test, and what to do about those."""
    all_rows, missing = Counter(map(_document, published)), Counter(map(_document, without))
    lines = [f"{name}: {count - missing[name]} of {count} figures have a test" for name, count in all_rows.items()]
    lines += [f"no test: {row.key.workload} {row.key.topology} on {row.machine} ({row.source})" for row in without]
    if without:
        lines.append("a test measures a row where it is marked gpu and its parameters are the Workload, gpus and nodes")
    return lines


def _document(row: Baseline) -> str:
    """A source begins with its document's name."""
    return row.source.partition(",")[0]
