"""What the page draws as curves: a run's windows and telemetry over time, throughput over devices, documents beside it.

Figures have few digits, because a year of sessions has 100,000 of them.
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
    """Workloads that were measured on several numbers of devices, with the documents' curves of the same workload.

    Efficiency is throughput per device, relative to that of the smallest number of devices; linear scaling is 1.
    """
    groups: dict[tuple[str, str, str], dict[str, Measurement]] = {}
    for one in measurements:
        if one.is_valid:
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
        if one.is_valid:
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


_MOST_POINTS = 300
"""The most windows of one run, or values of one series of its telemetry, that a plot can show."""

_CONFIDENCE = 1.96

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
    """All runs of the session, including discarded ones, in order within each kind."""
    kinds = [
        *((run, "run") for run in measurement.runs),
        *(one for pair in measurement.pairs for one in ((pair.a, "reference"), (pair.b, "now"))),
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
        "rate": figure(value.examples_per_sec),
        "low": figure(value.examples_per_sec * math.exp(-half)),
        "high": figure(value.examples_per_sec * math.exp(half)),
        "disturbance": disturbance_fact(run.disturbance) if run.disturbance else "",
        "compile_seconds": figure(run.compile_seconds, 4),
        "warmup": len(warmup),
        "end_seconds": [figure(end, 6) for end in itertools.accumulate(w.seconds for w in (*warmup, *windows))],
        "rates": [figure(run.examples_per_step * w.steps / w.seconds) for w in (*warmup, *windows)],
        "telemetry": _telemetry(run, 0.0 if is_training else sum(w.seconds for w in run.warmup)),
    }


def _merged(windows: Sequence[Window]) -> list[Window]:
    """The windows; neighbours are merged if there are more than a plot can show."""
    each = math.ceil(len(windows) / _MOST_POINTS) or 1
    groups = [windows[i : i + each] for i in range(0, len(windows), each)]
    return [Window(sum(w.steps for w in group), sum(w.seconds for w in group)) for group in groups]


def _telemetry(run: Run, start: float) -> dict[str, Any] | None:
    """Series over time, from `start` seconds after the beginning of the run's first window; None without telemetry.

    The telemetry of a command's run starts after its warm-up.
    """
    polls = run.polls or ((run.telemetry,) if run.telemetry else ())
    if not polls:
        return None
    each = math.ceil(len(polls) / _MOST_POINTS)
    ends = list(itertools.accumulate(poll.seconds for poll in polls))
    return {
        "start_seconds": figure(start, 4),
        "end_seconds": [figure(end, 4) for end in ends[::each]],
        "series": list(_series(polls[::each])),
    }


def _series(polls: Sequence[Telemetry]) -> Iterator[dict[str, Any]]:
    for what, name in _OF_THE_HOST.items():
        yield from _one_series(what, "host", [getattr(poll, name) for poll in polls])
    for index in range(max(len(poll.gpus) for poll in polls)):
        for what, name in _OF_A_GPU.items():
            values = [getattr(poll.gpus[index], name) if index < len(poll.gpus) else None for poll in polls]
            yield from _one_series(what, f"GPU {index}", values)


def _one_series(what: str, device: str, values: Sequence[float | None]) -> Iterator[dict[str, Any]]:
    if any(value is not None for value in values):
        yield {"what": what, "device": device, "values": [figure(value, 4) for value in values]}


_DIGITS = 5


def figure(value: float | None, digits: int = _DIGITS) -> float | None:
    """The value with this many significant digits; None for infinity and NaN, which JSON can't hold."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    if not math.isfinite(rounded):
        return None
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def day(time: str) -> str:
    """A date as people write it: "17 Nov 2026"; a text that is no time stays as it is."""
    parsed = moment(time)
    return time if parsed.year == 1 else f"{parsed.day} {parsed:%b %Y}"
