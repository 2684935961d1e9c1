"""The `throughput` fixture: what a test author calls, and how its outcomes reach the test."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pytest_tfperf.bench.comparing import MOST_PAIRS, MOST_SECONDS, Cap, Side, compare
from pytest_tfperf.bench.disturbance import Guard
from pytest_tfperf.bench.one_run import Spoilt
from pytest_tfperf.bench.windows import SMOKE, Plan
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.consequence import Consequence, consequence, outcome_of
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, NoBaseline, TfperfError, ThroughputRegression
from pytest_tfperf.judging.published_ratios import published_ratio
from pytest_tfperf.reports import comparisons, ratios
from pytest_tfperf.reports.commands import rerun
from pytest_tfperf.reports.message import headline, message, spoilt
from pytest_tfperf.session import Session
from pytest_tfperf.stores.recorder import Taking
from pytest_tfperf.workers.launcher import SKIPPED


class MissingBaseline(AssertionError):
    """There is no baseline, and the nightly gate wants one."""


class Inconclusive(AssertionError):
    """A drop is suspected and not confirmed, and `--tfperf-strict` was given."""


_FAILURE_OF = {
    Outcome.REGRESSED: ThroughputRegression,
    Outcome.NO_BASELINE: MissingBaseline,
    Outcome.INCONCLUSIVE: Inconclusive,
}
FAILURES = tuple(_FAILURE_OF.values())
"""What an outcome fails its test with."""


@dataclass
class ThroughputFixture:
    """What a test measures with: `throughput`.

    Args:
        session: the session's state.
        test: pytest's node id.
        records: what this test has checked so far; judged outcomes are applied when its body is through.
        comparisons: what it has compared so far; the same holds.
    """

    session: Session
    test: str
    records: list[Measurement] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    _over: bool = False
    _to_save: list[Measurement] = field(default_factory=list)
    _remarks: list[str] = field(default_factory=list)

    def check(
        self,
        workload: Workload,
        *,
        on: Topology,
        tolerance: float | tuple[float | None, float | None] | Tolerance | None = None,
        steps: int | None = None,
        warmup_steps: int | None = None,
    ) -> Throughput:
        """Measure and judge; a regression fails the test once its body is through, so that further asserts run first.

        Args:
            workload: what to train.
            on: what to train it on, from `gpu_topology.take(n)`.
            tolerance: the change that is accepted: 0.05, or (-0.05, None) for no upper bound.
            steps: the most steps that are timed.
            warmup_steps: the least that are not, before them.

        Returns:
            what was measured, also where there is no baseline: assert scaling and ratios with its `images_per_sec`.

        Raises:
            WorkloadError, TfperfError: an argument that can't be one.
            MeasurementError: the worker died, hung or raised.
            BaselineError: the machine's file can't be read; with `--tfperf-strict`, the test's own tolerance is tighter
                than the baseline can resolve.
        """
        self._refuse(on)
        accepted = None if tolerance is None else Tolerance.of(tolerance)
        if self.session.settings.against is not None:
            a = Side(workload=workload, launcher=self.session.other_launcher, data=self.session.settings.data)
            return self._compare(a, self._ours(workload), on, accepted, steps, warmup_steps).b.throughput
        if accepted is not None and (said := self.session.refuse_too_tight(workload, on, accepted)):
            self._remarks.append(said)
        plan, earlier = self._plan(steps, warmup_steps), self._earlier(workload, on)
        record = earlier
        if record is None or record.undecided:
            bench = self.session.bench
            record = self._recorded(
                self._taking(workload, on, plan, accepted),
                lambda: bench.check(workload, on, plan, accepted, test=self.test, earlier=earlier),
                earlier,
            )
        if self.session.settings.update_baselines:
            self._to_save.append(record)
        return self._keep(record)

    def measure(
        self, workload: Workload, *, on: Topology, steps: int | None = None, warmup_steps: int | None = None
    ) -> Throughput:
        """Measure and judge nothing; otherwise as `check`."""
        self._refuse(on)
        if (earlier := self._earlier(workload, on)) is not None:
            return self._keep(earlier)
        plan = self._plan(steps, warmup_steps)
        taking, bench = self._taking(workload, on, plan, None), self.session.bench
        return self._keep(self._recorded(taking, lambda: bench.measure(workload, on, plan, test=self.test)))

    def compare(
        self,
        a: Workload,
        b: Workload,
        *,
        on: Topology,
        tolerance: float | tuple[float | None, float | None] | Tolerance | None = None,
        max_pairs: int = MOST_PAIRS,
        max_seconds: float = MOST_SECONDS,
        steps: int | None = None,
        warmup_steps: int | None = None,
    ) -> Comparison:
        """Hold b against a, in turns: REGRESSED, which fails the test once its body is through, means b is slower.

        Args:
            a, b: what to train on either side; `.ratio` of what is returned is b / a.
            on: what to train both on, from `gpu_topology.take(n)`.
            tolerance: the change of b against a that is accepted, as in `check`; there is no baseline.
            max_pairs: fresh pairs of workers after which it ends INCONCLUSIVE.
            max_seconds: it does so too where the next pair would probably end later.
            steps: the most steps that each worker is timed for.
            warmup_steps: the least that it isn't, before them.

        Raises:
            WorkloadError, TfperfError: an argument that can't be one.
            MeasurementError: a worker died, hung or raised.
        """
        self._refuse(on)
        accepted = None if tolerance is None else Tolerance.of(tolerance)
        cap = Cap(pairs=max_pairs, seconds=max_seconds)
        left = Side(workload=a, launcher=self.session.launcher, data=self.session.settings.data)
        return self._compare(left, self._ours(b), on, accepted, steps, warmup_steps, cap)

    def check_ratio(
        self,
        workload: Workload,
        *,
        on: Topology,
        over: Workload,
        over_on: Topology | None = None,
        tolerance: float | tuple[float | None, float | None] | Tolerance = 0.1,
        steps: int | None = None,
        warmup_steps: int | None = None,
    ) -> float:
        """Measure two workloads and hold their ratio against the documents': it holds on machines that are not theirs.

        Args:
            workload: what to train.
            on: what to train it on, from `gpu_topology.take(n)`.
            over: what its images/s are divided by those of.
            over_on: what to train that on; None: the same.
            tolerance: how far below the documents' lowest ratio for these two it may lie.
            steps, warmup_steps: as in `check`, for either.

        Returns:
            the ratio; after a first pair of fresh workers that falls short, the median of three.

        Raises:
            ThroughputRegression: the ratio falls short; says the documents' rows and figures.
            BaselineError: no document gives both figures.
            and as `check`.
        """
        other = on if over_on is None else over_on
        self._refuse(on, other)
        published = published_ratio(self.session.baselines, Key(workload.id, on.shape), Key(over.id, other.shape))
        least = published.value * (1 + (Tolerance.of(tolerance).lower or -1.0))

        def pair() -> tuple[float, float]:
            figure = self.measure(workload, on=on, steps=steps, warmup_steps=warmup_steps)
            base = self.measure(over, on=other, steps=steps, warmup_steps=warmup_steps)
            return figure.images_per_sec, base.images_per_sec

        pairs = [pair()]
        if pairs[0][0] / pairs[0][1] < least and not self.session.settings.smoke:
            pairs += [pair(), pair()]  # one pair may have met a slow spell of the machine
        ratio = statistics.median(one / another for one, another in pairs)
        if ratio < least and not self.session.settings.smoke:
            command = rerun(self.test, self.session.settings.again)
            raise ThroughputRegression(ratios.message(pairs, published, least, command))
        return ratio

    @contextmanager
    def open_for_calls(self) -> Iterator[None]:
        """While the body runs; what is measured after it, in a fixture's teardown, could fail nothing any more."""
        try:
            yield
        finally:
            self._over = True

    def conclude(self, warn: Callable[[str], None]) -> None:
        """Apply the outcomes: called when the test's body is through, and only if it did not fail.

        Where a verdict wants more runs, none is applied: the test is `undecided`, and is run again after all others.

        Raises:
            ThroughputRegression, MissingBaseline, Inconclusive: the test fails.
            MeasurementError, BaselineError: it errors.
            NoBaseline: it is skipped.
        """
        if self.undecided:
            return
        for remark in self._remarks:
            warn(remark)
        found: dict[Consequence, list[Measurement | Comparison]] = {kind: [] for kind in Consequence}
        for judged in self._judged:
            found[consequence(judged, self.session.settings)].append(judged)
        for record in self.records:
            if skipped := record.environment.get(SKIPPED):
                warn(f"{record.workload.id} on {record.devices}: records skipped: {skipped.replace('_', ' ')}")
        for judged in found[Consequence.WARNS]:
            warn(self._messages([judged]))
        if failing := found[Consequence.FAILS]:
            raise self._failure(failing)
        if invalid := found[Consequence.ERRORS]:
            raise MeasurementError(self._messages(invalid))
        self._save()
        if unknown := found[Consequence.SKIPS]:
            raise NoBaseline(self._messages(unknown))

    def _save(self) -> None:
        """As baselines; one that can't be one keeps no other from it."""
        refused: list[MeasurementError] = []
        for record in self._to_save:
            try:
                self.session.changes.append(self.session.bench.save(record))
            except MeasurementError as error:
                refused.append(error)
        if refused:
            raise MeasurementError("\n\n".join(map(str, refused)))

    @property
    def undecided(self) -> bool:
        """Whether a check wants fresh runs at the end of the session."""
        return any(record.undecided for record in self.records)

    def unsaid(self) -> str:
        """What speaks against the test besides, where its body failed first: a regression, or one that is suspected."""
        settings = self.session.settings
        against = (Consequence.FAILS, Consequence.WARNS)
        return self._messages([j for j in self._judged if consequence(j, settings) in against])

    def failed(self) -> str:
        """What fails the test although it came to no end: the regressions that were confirmed before that; else ""."""
        settings = self.session.settings
        decided = [j for j in self._judged if not (isinstance(j, Measurement) and j.undecided)]
        return self._messages([j for j in decided if consequence(j, settings) is Consequence.FAILS])

    def _refuse(self, *topologies: Topology) -> None:
        if self._over:
            raise TfperfError(
                "throughput: the test's body is through, and what is measured now could not fail it. "
                "Measure in the test, or in a fixture before its yield"
            )
        if any(not on.is_taken for on in topologies):
            raise TfperfError("on=gpu_topology: say how many devices, on=gpu_topology.take(n)")

    def _earlier(self, workload: Workload, on: Topology) -> Measurement | None:
        """What this very call gave when the test ran first, where it runs again to be decided.

        Raises:
            TfperfError: the test makes other calls than it did then.
        """
        place, earlier = len(self.records), self.session.deferred.get(self.test, [])
        if place >= len(earlier):
            return None
        record = earlier[place]
        if (record.key, record.machine) != (Key(workload.id, on.shape), on.machine):
            raise TfperfError(
                f"call {place + 1} of this test measured {record.workload.id} ({record.topology}) when it ran first, "
                f"and asks for {workload.id} ({on.shape}) now. A test that is in doubt runs again: it must make the "
                "same calls each time"
            )
        return record

    @property
    def _judged(self) -> list[Measurement | Comparison]:
        return [*self.records, *self.comparisons]

    def _ours(self, workload: Workload) -> Side:
        """Side b: this Python, and the side that a slowdown on purpose is for; on both it would cancel out."""
        session = self.session
        return Side(
            workload=workload,
            launcher=session.launcher,
            slowdown=session.settings.inject_slowdown,
            data=session.settings.data,
        )

    def _compare(
        self,
        a: Side,
        b: Side,
        on: Topology,
        accepted: Tolerance | None,
        steps: int | None,
        warmup_steps: int | None,
        cap: Cap | None = None,
    ) -> Comparison:
        session, settings = self.session, self.session.settings
        done = session.comparisons.setdefault(self.test, [])
        if len(self.comparisons) == len(done):  # else the test runs again because a check of it was undecided
            plan = SMOKE if settings.smoke else self._plan(steps, warmup_steps)
            accepted = accepted or Tolerance.of(settings.tolerance)
            try:
                found = compare(
                    a,
                    b,
                    on,
                    plan,
                    accepted,
                    session.live,
                    cap=cap,
                    guard=Guard(settings.limits),
                    largest_batch=session.largest_batch,
                    judged=not settings.smoke,
                    test=self.test,
                )
            except MeasurementError as error:
                raise type(error)(str(error) + self._next()) from error
            session.keep(found)
            done.append(found)
        self.comparisons.append(done[len(self.comparisons)])
        return self.comparisons[-1]

    def _taking(self, workload: Workload, on: Topology, plan: Plan, accepted: Tolerance | None) -> Taking:
        return Taking(
            test=self.test, place=len(self.records), workload=workload, topology=on, plan=plan, tolerance=accepted
        )

    def _recorded(
        self, taking: Taking, measured: Callable[[], Measurement], earlier: Measurement | None = None
    ) -> Measurement:
        """What is measured, with its trial kept where that is asked for; also of what came to nothing."""
        try:
            record = measured()
        except Spoilt as error:
            self.session.recorder.keep_spoilt(error, earlier, taking)
            raise MeasurementError(spoilt(str(error), error.attempts) + self._next(earlier)) from error
        except MeasurementError as error:
            raise type(error)(str(error) + self._next(earlier)) from error
        self.session.recorder.keep(record, taking)
        return record

    def _next(self, earlier: Measurement | None = None) -> str:
        """Below what came to nothing: what the runs before had measured, and the command that measures again."""
        before = f"\nbefore that: {headline(earlier)}" if earlier is not None else ""
        return f"{before}\n  rerun       {rerun(self.test, self.session.settings.again)}"

    def _keep(self, record: Measurement) -> Throughput:
        self.records.append(record)
        self.session.records.append(record)
        return record.throughput

    def _messages(self, judged: Sequence[Measurement | Comparison]) -> str:
        again = self.session.settings.again
        return "\n\n".join(
            message(j, again) if isinstance(j, Measurement) else comparisons.message(j, again) for j in judged
        )

    def _failure(self, judged: Sequence[Measurement | Comparison]) -> AssertionError:
        """The exception of the gravest outcome, with all that there is to say."""
        outcomes = {outcome_of(j) for j in judged}
        kinds = (kind for outcome, kind in _FAILURE_OF.items() if outcome in outcomes)
        return next(kinds, MissingBaseline)(self._messages(judged))  # above a floor it is a baseline that is missing

    def _plan(self, steps: int | None, warmup_steps: int | None) -> Plan:
        settings = self.session.settings
        return Plan(
            steps=settings.steps if steps is None else steps,
            warmup_steps=settings.warmup_steps if warmup_steps is None else warmup_steps,
            max_seconds=settings.max_time,
        )
