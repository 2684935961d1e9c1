"""A measurement as the commands print it with --json."""

from __future__ import annotations

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.plain_json import plain


def measurement_json(m: Measurement) -> dict[str, object]:
    """Its throughput and its verdict, without its runs."""
    t = m.throughput
    return {
        "test": m.test,
        "session": m.session,
        "time": m.time,
        "machine": m.machine,
        "workload": m.workload.id,
        "name": m.name,
        "topology": m.topology,
        "unit": t.unit,
        "examples_per_sec": t.examples_per_sec,
        "low": plain(t.low),
        "high": plain(t.high),
        "verdict": plain(m.verdict),
    }
