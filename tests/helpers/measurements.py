"""Builders for tests: runs, throughputs, baselines, verdicts and measurements with chosen figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import date
from typing import Any

from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import Command, Reads
from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind
from pytest_tfperf.core.figure import RATE, Figure
from pytest_tfperf.core.measurement import MeasuredSide, Measurement
from pytest_tfperf.core.past import ChangeKind, LastingChange
from pytest_tfperf.core.run import Pair, Run, Window
from pytest_tfperf.core.session_verdicts import SessionVerdict, VerdictOn, drift_verdict
from pytest_tfperf.core.throughput import RunValue, Throughput, hodges_lehmann, summarise
from pytest_tfperf.core.verdict import Noise, Outcome, Reason, Rule, Tolerance, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.target import Target

WORKLOAD = Workload(model="resnet50", batch_size=64)
KEY = Key(WORKLOAD.id, "1x8")
TEST = "perf_tests/test_a.py::test_b[1]"
NOISE = Noise(between_runs=0.012, degrees_of_freedom=36, rows=9)
BUSY = Disturbance(DisturbanceKind.OTHER_PROCESSES, 0.43, culprit="make (pid 4711)", cores=2)


def run(seconds: Sequence[float] = (0.064,), examples_per_step: int = 64, **more: Any) -> Run:
    """A run whose windows took these seconds, one step each."""
    return Run(tuple(Window(1, s) for s in seconds), examples_per_step, **more)


def run_at(examples_per_sec: float, **more: Any) -> Run:
    """A run of five windows at this throughput."""
    return run([64 / examples_per_sec] * 5, **more)


def pair(change: float, **more: Any) -> Pair:
    """An interleaved pair, b at 1 + change times the 1,000 images/s of a; `more` is of b."""
    return Pair(run_at(1000.0), run_at(1000.0 * (1 + change), **more), math.log1p(change), 0.001)


def throughput(*examples_per_sec: float, error: float = 0.001, **more: Any) -> Throughput:
    """Fresh runs of these values, each known to within `error`; an interval of 0.5 % on either side."""
    runs = tuple(RunValue(math.log(rate), error, 100) for rate in examples_per_sec)
    centre = math.exp(hodges_lehmann([value.log_rate for value in runs]))
    given: dict[str, Any] = {
        "examples_per_sec": centre,
        "low": centre * 0.995,
        "high": centre * 1.005,
        "runs": runs,
        "mean_examples_per_sec": centre,
        "uncertainty": 1.5,
        "jitter": 2.5,
        "steps": 100 * len(runs),
        "examples_per_step": 64,
    }
    return Throughput(**given | more)


def baseline(value: float = 1000.0, **more: Any) -> Baseline:
    """Five measured runs with a between-run standard deviation of 1 %."""
    given: dict[str, Any] = {"machine": "box", "key": KEY, "value": value, "runs": 5, "between_runs": 0.01}
    return Baseline(**given | more)


def verdict(outcome: Outcome = Outcome.PASS, change: float = 0.0, **more: Any) -> Verdict:
    """A verdict with a tolerance of 5 %, on a throughput that differs from a baseline of 1,000 by this fraction."""
    given: dict[str, Any] = {
        "outcome": outcome,
        "reason": Reason.WITHIN_TOLERANCE,
        "baseline": baseline(),
        "change": change,
        "tolerance": Tolerance(-0.05, 0.05),
        "threshold": 0.05,
        "min_detectable_slowdown": 0.087,
        "noise": NOISE,
    }
    return Verdict(**given | more)


def acknowledged(change: float = -0.13, worst: float = -0.15, **more: Any) -> Acknowledgement:
    """A loss of 13 % that the team knows of until 2027-01-15."""
    given: dict[str, Any] = {
        "machine": "box",
        "test": TEST,
        "workload": KEY.workload,
        "topology": KEY.topology,
        "figure": RATE,
        "until": date(2027, 1, 15),
        "why": "bug 123",
    }
    return Acknowledgement(change=change, worst=worst, **given | more)


def verdicts(verdict: Verdict | None = None, figures: Sequence[Verdict] = ()) -> tuple[Verdict, ...]:
    """A measurement's verdicts: on the throughput, by default one without an outcome, and on its figures."""
    return (verdict or Verdict(), *figures)


