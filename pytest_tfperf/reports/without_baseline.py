"""The words for a measurement without a baseline: why earlier sessions give none, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import NotProvisional, not_provisional
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.lines import one_line
from pytest_tfperf.reports.invalid import ADVICE, disturbance_fact

_MOST_SESSIONS: Final = 3


def without_baseline(m: Measurement, earlier: Sequence[Measurement]) -> Iterator[str]:
    """Say why each of the latest sessions gives no provisional baseline, whether this one will, and what to do.

    `earlier` are the test's measurements of earlier sessions, latest first.
    """
    alike = [past for past in earlier if (past.machine, past.key) == (m.machine, m.key)]
    if alike:
        yield f"Earlier sessions on {one_line(m.machine)}, the latest first:"
        yield from (f"  {one_line(past.session)}: {_use(past, m)}" for past in alike[:_MOST_SESSIONS])
    else:
        yield f"No earlier session has measured this workload of the test on {one_line(m.machine)}."
        if earlier:
            last = earlier[0]
            what = f"{last.workload.id} {last.topology} on {one_line(last.machine)}"
            yield f"The last one, {one_line(last.session)}, measured {what}."
    if (reason := not_provisional(m)) is None:
        yield f"Record a baseline with {recording_option()}, or measure again: this session is then a provisional one."
        return
    yield f"This session is no provisional baseline for later ones, because {_why(m, reason)}."
    if disturbances := [run.disturbance for run in m.runs if run.disturbance]:
        yield f"Before you measure again, or record, {ADVICE[disturbances[-1].kind]}."
    else:
        yield f"Record a baseline with {recording_option()}, or measure again."


def _use(past: Measurement, m: Measurement) -> str:
    if (reason := not_provisional(past)) is not None:
        return f"no provisional baseline, because {_why(past, reason)}"
    if past.gpu != m.gpu:
        return f"no provisional baseline, because it ran on {past.gpu or 'CPUs'}"
    if past.throughput.unit != m.throughput.unit:
        return f"no provisional baseline, because it counted {past.throughput.unit}"
    return "a provisional baseline, which does not count with --tfperf-require-baseline"


def _why(m: Measurement, reason: NotProvisional) -> str:
    if reason is NotProvisional.DISTURBED and (disturbance := m.runs[-1].disturbance):
        return disturbance_fact(disturbance)
    return _WHY[reason]


_WHY: Final = {
    NotProvisional.SLOWED_ON_PURPOSE: "it was slowed down on purpose (--tfperf-inject-slowdown)",
    NotProvisional.REFUSED: "its runs were refused as a baseline, or the recording did not come to its end",
    NotProvisional.UNDECIDED: "it ended before its last runs",
    NotProvisional.REGRESSED: "it is REGRESSED",
    NotProvisional.INVALID: "it is INVALID",
    NotProvisional.DISTURBED: "each run was disturbed",
}
