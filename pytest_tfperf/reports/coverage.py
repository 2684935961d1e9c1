"""What `--tfperf-coverage` prints: how many of the documents' figures have a test, and those that have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_tfperf.core.baseline import Baseline, Key


def coverage(published: Sequence[Baseline], without: Sequence[Baseline], not_built: Mapping[Key, str]) -> list[str]:
    """One line for each document, one for each workload without a test, and what to do about those.

    Args:
        published: all rows.
        without: those without a test.
        not_built: why this version can't train a row's workload, where it can't.
    """
    missing = set(without)
    lines = []
    for name, rows in _by_document(published).items():
        tested = [row for row in rows if row not in missing]
        words = [not_built[row.key] for row in tested if row.key in not_built]
        skipped = f", {len(words)} of them not built yet ({', '.join(dict.fromkeys(words))})" if words else ""
        lines.append(f"{name}: {len(tested)} of {len(rows)} figures have a test{skipped}")
    for name, rows in _by_document(without).items():
        by_workload: dict[str, list[Baseline]] = {}
        for row in rows:
            by_workload.setdefault(row.key.workload, []).append(row)
        lines += [_no_test(name, workload, found) for workload, found in by_workload.items()]
    if without:
        lines.append("a test measures a row where it is marked gpu and its parameters are the Workload, gpus and nodes")
    return lines


def _no_test(name: str, workload: str, rows: Sequence[Baseline]) -> str:
    topologies = ", ".join(sorted({row.key.topology for row in rows}))
    machines = ", ".join(sorted({row.machine for row in rows}))
    figures = "1 figure" if len(rows) == 1 else f"{len(rows)} figures"
    return f"no test: {workload} on {topologies} ({figures} of {name}, of {machines})"


def _by_document(rows: Sequence[Baseline]) -> dict[str, list[Baseline]]:
    """A source begins with its document's name."""
    found: dict[str, list[Baseline]] = {}
    for row in rows:
        found.setdefault(row.source.partition(",")[0], []).append(row)
    return found
