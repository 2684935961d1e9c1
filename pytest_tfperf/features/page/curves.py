"""The page's curves: throughput over devices beside the documents', and windows and telemetry of runs over time.

Numbers have few digits, because a year of sessions has 100,000 of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import moment
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.reports.invalid import disturbance_fact
from pytest_tfperf.reports.table import shown_names


def scaling_facts(measurements: Iterable[Measurement], published: Sequence[Baseline]) -> list[dict[str, Any]]:
    """Return workloads measured on several numbers of devices, with the documents' curves of the same workload.

    Efficiency is throughput per device, relative to that of the smallest number of devices; linear scaling is 1.
    """
    groups: dict[tuple[str, str, str], dict[str, Measurement]] = {}
    for m in measurements:
        if m.is_valid:
            key = m.machine, m.workload.id, m.throughput.unit
            groups.setdefault(key, {})[m.topology] = m
    names = shown_names((m.workload.id, m.name) for group in groups.values() for m in group.values())
    facts = []
    for (machine, workload, unit), by_topology in groups.items():
        points = _curve((topology, m.throughput.examples_per_sec) for topology, m in by_topology.items())
        if _scales(points):
            first = next(iter(by_topology.values()))
            facts.append(
                {
                    "machine": machine,
                    "workload": workload,
                    "name": names[workload, first.name],
                    "unit": unit,
                    "points": points,
                    "documents": _documents_curves(workload, unit, published),
                }
            )
    return facts


def document_facts(measurements: Sequence[Measurement], published: Iterable[Baseline]) -> list[dict[str, Any]]:
    """Return each published figure beside the throughput measured here for the same workload and topology, if any."""
    here: dict[tuple[str, str, str], list[Measurement | None]] = {}
    for m in measurements:
        if m.is_valid:
            here.setdefault((m.workload.id, m.topology, m.throughput.unit), []).append(m)
    facts: list[dict[str, Any]] = []
    for row in sorted(published, key=lambda row: (row.machine, row.key.workload, *_devices(row.key.topology))):
        if row.provenance is Provenance.PUBLISHED:
            facts += [_document(row, m) for m in here.get((row.key.workload, row.key.topology, row.unit), [None])]
    return facts


def _document(row: Baseline, m: Measurement | None) -> dict[str, Any]:
    rate = m.throughput.examples_per_sec if m else None
    document, _, place = row.source.partition(",")
    return {
        "document": document,
        "place": place.strip(),
        "machine": row.machine,
        "workload": row.key.workload,
        "topology": row.key.topology,
        "unit": row.unit,
        "rate": rounded(row.value, 6),
        "here": rounded(rate),
        "here_machine": m.machine if m else None,
        "ratio": rounded(rate / row.value) if rate else None,
        "note": row.note,
    }


def _documents_curves(workload: str, unit: str, published: Sequence[Baseline]) -> list[dict[str, Any]]:
    rows_of: dict[str, list[tuple[str, float]]] = {}
    for row in published:
        if row.provenance is Provenance.PUBLISHED and (row.key.workload, row.unit) == (workload, unit):
            rows_of.setdefault(row.machine, []).append((row.key.topology, row.value))
    curves: list[dict[str, Any]] = [
        {"machine": machine, "points": _curve(rows)} for machine, rows in sorted(rows_of.items())
    ]
    return [curve for curve in curves if _scales(curve["points"])]


def _scales(points: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the points have different numbers of devices."""
    return len({point["devices"] for point in points}) > 1


