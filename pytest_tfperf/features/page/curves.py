"""Throughput over devices, and each figure of the documents beside this machine's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.consequence import outcome_of
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.page.run_facts import figure
from pytest_tfperf.reports.table import shown_names


def scaling_facts(measurements: Iterable[Measurement], published: Sequence[Baseline]) -> list[dict[str, Any]]:
    """Workloads that were measured on several numbers of devices, with the documents' curves of the same workload.

    Efficiency is throughput per device, relative to that of the smallest number of devices; linear scaling is 1.
    """
    groups: dict[tuple[str, str, str], dict[str, Measurement]] = {}
    for one in measurements:
        if outcome_of(one) is not Outcome.INVALID:
            key = one.machine, one.workload.id, one.throughput.unit
            groups.setdefault(key, {})[one.topology] = one
    names = shown_names((one.workload.id, one.name) for group in groups.values() for one in group.values())
    found = []
    for (machine, workload, unit), by_topology in groups.items():
        points = _curve((t, one.throughput.examples_per_sec) for t, one in by_topology.items())
        if _scales(points):
            one = next(iter(by_topology.values()))
            found.append(
                {
                    "machine": machine,
                    "workload": workload,
                    "name": names[workload, one.name],
                    "unit": unit,
                    "points": points,
                    "documents": _documents_curves(workload, unit, published),
                }
            )
    return found


def document_facts(measurements: Sequence[Measurement], published: Iterable[Baseline]) -> list[dict[str, Any]]:
    """Each published figure, with what was measured here for the same workload and topology (None if nothing was)."""
    here: dict[tuple[str, str, str], list[Measurement]] = {}
    for one in measurements:
        if outcome_of(one) is not Outcome.INVALID:
            here.setdefault((one.workload.id, one.topology, one.throughput.unit), []).append(one)
    facts: list[dict[str, Any]] = []
    for row in sorted(published, key=lambda row: (row.machine, row.key.workload, *_devices(row.key.topology))):
        if row.provenance is Provenance.PUBLISHED:
            alike = here.get((row.key.workload, row.key.topology, row.unit))
            facts += [_document(row, one) for one in alike] if alike else [_document(row, None)]
    return facts


def _document(row: Baseline, one: Measurement | None) -> dict[str, Any]:
    rate = one.throughput.examples_per_sec if one else None
    document, _, place = row.source.partition(",")
    return {
        "document": document,
        "place": place.strip(),
        "machine": row.machine,
        "workload": row.key.workload,
        "topology": row.key.topology,
        "unit": row.unit,
        "rate": figure(row.reference, 6),
        "here": figure(rate),
        "here_machine": one.machine if one else None,
        "ratio": figure(rate / row.reference) if rate else None,
        "note": row.note,
    }


def _documents_curves(workload: str, unit: str, published: Sequence[Baseline]) -> list[dict[str, Any]]:
    rows_of: dict[str, list[tuple[str, float]]] = {}
    for row in published:
        if row.provenance is Provenance.PUBLISHED and (row.key.workload, row.unit) == (workload, unit):
            rows_of.setdefault(row.machine, []).append((row.key.topology, row.reference))
    curves: list[dict[str, Any]] = [
        {"machine": machine, "points": _curve(rows)} for machine, rows in sorted(rows_of.items())
    ]
    return [curve for curve in curves if _scales(curve["points"])]


def _scales(points: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the points have different numbers of devices."""
    return len({point["devices"] for point in points}) > 1


def _curve(rates: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    known = sorted((*_devices(topology), topology, rate) for topology, rate in rates)
    fewest, _nodes, _topology, least = known[0]
    return [
        {
            "topology": topology,
            "nodes": nodes,
            "devices": devices,
            "rate": figure(rate),
            "efficiency": figure(rate / devices / (least / fewest), 4),
        }
        for devices, nodes, topology, rate in known
    ]


def _devices(topology: str) -> tuple[int, int]:
    """The number of devices and of nodes in a topology such as "2x4"."""
    parts = [int(part) for part in topology.split("x") if part.isdecimal()]
    return math.prod(parts) or 1, parts[0] if parts else 1