def measurement(
    now: Throughput | None = None, *, verdict: Verdict | None = None, figures: Sequence[Verdict] = (), **more: Any
) -> Measurement:
    """One run at 1,000 images/s, not judged; `figures` are the verdicts on figures beside the throughput."""
    now = now or throughput(1000.0)
    given: dict[str, Any] = {
        "test": TEST,
        "workload": WORKLOAD,
        "topology": "1x8",
        "machine": "box",
        "devices": "8x Tesla P100",
        "runs": (run(),),
        "throughput": now,
        "verdicts": verdicts(replace(verdict or Verdict(), value=now.examples_per_sec), figures),
        "time": "2026-01-02T03:04:05+00:00",
        "seconds": 12.0,
    }
    return Measurement(**given | more)


def interleaved(
    outcome: Outcome | None = Outcome.REGRESSED,
    ratio: float = 0.9,
    *,
    figures: Sequence[Verdict] = (),
    a: Mapping[str, Any] | None = None,
    tolerance: Tolerance | None = None,
    reason: Reason = Reason.CONFIRMED,
    interval: tuple[float, float] | None = None,
    **more: Any,
) -> Measurement:
    """Three pairs with another side, 10 % slower under a newer TensorFlow; `a` are fields of that side."""
    side: dict[str, Any] = {
        "workload": WORKLOAD,
        "throughput": throughput(1000.0),
        "environment": {"tensorflow": "2.16.2"},
    }
    of_ratio = Verdict(
        outcome=outcome,
        reason=reason,
        value=1000.0 * ratio,
        rule=Rule.OTHER_SIDE,
        change=ratio - 1,
        confirmed_change=ratio - 1,
        confirmed_from=1000.0,
        interval=interval or (ratio - 1.01, ratio - 0.99),
        tolerance=tolerance or Tolerance(),
    )
    given: dict[str, Any] = {
        "runs": (),
        "pairs": (pair(-0.1), pair(-0.104), pair(-0.096)),
        "verdicts": (of_ratio, *figures),
        "other": MeasuredSide(**side | dict(a or {})),
        "environment": {"tensorflow": "2.21.0"},
        "seconds": 30.0,
        "time": "",
    }
    return measurement(throughput(1000.0 * ratio), **given | more)


def command(**how: Any) -> Command:
    """A command `it`, of fields of `Command` and of its `Reads`, which by default find "9 examples/s"."""
    names = {each.name for each in fields(Reads)}
    stated = {name: how.pop(name) for name in names & how.keys()}
    if not stated.keys() & {"format", "pattern", "field", "parse", "examples"}:
        stated["pattern"] = r"(?P<rate>[^ ]{1,40}) examples/s"
    reads = Reads(**stated)
    return Command(**{"name": "it", "argv": ("it",), "reads": reads} | how)


def session_verdict(
    outcome: Outcome = Outcome.REGRESSED, *, kind: str = "machine", machine: str = "box", change: float = -0.683
) -> SessionVerdict:
    """A verdict on the machine, which is 68.3 % slower than its baselines."""
    if kind == "drift":
        return drift_verdict(machine, [lasting_change()])
    return SessionVerdict(
        kind=VerdictOn(kind),
        outcome=outcome,
        machine=machine,
        change=change,
        interval=(change - 0.01, change + 0.01),
        threshold=0.05,
        tests=13,
    )


def lasting_change(**more: Any) -> LastingChange:
    """`test_a.py::test_b` is 3.1 % slower since a session of February."""
    given: dict[str, Any] = {
        "machine": "box",
        "test": "test_a.py::test_b",
        "key": Key("resnet50-b64", "1x8"),
        "kind": ChangeKind.STEP,
        "session": "20260220-030000-abcdef",
        "time": "2026-02-20T03:00:00+00:00",
        "last_session": "20260220-030000-abcdef",
        "found_session": "20260224-030000-123456",
        "commit_before": "0123456789abcdef",
        "commit_after": "fedcba9876543210",
        "size": -0.031,
        "low": -0.036,
        "high": -0.026,
        "sessions_since": 30,
    }
    return LastingChange(**given | more)


def figure_evidence(
    figure: Figure,
    values: Sequence[float | None],
    row: Baseline | None,
    noise: Noise | None,
    *,
    pairs: Sequence[tuple[float | None, float | None]] = (),
    **more: Any,
) -> Evidence:
    """The evidence of a figure beside a throughput that nobody asks about."""

    def run_with(value: float | None) -> Run:
        return run_at(1000.0, figures={} if value is None else {figure.name: value})

    given = {"throughput": summarise([run_at(1000.0)]), "tolerance": Tolerance()} | more
    return Evidence(
        figure=figure,
        values=values,
        target=Target(row, noise=noise),
        pairs=[Pair(run_with(a), run_with(b), 0.0, 0.001) for a, b in pairs],
        **given,
    )
