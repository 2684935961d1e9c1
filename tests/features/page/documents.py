"""A report's document of measurements that are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import LastingChange, Value
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.features.page.facts import report_facts
from pytest_tfperf.features.page.past import Past


def facts_of(
    *results: Measurement,
    past: Sequence[Value] = (),
    changes: Sequence[LastingChange] = (),
    previous: Sequence[Measurement] = (),
    published: Sequence[Baseline] = (),
    scope: str = "",
    **found: Any,
) -> dict[str, Any]:
    """Of a session with these results; `found` is the rest of its `SessionResult`."""
    result = SessionResult(results=results, **found)
    around = Past.of(past, result.alone, changes=changes, previous=previous)
    return report_facts(result, around, published, scope=scope)