def _curve(rates: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    known = sorted((*_devices(topology), topology, rate) for topology, rate in rates)
    fewest, _nodes, _topology, least = known[0]
    return [
        {
            "topology": topology,
            "nodes": nodes,
            "devices": devices,
            "rate": rounded(rate),
            "efficiency": rounded(rate / devices / (least / fewest), 4),
        }
        for devices, nodes, topology, rate in known
    ]


def _devices(topology: str) -> tuple[int, int]:
    """Return the number of devices and of nodes in a topology such as "2x4": 8 and 2."""
    parts = [int(part) for part in topology.split("x") if part.isdecimal()]
    return math.prod(parts) or 1, parts[0] if parts else 1


_MOST_POINTS = 300  # the most windows of one run, or values of one series of its telemetry, that a plot can show

_CONFIDENCE = 1.96  # standard errors, of a 95 % interval

_OF_THE_HOST = {
    "load": "load_average_mean",
    "cpu_mhz": "cpu_mhz_median",
    "other_cpu": "other_cpu_fraction_mean",
    "steal": "steal_fraction_mean",
}
_OF_A_GPU = {
    "celsius": "temperature_celsius_max",
    "sm_mhz": "sm_clock_mhz_median",
    "watts": "power_watts_mean",
    "utilisation": "utilisation_fraction_mean",
}


def run_facts(measurement: Measurement) -> list[dict[str, Any]]:
    """Return all runs of the session, including discarded ones, in order within each kind."""
    kinds = [
        *((run, "run") for run in measurement.runs),
        *(side for pair in measurement.pairs for side in ((pair.a, "reference"), (pair.b, "now"))),
        *((run, "discarded") for run in measurement.discarded),
        *((run, "discarded") for pair in measurement.discarded_pairs for run in (pair.a, pair.b)),
    ]
    is_training = not isinstance(measurement.workload, Command)
    return [_run(run, kind, is_training) for run, kind in kinds]


def _run(run: Run, kind: str, is_training: bool) -> dict[str, Any]:
    value = run_value(run)
    half = _CONFIDENCE * value.error
    warmup, windows = _merged(run.warmup), _merged(run.windows)
    return {
        "kind": kind,
        "rate": rounded(value.examples_per_sec),
        "low": rounded(value.examples_per_sec * math.exp(-half)),
        "high": rounded(value.examples_per_sec * math.exp(half)),
        "disturbance": disturbance_fact(run.disturbance) if run.disturbance else "",
        "compile_seconds": rounded(run.compile_seconds, 4),
        "warmup": len(warmup),
        "end_seconds": [rounded(end, 6) for end in itertools.accumulate(w.seconds for w in (*warmup, *windows))],
        "rates": [rounded(run.rate(w)) for w in (*warmup, *windows)],
        "telemetry": _telemetry(run, 0.0 if is_training else sum(w.seconds for w in run.warmup)),
    }


def _merged(windows: Sequence[Window]) -> list[Window]:
    """Merge neighbouring windows if there are more than a plot can show."""
    each = math.ceil(len(windows) / _MOST_POINTS) or 1
    groups = [windows[i : i + each] for i in range(0, len(windows), each)]
    return [
        Window(
            sum(w.steps for w in group),
            sum(w.seconds for w in group),
            examples=sum(w.examples or 0 for w in group) or None,
        )
        for group in groups
    ]


def _telemetry(run: Run, start: float) -> dict[str, Any] | None:
    """Return series over time, from `start` seconds after the beginning of the run's first window.

    The telemetry of a command's run starts after its warm-up.
    """
    polls = run.polls or ((run.telemetry,) if run.telemetry else ())
    if not polls:
        return None
    each = math.ceil(len(polls) / _MOST_POINTS)
    ends = list(itertools.accumulate(poll.seconds for poll in polls))
    return {
        "start_seconds": rounded(start, 4),
        "end_seconds": [rounded(end, 4) for end in ends[::each]],
        "series": list(_series(polls[::each])),
    }


def _series(polls: Sequence[Telemetry]) -> Iterator[dict[str, Any]]:
    for quantity, field in _OF_THE_HOST.items():
        yield from _device_series(quantity, "host", [getattr(poll, field) for poll in polls])
    for index in range(max(len(poll.gpus) for poll in polls)):
        for quantity, field in _OF_A_GPU.items():
            values = [getattr(poll.gpus[index], field) if index < len(poll.gpus) else None for poll in polls]
            yield from _device_series(quantity, f"GPU {index}", values)


def _device_series(quantity: str, device: str, values: Sequence[float | None]) -> Iterator[dict[str, Any]]:
    if any(value is not None for value in values):
        yield {"what": quantity, "device": device, "values": [rounded(value, 4) for value in values]}


def rounded(value: float | None, digits: int = 5) -> float | None:
    """Round to this many significant digits; None for infinity and NaN, which JSON can't hold."""
    if value is None:
        return None
    short = float(f"{value:.{digits}g}")
    if not math.isfinite(short):  # also where a value near the largest float is rounded up to infinity
        return None
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def day(time: str) -> str:
    """Return a date as people write it, "17 Nov 2026"; a text that is no time stays as it is."""
    parsed = moment(time)
    return time if parsed.year == 1 else f"{parsed.day} {parsed:%b %Y}"
